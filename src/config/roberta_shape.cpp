#include "config/roberta_shape.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>

namespace lockstep::config {
namespace {

constexpr double kRobertaDeviation = 0.02;

struct RobertaRow {
  std::string_view name;
  int64_t width, heads, layers, mlp_width, vocab_size;
};
constexpr std::array kRobertas{RobertaRow{"roberta-base", 768, 12, 12, 3072, 50265},
                               RobertaRow{"roberta-large", 1024, 16, 24, 4096, 50265},
                               RobertaRow{"xlm-roberta-base", 768, 12, 12, 3072, 250002},
                               RobertaRow{"xlm-roberta-large", 1024, 16, 24, 4096, 250002}};
constexpr std::string_view kOrganisation = "FacebookAI/";  // as the Hugging Face Hub calls them today

double product_of(std::initializer_list<int64_t> factors) {
  double result = 1.0;
  for (const int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

void add_projection_layer(ParamList& list, const std::string& name, int64_t in, int64_t out, bool has_bias) {
  list.add(name + ".weight", {out, in}, fan_in(in), true);
  if (has_bias) list.add(name + ".bias", {out}, fan_in(in), true);
}

}  // namespace

bool set_roberta(RobertaShape& text, std::string_view name) {
  if (name.substr(0, kOrganisation.size()) == kOrganisation) name.remove_prefix(kOrganisation.size());
  for (const RobertaRow& row : kRobertas) {
    if (row.name != name) continue;
    text.width = row.width;
    text.heads = row.heads;
    text.layers = row.layers;
    text.mlp_width = row.mlp_width;
    text.vocab_size = row.vocab_size;
    return true;
  }
  return false;
}

std::string_view roberta_name(const RobertaShape& text) {
  for (const RobertaRow& row : kRobertas) {
    RobertaShape named = text;
    set_roberta(named, row.name);
    const bool has_sizes = named.width == text.width && named.heads == text.heads && named.layers == text.layers &&
                           named.mlp_width == text.mlp_width && named.vocab_size == text.vocab_size;
    if (has_sizes && text.max_positions == RobertaShape().max_positions) return row.name;
  }
  return "";
}

std::string roberta_repository(std::string_view name) { return std::string(kOrganisation) + std::string(name); }

void add_roberta(ParamList& list, const std::string& prefix, const RobertaShape& text) {
  const InitLaw law = normal(kRobertaDeviation);
  list.add(prefix + "embeddings.word_embeddings.weight", {text.vocab_size, text.width}, law, false);
  list.add(prefix + "embeddings.token_type_embeddings.weight", {text.token_types, text.width}, law, false);
  list.add_layer_norm(prefix + "embeddings.LayerNorm", text.width);
  list.add(prefix + "embeddings.position_embeddings.weight", {text.max_positions, text.width}, law, false);
  for (int64_t i = 0; i < text.layers; ++i) {
    const std::string layer = fmt::format("{}encoder.layer.{}", prefix, i);
    for (const char* part : {"query", "key", "value"})
      list.add_linear(fmt::format("{}.attention.self.{}", layer, part), text.width, text.width, law, zeros());
    list.add_linear(layer + ".attention.output.dense", text.width, text.width, law, zeros());
    list.add_layer_norm(layer + ".attention.output.LayerNorm", text.width);
    list.add_linear(layer + ".intermediate.dense", text.width, text.mlp_width, law, zeros());
    list.add_linear(layer + ".output.dense", text.mlp_width, text.width, law, zeros());
    list.add_layer_norm(layer + ".output.LayerNorm", text.width);
  }
  if (text.pooler == TextPooler::kClass) list.add_linear(prefix + "pooler.dense", text.width, text.width, law, zeros());
}

void add_projection(ParamList& list, const std::string& name, int64_t in, int64_t out, const ProjectionShape& shape) {
  if (shape.kind == ProjectionShape::Kind::kNone) return;
  if (shape.kind == ProjectionShape::Kind::kLinear) return add_projection_layer(list, name, in, out, shape.has_bias);
  add_projection_layer(list, name + ".0", in, shape.hidden, shape.has_bias);
  add_projection_layer(list, name + ".2", shape.hidden, out, shape.has_bias);
}

double roberta_forward_flops(const RobertaShape& text, int64_t tokens) {
  const double layer = product_of({2, tokens, text.width, 4 * text.width + 2 * text.mlp_width}) +
                       product_of({4, tokens, tokens, text.width});
  const double pooler = text.pooler == TextPooler::kClass ? product_of({2, text.width, text.width}) : 0.0;
  return static_cast<double>(text.layers) * layer + pooler;
}

double projection_forward_flops(int64_t in, int64_t out, const ProjectionShape& shape) {
  if (shape.kind == ProjectionShape::Kind::kNone) return 0.0;
  if (shape.kind == ProjectionShape::Kind::kLinear) return product_of({2, in, out});
  return product_of({2, in, shape.hidden}) + product_of({2, shape.hidden, out});
}

}  // namespace lockstep::config
