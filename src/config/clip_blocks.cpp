#include "config/clip_blocks.h"

namespace lockstep::config {

void add_block(ParamList& list, const std::string& name, int64_t width, int64_t mlp_width, const BlockLaws& laws,
               const std::optional<double>& layer_scale) {
  list.add_layer_norm(name + ".ln_1", width);
  list.add(name + ".attn.in_proj_weight", {3 * width, width}, laws.in_proj, true);
  list.add(name + ".attn.in_proj_bias", {3 * width}, zeros(), true);
  list.add_linear(name + ".attn.out_proj", width, width, laws.out_proj, zeros());
  if (layer_scale) list.add(name + ".ls_1.gamma", {width}, constant(*layer_scale), false);
  list.add_layer_norm(name + ".ln_2", width);
  list.add_linear(name + ".mlp.c_fc", width, mlp_width, laws.c_fc, fan_in(width));
  list.add_linear(name + ".mlp.c_proj", mlp_width, width, laws.c_proj, fan_in(mlp_width));
  if (layer_scale) list.add(name + ".ls_2.gamma", {width}, constant(*layer_scale), false);
}

double block_flops(int64_t tokens, int64_t width, int64_t mlp_width) {
  const auto t = static_cast<double>(tokens), w = static_cast<double>(width), f = static_cast<double>(mlp_width);
  return 2.0 * t * (4.0 * w * w + 2.0 * w * f) + 4.0 * t * t * w;
}

}  // namespace lockstep::config
