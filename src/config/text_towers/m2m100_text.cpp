#include "config/text_towers/m2m100_text.h"

#include <fmt/format.h>

#include "config/clip_blocks.h"
#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {

void M2m100TextTower::check(const ClipShape& shape) {
  const M2m100Shape& text = shape.text.m2m100;
  require_between(shape, "text context_length", shape.text.context_length, 2, 65536);
  require_between(shape, "text vocab_size", text.vocab_size, 2, 1 << 24);
  require_between(shape, "text d_model", text.width, 4, 65536);
  require(text.width % 2 == 0, shape, fmt::format("text d_model={} is odd: half of it are sines", text.width));
  require_between(shape, "text encoder_layers", text.layers, 1, 1000);
  require_between(shape, "text encoder_ffn_dim", text.mlp_width, 1, 1 << 24);
  require_between(shape, "text pad_token_id", text.pad_id, 0, text.vocab_size - 1);
  require(text.heads > 0 && text.width % text.heads == 0, shape,
          fmt::format("text encoder_attention_heads={} does not divide the width {}", text.heads, text.width));
  require_fraction(shape, "text dropout", text.dropout);
  require_fraction(shape, "text attention_dropout", text.attention_dropout);
}

int64_t M2m100TextTower::vocab_size(const TextShape& text) { return text.m2m100.vocab_size; }
int64_t M2m100TextTower::feature_width(const TextShape& text) { return text.m2m100.width; }
bool M2m100TextTower::has_dropout(const TextShape& text) {
  return text.m2m100.dropout > 0 || text.m2m100.attention_dropout > 0;
}

void M2m100TextTower::add_params(ParamList& list, const TextShape& text, int64_t embed_dim, const std::string& prefix) {
  add_m2m100(list, prefix + "transformer.", text.m2m100);
  add_projection(list, prefix + "proj", text.m2m100.width, embed_dim, text.encoder_projection);
}

double M2m100TextTower::forward_flops(const TextShape& text, int64_t embed_dim, int64_t tokens) {
  const M2m100Shape& encoder = text.m2m100;
  return static_cast<double>(encoder.layers) * block_flops(tokens, encoder.width, encoder.mlp_width) +
         projection_forward_flops(encoder.width, embed_dim, text.encoder_projection);
}

BlockDims M2m100TextTower::blocks(const TextShape& text) {
  const M2m100Shape& encoder = text.m2m100;
  return {encoder.layers, text.context_length, encoder.width, encoder.heads, encoder.mlp_width};
}

std::vector<NameGroup> M2m100TextTower::lock_groups(const TextShape& text, const std::string& prefix) {
  std::vector<NameGroup> groups = {{prefix + "transformer.embed_tokens."}};
  for (int64_t layer = 0; layer < text.m2m100.layers; ++layer)
    groups.push_back({fmt::format("{}transformer.layers.{}.", prefix, layer)});
  groups.back().push_back(prefix + "transformer.layer_norm.");
  return groups;
}

}  // namespace lockstep::config
