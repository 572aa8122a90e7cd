#include "config/clip_blocks.h"

#include <cmath>

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

void add_cross_attention(ParamList& list, const std::string& name, int64_t width, int64_t context_width) {
  const auto xavier = [](int64_t in, int64_t out) { return uniform(std::sqrt(6.0 / static_cast<double>(in + out))); };
  if (context_width == width) {
    list.add(name + ".in_proj_weight", {3 * width, width}, xavier(width, 3 * width), true);
  } else {
    list.add(name + ".q_proj_weight", {width, width}, xavier(width, width), true);
    for (const char* part : {".k_proj_weight", ".v_proj_weight"})
      list.add(name + part, {width, context_width}, xavier(context_width, width), true);
  }
  list.add(name + ".in_proj_bias", {3 * width}, zeros(), true);
  list.add_linear(name + ".out_proj", width, width, fan_in(width), zeros());
}

void add_cross_block(ParamList& list, const std::string& name, int64_t width, int64_t mlp_width, const BlockLaws& laws,
                     const std::optional<double>& layer_scale) {
  list.add_layer_norm(name + ".ln_1", width);
  add_cross_attention(list, name + ".attn", width, width);
  if (layer_scale) list.add(name + ".ls_1.gamma", {width}, constant(*layer_scale), false);
  list.add_layer_norm(name + ".ln_1_kv", width);
  list.add_layer_norm(name + ".ln_2", width);
  list.add_linear(name + ".mlp.c_fc", width, mlp_width, laws.c_fc, fan_in(width));
  list.add_linear(name + ".mlp.c_proj", mlp_width, width, laws.c_proj, fan_in(mlp_width));
  if (layer_scale) list.add(name + ".ls_2.gamma", {width}, constant(*layer_scale), false);
}

void add_attentional_pooler(ParamList& list, const std::string& name, int64_t num_queries, int64_t width,
                            int64_t context_width) {
  list.add(name + ".query", {num_queries, width}, normal(1.0), false);
  add_cross_attention(list, name + ".attn", width, context_width);
  list.add_layer_norm(name + ".ln_q", width);
  list.add_layer_norm(name + ".ln_k", context_width);
}

double cross_attention_flops(int64_t queries, int64_t tokens, int64_t width, int64_t context_width) {
  const auto q = static_cast<double>(queries), t = static_cast<double>(tokens), w = static_cast<double>(width),
             c = static_cast<double>(context_width);
  return 2.0 * q * 2.0 * w * w + 2.0 * t * c * 2.0 * w + 4.0 * q * t * w;
}

double block_flops(int64_t tokens, int64_t width, int64_t mlp_width) {
  const auto t = static_cast<double>(tokens), w = static_cast<double>(width), f = static_cast<double>(mlp_width);
  return 2.0 * t * (4.0 * w * w + 2.0 * w * f) + 4.0 * t * t * w;
}

}  // namespace lockstep::config
