#include "config/clip_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/clip_shape.h"

namespace lockstep::config {

namespace {

struct Row {
  std::string name;
  double million_parameters = 0, forward_gflop = 0;  ///< Of one pair.
};

std::vector<Row> rows_by_name() {
  std::vector<std::string> names = clip_model_names();
  std::sort(names.begin(), names.end());
  std::vector<Row> rows;
  for (const std::string& name : names) {
    const ClipCost cost = clip_cost(resolve_clip_shape(name));
    rows.push_back({name, static_cast<double>(cost.parameters()) / 1e6,
                    (cost.image_forward_flops + cost.text_forward_flops + cost.caption_forward_flops) / 1e9});
  }
  return rows;
}

}  // namespace

std::string openclip_models_page() {
  const std::vector<Row> rows = rows_by_name();
  std::string page = fmt::format(
      "# Models of OpenCLIP\n\n"
      "Written by `lockstep train clip --list-models`; do not edit. All {} configurations of OpenCLIP 3.3.0 are here.\n"
      "Forward work is that of one pair, 2 operations per multiply-add.\n\n"
      "| model | million parameters | forward GFLOP |\n|---|---|---|\n",
      rows.size());
  for (const Row& row : rows)
    page += fmt::format("| {} | {:.1f} | {:.1f} |\n", row.name, row.million_parameters, row.forward_gflop);
  return page;
}

std::string openclip_models_list() {
  const std::vector<Row> rows = rows_by_name();
  std::string list = fmt::format("{:<44} {:>12} {:>16}\n", "model", "M parameters", "forward GFLOP");
  for (const Row& row : rows)
    list += fmt::format("{:<44} {:>12.1f} {:>16.1f}\n", row.name, row.million_parameters, row.forward_gflop);
  return list +
         fmt::format("\nAll {} configurations of OpenCLIP 3.3.0. Forward work is that of one pair.\n", rows.size());
}

}  // namespace lockstep::config
