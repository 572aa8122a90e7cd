#include "config/text_towers/t5_text.h"

#include <fmt/format.h>

#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {

void T5TextTower::check(const ClipShape& shape) {
  const T5Shape& text = shape.text.t5;
  require_between(shape, "text context_length", shape.text.context_length, 2, 65536);
  require_between(shape, "text vocab_size", text.vocab_size, 2, 1 << 24);
  require_between(shape, "text d_model", text.width, 1, 65536);
  require_between(shape, "text num_layers", text.layers, 1, 1000);
  require_between(shape, "text num_heads", text.heads, 1, 65536);
  require_between(shape, "text d_kv", text.head_width, 1, 65536);
  require_between(shape, "text d_ff", text.mlp_width, 1, 1 << 24);
  require_between(shape, "text pad_token_id", text.pad_id, 0, text.vocab_size - 1);
  require_between(shape, "text relative_attention_num_buckets", text.position_buckets, 4, 1 << 16);
  require_between(shape, "text relative_attention_max_distance", text.farthest_position, text.position_buckets / 4 + 1,
                  1 << 24);
  require_fraction(shape, "text dropout_rate", text.dropout);
}

int64_t T5TextTower::vocab_size(const TextShape& text) { return text.t5.vocab_size; }
int64_t T5TextTower::feature_width(const TextShape& text) { return text.t5.width; }
bool T5TextTower::has_dropout(const TextShape& text) { return text.t5.dropout > 0; }

void T5TextTower::add_params(ParamList& list, const TextShape& text, int64_t embed_dim, const std::string& prefix) {
  add_t5(list, prefix + "transformer.", text.t5);
  add_projection(list, prefix + "proj", text.t5.width, embed_dim, text.encoder_projection);
}

double T5TextTower::forward_flops(const TextShape& text, int64_t embed_dim, int64_t tokens) {
  return t5_forward_flops(text.t5, tokens) +
         projection_forward_flops(text.t5.width, embed_dim, text.encoder_projection);
}

/// A gated layer keeps two products, the activation of one and what they make: as much as a plain one twice as wide.
BlockDims T5TextTower::blocks(const TextShape& text) {
  return {text.t5.layers, text.context_length, text.t5.width, text.t5.heads, 2 * text.t5.mlp_width};
}

std::vector<NameGroup> T5TextTower::lock_groups(const TextShape& text, const std::string& prefix) {
  std::vector<NameGroup> groups = {{prefix + "transformer.embed_tokens."}};
  for (int64_t layer = 0; layer < text.t5.layers; ++layer)
    groups.push_back({fmt::format("{}transformer.block.{}.", prefix, layer)});
  groups.back().push_back(prefix + "transformer.final_layer_norm.");
  return groups;
}

}  // namespace lockstep::config
