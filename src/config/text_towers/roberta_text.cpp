#include "config/text_towers/roberta_text.h"

#include <fmt/format.h>

#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {

void RobertaTextTower::check(const ClipShape& shape) {
  const RobertaShape& text = shape.text.roberta;
  require_between(shape, "text context_length", shape.text.context_length, 2, text.longest_text());
  require_between(shape, "text vocab_size", text.vocab_size, 2, 1 << 24);
  require_between(shape, "text width", text.width, 1, 65536);
  require_between(shape, "text layers", text.layers, 1, 1000);
  require(text.heads > 0 && text.width % text.heads == 0, shape,
          fmt::format("text heads={} does not divide the width {}", text.heads, text.width));
}

int64_t RobertaTextTower::vocab_size(const TextShape& text) { return text.roberta.vocab_size; }
int64_t RobertaTextTower::feature_width(const TextShape& text) { return text.roberta.width; }
bool RobertaTextTower::has_dropout(const TextShape& text) {
  return text.roberta.dropout > 0 || text.roberta.attention_dropout > 0;
}

void RobertaTextTower::add_params(ParamList& list, const TextShape& text, int64_t embed_dim,
                                  const std::string& prefix) {
  add_roberta(list, prefix + "transformer.", text.roberta);
  add_projection(list, prefix + "proj", text.roberta.width, embed_dim, text.encoder_projection);
}

double RobertaTextTower::forward_flops(const TextShape& text, int64_t embed_dim, int64_t tokens) {
  return roberta_forward_flops(text.roberta, tokens) +
         projection_forward_flops(text.roberta.width, embed_dim, text.encoder_projection);
}

BlockDims RobertaTextTower::blocks(const TextShape& text) {
  const RobertaShape& roberta = text.roberta;
  return {roberta.layers, text.context_length, roberta.width, roberta.heads, roberta.mlp_width};
}

std::vector<NameGroup> RobertaTextTower::lock_groups(const TextShape& text, const std::string& prefix) {
  std::vector<NameGroup> groups = {{prefix + "transformer.embeddings."}};
  for (int64_t layer = 0; layer < text.roberta.layers; ++layer)
    groups.push_back({fmt::format("{}transformer.encoder.layer.{}.", prefix, layer)});
  groups.back().push_back(prefix + "transformer.pooler.");
  return groups;
}

}  // namespace lockstep::config
