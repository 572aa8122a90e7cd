#include "config/t5_shape.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::config {
namespace {

struct T5Row {
  std::string_view name;
  int64_t width, heads, layers, mlp_width;
};
constexpr std::array kT5s{T5Row{"google/mt5-small", 512, 6, 8, 1024}, T5Row{"google/mt5-base", 768, 12, 12, 2048},
                          T5Row{"google/mt5-large", 1024, 16, 24, 2816}, T5Row{"google/mt5-xl", 2048, 32, 24, 5120},
                          T5Row{"google/mt5-xxl", 4096, 64, 24, 10240}};

}  // namespace

bool set_t5(T5Shape& text, std::string_view name) {
  for (const T5Row& row : kT5s) {
    if (row.name != name) continue;
    text.width = row.width;
    text.heads = row.heads;
    text.layers = row.layers;
    text.mlp_width = row.mlp_width;
    return true;
  }
  return false;
}

std::string_view t5_name(const T5Shape& text) {
  const T5Shape usual;
  const bool is_usual = text.vocab_size == usual.vocab_size && text.head_width == usual.head_width &&
                        text.position_buckets == usual.position_buckets &&
                        text.farthest_position == usual.farthest_position;
  for (const T5Row& row : kT5s)
    if (is_usual && row.width == text.width && row.heads == text.heads && row.layers == text.layers &&
        row.mlp_width == text.mlp_width)
      return row.name;
  return "";
}

void add_t5(ParamList& list, const std::string& prefix, const T5Shape& text) {
  const int64_t width = text.width, inner = text.inner_width();
  const InitLaw of_width = normal(inverse_root(width));
  const auto add = [&](const std::string& name, int64_t out, int64_t in, InitLaw law) {
    list.add(name + ".weight", {out, in}, law, true);
  };
  list.add(prefix + "embed_tokens.weight", {text.vocab_size, width}, normal(1.0), false);
  for (int64_t i = 0; i < text.layers; ++i) {
    const std::string block = fmt::format("{}block.{}.layer.", prefix, i);
    const std::string attention = block + "0.SelfAttention.", mlp = block + "1.DenseReluDense.";
    add(attention + "q", inner, width, normal(inverse_root(width * text.head_width)));
    add(attention + "k", inner, width, of_width);
    add(attention + "v", inner, width, of_width);
    add(attention + "o", width, inner, normal(inverse_root(inner)));
    if (i == 0)
      list.add(attention + "relative_attention_bias.weight", {text.position_buckets, text.heads}, of_width, false);
    list.add(block + "0.layer_norm.weight", {width}, ones(), false);
    add(mlp + "wi_0", text.mlp_width, width, of_width);
    add(mlp + "wi_1", text.mlp_width, width, of_width);
    add(mlp + "wo", width, text.mlp_width, normal(inverse_root(text.mlp_width)));
    list.add(block + "1.layer_norm.weight", {width}, ones(), false);
  }
  list.add(prefix + "final_layer_norm.weight", {width}, ones(), false);
}

double t5_forward_flops(const T5Shape& text, int64_t tokens) {
  const auto t = static_cast<double>(tokens), width = static_cast<double>(text.width),
             inner = static_cast<double>(text.inner_width()), mlp = static_cast<double>(text.mlp_width);
  return static_cast<double>(text.layers) * (2.0 * t * width * (4.0 * inner + 3.0 * mlp) + 4.0 * t * t * inner);
}

}  // namespace lockstep::config
