// Parameters of CLIP in forward order, their initial laws and groups, and the work of one forward pass.
#include <algorithm>
#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/image_towers.h"
#include "config/param_list.h"
#include "config/text_towers.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

/// PyTorch's defaults, which OpenCLIP leaves as they are; its projection is drawn as the text tower's is.
void add_captions(ParamList& list, const CaptionShape& captions) {
  const int64_t width = captions.width, mlp_width = captions.mlp_width();
  const BlockLaws laws{uniform(std::sqrt(6.0 / static_cast<double>(4 * width))), fan_in(width), fan_in(width),
                       fan_in(mlp_width)};
  for (int64_t i = 0; i < captions.layers; ++i) {
    add_block(list, fmt::format("text_decoder.resblocks.{}", i), width, mlp_width, laws, captions.layer_scale);
    add_cross_block(list, fmt::format("text_decoder.cross_attn.{}", i), width, mlp_width, laws, captions.layer_scale);
  }
  list.add_layer_norm("text_decoder.ln_final", width);
  list.add("text_decoder.text_projection", {width, captions.vocab_size}, normal(inverse_root(width)), true);
}

}  // namespace

std::vector<ParamSpec> clip_param_specs(const ClipShape& shape) {
  ParamList list;
  with_tower(shape.vision, [&](auto tower) { tower.add_params(list, shape.vision, shape.embed_dim); });
  with_text_tower(shape.text,
                  [&](auto tower) { tower.add_params(list, shape.text, shape.embed_dim, shape.text_prefix()); });
  if (shape.captions) add_captions(list, *shape.captions);
  const std::vector<int64_t> scalar = shape.nonscalar_logit_scale ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  list.add("logit_scale", scalar, constant(shape.init_logit_scale), false);
  list.bound_last(kLowestLogitScale, kHighestLogitScale);
  if (shape.init_logit_bias) list.add("logit_bias", scalar, constant(*shape.init_logit_bias), false);
  return list.take();
}

double clip_text_forward_flops(const ClipShape& shape, int64_t tokens) {
  return with_text_tower(shape.text,
                         [&](auto tower) { return tower.forward_flops(shape.text, shape.embed_dim, tokens); });
}

int64_t caption_image_tokens(const VisionShape& vision) {
  return vision.has_attentional_pool ? vision.pooler_queries - 1 : vision.patches();
}

double clip_caption_forward_flops(const ClipShape& shape, int64_t tokens) {
  if (!shape.captions) return 0.0;
  const CaptionShape& captions = *shape.captions;
  const auto t = static_cast<double>(tokens), width = static_cast<double>(captions.width);
  const double cross =
      cross_attention_flops(tokens, caption_image_tokens(shape.vision), captions.width, captions.width);
  const double mlp = 2.0 * t * 2.0 * width * static_cast<double>(captions.mlp_width());
  return static_cast<double>(captions.layers) *
             (block_flops(tokens, captions.width, captions.mlp_width()) + cross + mlp) +
         2.0 * t * width * static_cast<double>(captions.vocab_size);
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
  cost.caption_forward_flops = clip_caption_forward_flops(shape, shape.text.context_length - 1);
  return cost;
}

}  // namespace lockstep::config
