#include "config/text_towers/text_transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {

void TextTransformerTower::check(const ClipShape& shape) {
  const TextShape& text = shape.text;
  require_between(shape, "text context_length", text.context_length, 1, 1 << 20);
  require_between(shape, "text vocab_size", text.vocab_size, 2, 1 << 24);
  require_between(shape, "text width", text.width, 1, 65536);
  require_between(shape, "text heads", text.heads, 1, text.width);
  require_between(shape, "text layers", text.layers, 1, 1000);
  require(text.width % text.heads == 0, shape,
          fmt::format("text heads={} does not divide the width {}", text.heads, text.width));
  require(std::isfinite(text.mlp_ratio) && text.mlp_ratio > 0.0 && text.mlp_ratio <= 64.0 && text.mlp_width() >= 1,
          shape, fmt::format("text mlp_ratio={} is out of range, expected above 0, at most 64", text.mlp_ratio));
  require(!text.has_class_token || shape.has_custom_text, shape, "text embed_cls needs custom_text, as in OpenCLIP");
  require(!text.has_class_token || text.is_causal, shape, "text embed_cls with no_causal_mask is not supported");
  require(text.projection != TextProjection::kNone || text.width == shape.embed_dim, shape,
          fmt::format("text proj_type 'none' needs the text width {} to be embed_dim {}", text.width, shape.embed_dim));
}

int64_t TextTransformerTower::vocab_size(const TextShape& text) { return text.vocab_size; }
int64_t TextTransformerTower::feature_width(const TextShape& text) { return text.width; }
bool TextTransformerTower::has_dropout(const TextShape&) { return false; }

void TextTransformerTower::add_params(ParamList& list, const TextShape& text, int64_t embed_dim,
                                      const std::string& prefix) {
  const int64_t width = text.width;
  const double attention = inverse_root(width), projection = attention * inverse_root(2 * text.layers);
  list.add(prefix + "token_embedding.weight", {text.vocab_size, width}, normal(0.02), false);
  if (text.has_class_token) list.add(prefix + "cls_emb", {width}, normal(0.01), false);
  list.add(prefix + "positional_embedding", {text.positions(), width}, normal(0.01), false);
  const BlockLaws laws{normal(attention), normal(projection), normal(inverse_root(2 * width)), normal(projection)};
  for (int64_t i = 0; i < text.layers; ++i)
    add_block(list, fmt::format("{}transformer.resblocks.{}", prefix, i), width, text.mlp_width(), laws,
              text.layer_scale);
  list.add_layer_norm(prefix + "ln_final", width);
  if (text.projection == TextProjection::kMatrix)
    list.add(prefix + "text_projection", {width, embed_dim}, normal(attention), true);
  if (text.projection == TextProjection::kLinear)
    list.add_linear(prefix + "text_projection", width, embed_dim, normal(attention), zeros());
}

double TextTransformerTower::forward_flops(const TextShape& text, int64_t embed_dim, int64_t tokens) {
  const double projection = text.projection == TextProjection::kNone
                                ? 0.0
                                : 2.0 * static_cast<double>(text.width) * static_cast<double>(embed_dim);
  return static_cast<double>(text.layers) *
             block_flops(tokens + (text.has_class_token ? 1 : 0), text.width, text.mlp_width()) +
         projection;
}

BlockDims TextTransformerTower::blocks(const TextShape& text) {
  return {text.layers, text.positions(), text.width, text.heads, text.mlp_width()};
}

std::vector<NameGroup> TextTransformerTower::lock_groups(const TextShape& text, const std::string& prefix) {
  std::vector<NameGroup> groups = {{prefix + "token_embedding.", prefix + "positional_embedding", prefix + "cls_emb"}};
  for (int64_t block = 0; block < text.layers; ++block)
    groups.push_back({fmt::format("{}transformer.resblocks.{}.", prefix, block)});
  groups.back().push_back(prefix + "ln_final.");
  groups.push_back({prefix + "text_projection"});
  return groups;
}

}  // namespace lockstep::config
