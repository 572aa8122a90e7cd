// Parameters of CLIP in forward order, their initial laws and groups, and the work of one forward pass.
#include <algorithm>
#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/image_towers.h"
#include "config/param_list.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

void add_text(ParamList& list, const TextShape& text, int64_t embed_dim) {
  const int64_t width = text.width;
  const double attention = inverse_root(width), projection = attention * inverse_root(2 * text.layers);
  list.add("token_embedding.weight", {text.vocab_size, width}, normal(0.02), false);
  list.add("positional_embedding", {text.context_length, width}, normal(0.01), false);
  const BlockLaws laws{normal(attention), normal(projection), normal(inverse_root(2 * width)), normal(projection)};
  for (int64_t i = 0; i < text.layers; ++i)
    add_block(list, fmt::format("transformer.resblocks.{}", i), width, text.mlp_width(), laws, text.layer_scale);
  list.add_layer_norm("ln_final", width);
  list.add("text_projection", {width, embed_dim}, normal(attention), true);
}

}  // namespace

std::vector<ParamSpec> clip_param_specs(const ClipShape& shape) {
  ParamList list;
  with_tower(shape.vision, [&](auto tower) { tower.add_params(list, shape.vision, shape.embed_dim); });
  add_text(list, shape.text, shape.embed_dim);
  const std::vector<int64_t> scalar = shape.nonscalar_logit_scale ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  list.add("logit_scale", scalar, constant(shape.init_logit_scale), false);
  list.bound_last(kLowestLogitScale, kHighestLogitScale);
  if (shape.init_logit_bias) list.add("logit_bias", scalar, constant(*shape.init_logit_bias), false);
  return list.take();
}

double clip_text_forward_flops(const ClipShape& shape, int64_t tokens) {
  const TextShape& text = shape.text;
  return static_cast<double>(text.layers) * block_flops(tokens, text.width, text.mlp_width()) +
         2.0 * static_cast<double>(text.width) * static_cast<double>(shape.embed_dim);
}

double clip_image_forward_flops(const ClipShape& shape, int64_t tokens) {
  return with_tower(shape.vision,
                    [&](auto tower) { return tower.forward_flops(shape.vision, shape.embed_dim, tokens); });
}

ClipCost clip_cost(const ClipShape& shape) {
  ClipCost cost;
  for (const ParamSpec& spec : clip_param_specs(shape)) {
    if (spec.is_buffer) continue;
    (core::starts_with(spec.name, "visual.") ? cost.image_parameters : cost.text_parameters) += spec.numel();
  }
  cost.image_forward_flops = clip_image_forward_flops(shape, shape.vision.tokens());
  cost.text_forward_flops = clip_text_forward_flops(shape, shape.text.context_length);
  return cost;
}

}  // namespace lockstep::config
