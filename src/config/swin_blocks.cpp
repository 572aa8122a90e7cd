#include "config/swin_blocks.h"

namespace lockstep::config {
namespace {

constexpr double kSwinDeviation = 0.02;

}  // namespace

void add_swin_linear(ParamList& list, const std::string& name, int64_t in, int64_t out) {
  list.add_linear(name, in, out, normal(kSwinDeviation), zeros());
}

void add_swin_block(ParamList& list, const std::string& name, const SwinSizes& sizes) {
  const int64_t width = sizes.width, distances = (2 * sizes.window - 1) * (2 * sizes.window - 1);
  list.add_layer_norm(name + ".norm1", width);
  list.add(name + ".attn.relative_position_bias_table", {distances, sizes.heads}, normal(kSwinDeviation), false);
  add_swin_linear(list, name + ".attn.qkv", width, 3 * width);
  add_swin_linear(list, name + ".attn.proj", width, width);
  list.add_layer_norm(name + ".norm2", width);
  add_swin_linear(list, name + ".mlp.fc1", width, sizes.mlp_width);
  add_swin_linear(list, name + ".mlp.fc2", sizes.mlp_width, width);
}

void add_patch_merging(ParamList& list, const std::string& name, int64_t width) {
  list.add_layer_norm(name + ".norm", 4 * width);
  list.add(name + ".reduction.weight", {2 * width, 4 * width}, normal(kSwinDeviation), true);
}

double swin_block_flops(const SwinSizes& sizes, int64_t cells) {
  const auto c = static_cast<double>(cells), width = static_cast<double>(sizes.width),
             mlp_width = static_cast<double>(sizes.mlp_width), area = static_cast<double>(sizes.window * sizes.window);
  return 2.0 * c * width * (4.0 * width + 2.0 * mlp_width) + 4.0 * c * area * width;
}

}  // namespace lockstep::config
