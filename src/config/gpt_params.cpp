#include "config/gpt_params.h"

#include <cmath>

#include "config/param_list.h"
#include "core/error.h"

namespace lockstep::config {
namespace {

/// Collects the parameters; decay is Megatron's rule: matrices, and not embeddings that have their own initial
/// deviation. A head of its own is a matrix as any other.
class GptList {
 public:
  GptList(const GptShape& shape, int64_t tp) : shape_(shape), vocab_rows_(shape.padded_vocab(tp)) {}

  void add_word_embedding(const std::string& name, bool is_tied_copy) {
    ParamSpec& spec = add(name, {vocab_rows_, shape_.hidden}, embedding_law(), 0);
    spec.weight_decay = !shape_.embedding_init_std;
    spec.is_tied_copy = is_tied_copy;
  }

  void add_own_head() { add(kGptHead, {vocab_rows_, shape_.hidden}, normal(shape_.init_std), 0); }

  void add_positions() {
    ParamSpec& spec =
        add("embedding.position.weight", {shape_.max_positions, shape_.hidden}, embedding_law(), std::nullopt);
    spec.weight_decay = !shape_.embedding_init_std;
    spec.is_partial_over_tokens = true;
  }

  void add_norm(const std::string& name) {
    add(name + ".weight", {shape_.hidden}, shape_.norm == GptNorm::kLayerNorm1p ? zeros() : ones(), std::nullopt)
        .is_partial_over_tokens = true;
    if (shape_.has_norm_bias())
      add(name + ".bias", {shape_.hidden}, zeros(), std::nullopt).is_partial_over_tokens = true;
  }

  void add_layer(int64_t layer) {
    const std::string name = fmt::format("layers.{}", layer);
    const InitLaw plain = normal(shape_.init_std), output = normal(shape_.init_std * inverse_root(2 * shape_.layers));
    add_norm(name + ".norm_1");
    add(name + ".attention.qkv.weight", {shape_.qkv_width(), shape_.hidden}, plain, 0);
    if (shape_.has_bias || shape_.has_qkv_bias) add(name + ".attention.qkv.bias", {shape_.qkv_width()}, zeros(), 0);
    add_output(name + ".attention.proj", shape_.query_width(), output);
    add_norm(name + ".norm_2");
    add_fc1(name + ".mlp.fc1", plain);
    add_output(name + ".mlp.fc2", shape_.ffn, output);
  }

  std::vector<ParamSpec> take() { return std::move(specs_); }

 private:
  ParamSpec& add(const std::string& name, std::vector<int64_t> shape, InitLaw init, std::optional<int> split_dim) {
    const bool is_vector = shape.size() < 2 || name.ends_with(".bias");
    specs_.push_back(
        {.name = name, .shape = std::move(shape), .init = init, .weight_decay = !is_vector, .split_dim = split_dim});
    return specs_.back();
  }

  void add_output(const std::string& name, int64_t in, const InitLaw& law) {
    add(name + ".weight", {shape_.hidden, in}, law, 1);
    if (shape_.has_bias) add(name + ".bias", {shape_.hidden}, zeros(), std::nullopt).is_partial_over_tokens = true;
  }

  void add_fc1(const std::string& name, const InitLaw& law) {
    const int split_dim = shape_.is_gated() ? 1 : 0;
    std::vector<int64_t> rows = {shape_.ffn};
    if (shape_.is_gated()) rows.insert(rows.begin(), 2);
    std::vector<int64_t> matrix = rows;
    matrix.push_back(shape_.hidden);
    add(name + ".weight", std::move(matrix), law, split_dim);
    if (shape_.has_bias) add(name + ".bias", std::move(rows), zeros(), split_dim);
  }

  InitLaw embedding_law() const { return normal(shape_.embedding_init_std.value_or(shape_.init_std)); }

  const GptShape& shape_;
  int64_t vocab_rows_;
  std::vector<ParamSpec> specs_;
};

int64_t count(const std::vector<ParamSpec>& specs) {
  int64_t total = 0;
  for (const ParamSpec& spec : specs) total += spec.is_tied_copy ? 0 : spec.numel();
  return total;
}

}  // namespace

GptPart whole_gpt(const GptShape& shape) {
  return {.num_layers = shape.layers, .has_embedding = true, .has_head = true};
}

std::vector<ParamSpec> gpt_param_specs(const GptShape& shape, const GptPart& part, int64_t tp) {
  LOCKSTEP_CHECK(
      part.first_layer >= 0 && part.num_layers >= 0 && part.first_layer + part.num_layers <= shape.layers && tp >= 1,
      "first_layer={} num_layers={} layers={} tp={}", part.first_layer, part.num_layers, shape.layers, tp);
  GptList list(shape, tp);
  if (part.has_embedding) {
    list.add_word_embedding(kGptWordEmbedding, false);
    if (shape.positions == GptPositions::kLearned) list.add_positions();
  }
  for (int64_t i = 0; i < part.num_layers; ++i) list.add_layer(part.first_layer + i);
  if (part.has_head) {
    list.add_norm("final_norm");
    if (!shape.is_head_tied) list.add_own_head();
    if (shape.is_head_tied && !part.has_embedding) list.add_word_embedding(kGptWordEmbedding, true);
  }
  return list.take();
}

std::vector<int64_t> local_shape(const ParamSpec& spec, int64_t tp) {
  std::vector<int64_t> shape = spec.shape;
  if (!spec.split_dim) return shape;
  int64_t& size = shape.at(static_cast<size_t>(*spec.split_dim));
  LOCKSTEP_CHECK(size % tp == 0, "parameter '{}' has {} entries to split among {} ranks", spec.name, size, tp);
  size /= tp;
  return shape;
}

int64_t local_numel(const ParamSpec& spec, int64_t tp) {
  int64_t numel = 1;
  for (const int64_t size : local_shape(spec, tp)) numel *= size;
  return numel;
}

GptCost gpt_cost(const GptShape& shape, int64_t tp) {
  const int64_t positions = shape.positions == GptPositions::kLearned ? shape.max_positions * shape.hidden : 0;
  const int64_t tables = shape.is_head_tied ? 1 : 2;
  GptCost cost{.parameters = count(gpt_param_specs(shape, whole_gpt(shape), tp))};
  cost.embedding_parameters = tables * shape.padded_vocab(tp) * shape.hidden + positions;
  return cost;
}

}  // namespace lockstep::config
