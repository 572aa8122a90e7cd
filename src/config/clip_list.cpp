#include "config/clip_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/clip_shape.h"
#include "core/error.h"

namespace lockstep::config {
namespace {

/// Names of OpenCLIP's list that are not here.
constexpr const char* kMissingModels[] = {"MobileCLIP-S1",  "MobileCLIP-S2",  "MobileCLIP2-S0",
                                          "MobileCLIP2-S2", "MobileCLIP2-S3", "MobileCLIP2-S4"};

std::string row_of(const ClipListEntry& entry) {
  if (!entry.missing.empty()) return fmt::format("| {} | - | - | no: {} |\n", entry.name, entry.missing);
  const ClipCost cost = clip_cost(resolve_clip_shape(entry.name));
  return fmt::format("| {} | {:.1f} | {:.1f} | yes |\n", entry.name, static_cast<double>(cost.parameters()) / 1e6,
                     (cost.image_forward_flops + cost.text_forward_flops + cost.caption_forward_flops) / 1e9);
}

}  // namespace

std::vector<ClipListEntry> openclip_models() {
  std::vector<ClipListEntry> entries;
  for (std::string& name : clip_model_names()) entries.push_back({std::move(name), ""});
  for (const char* name : kMissingModels) entries.push_back({name, clip_refusal(name)});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

std::string openclip_models_page() {
  const auto entries = openclip_models();
  const auto num_here = std::count_if(entries.begin(), entries.end(), [](const auto& e) { return e.missing.empty(); });
  std::string page = fmt::format(
      "# Models of OpenCLIP\n\n"
      "Written by `lockstep train clip --list-models`; do not edit. Of the {} configurations of OpenCLIP 3.3.0 {} are\n"
      "here. Forward work is that of one pair, 2 operations per multiply-add.\n\n"
      "| model | million parameters | forward GFLOP | here |\n|---|---|---|---|\n",
      entries.size(), num_here);
  for (const ClipListEntry& entry : entries) page += row_of(entry);
  return page;
}

}  // namespace lockstep::config
