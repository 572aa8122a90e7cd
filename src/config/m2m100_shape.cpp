#include "config/m2m100_shape.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::config {
namespace {

constexpr double kDeviation = 0.02;

struct M2m100Row {
  std::string_view name;
  int64_t layers, mlp_width;
};
constexpr std::array kM2m100s{M2m100Row{"facebook/nllb-200-distilled-600M", 12, 4096},
                              M2m100Row{"facebook/nllb-200-distilled-1.3B", 24, 8192}};

}  // namespace

bool set_m2m100(M2m100Shape& text, std::string_view name) {
  for (const M2m100Row& row : kM2m100s) {
    if (row.name != name) continue;
    text.layers = row.layers;
    text.mlp_width = row.mlp_width;
    return true;
  }
  return false;
}

std::string_view m2m100_name(const M2m100Shape& text) {
  const M2m100Shape usual;
  const bool is_usual = text.vocab_size == usual.vocab_size && text.width == usual.width && text.heads == usual.heads;
  for (const M2m100Row& row : kM2m100s)
    if (is_usual && row.layers == text.layers && row.mlp_width == text.mlp_width) return row.name;
  return "";
}

void add_m2m100(ParamList& list, const std::string& prefix, const M2m100Shape& text) {
  const InitLaw law = normal(kDeviation);
  list.add(prefix + "embed_tokens.weight", {text.vocab_size, text.width}, law, false);
  for (int64_t i = 0; i < text.layers; ++i) {
    const std::string layer = fmt::format("{}layers.{}.", prefix, i);
    for (const char* part : {"k_proj", "v_proj", "q_proj", "out_proj"})
      list.add_linear(fmt::format("{}self_attn.{}", layer, part), text.width, text.width, law, zeros());
    list.add_layer_norm(layer + "self_attn_layer_norm", text.width);
    list.add_linear(layer + "fc1", text.width, text.mlp_width, law, zeros());
    list.add_linear(layer + "fc2", text.mlp_width, text.width, law, zeros());
    list.add_layer_norm(layer + "final_layer_norm", text.width);
  }
  list.add_layer_norm(prefix + "layer_norm", text.width);
}

}  // namespace lockstep::config
