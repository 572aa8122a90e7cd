#include "config/clip_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/clip_shape.h"

namespace lockstep::config {

std::string openclip_models_page() {
  std::vector<std::string> names = clip_model_names();
  std::sort(names.begin(), names.end());
  std::string page = fmt::format(
      "# Models of OpenCLIP\n\n"
      "Written by `lockstep train clip --list-models`; do not edit. All {} configurations of OpenCLIP 3.3.0 are here.\n"
      "Forward work is that of one pair, 2 operations per multiply-add.\n\n"
      "| model | million parameters | forward GFLOP |\n|---|---|---|\n",
      names.size());
  for (const std::string& name : names) {
    const ClipCost cost = clip_cost(resolve_clip_shape(name));
    page += fmt::format("| {} | {:.1f} | {:.1f} |\n", name, static_cast<double>(cost.parameters()) / 1e6,
                        (cost.image_forward_flops + cost.text_forward_flops + cost.caption_forward_flops) / 1e9);
  }
  return page;
}

}  // namespace lockstep::config
