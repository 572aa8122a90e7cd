#include "models/gpt/gpt_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::models {
namespace {

using config::ForeignTensor;
using config::GptDialect;
using config::ParamSpec;

constexpr std::string_view kGpt2Prefix = "transformer.";

bool any_starts_with(const WeightFile& weights, std::string_view prefix) {
  return std::any_of(weights.tensors.begin(), weights.tensors.end(),
                     [&](const auto& entry) { return core::starts_with(entry.first, prefix); });
}

GptDialect dialect_of(const WeightFile& weights, const config::GptShape& shape) {
  return any_starts_with(weights, "decoder.layers.") ? GptDialect::kMegatron : config::hugging_face_dialect(shape);
}

/// Causal masks that old files hold as buffers.
bool is_mask(const std::string& name) {
  return core::ends_with(name, ".attn.bias") || core::ends_with(name, ".attn.masked_bias");
}

/// A table of Megatron, which has rows of padding for some number of tensor ranks, with those of this model.
at::Tensor padded_anew(const at::Tensor& table, const config::GptShape& shape, int64_t num_ranks) {
  const int64_t num_rows = shape.padded_vocab(num_ranks);
  if (table.dim() != 2 || table.size(0) < shape.vocab || table.size(0) == num_rows) return table;
  at::Tensor anew = at::zeros({num_rows, table.size(1)}, table.options());
  anew.narrow(0, 0, shape.vocab).copy_(table.narrow(0, 0, shape.vocab));
  return anew;
}

/// Entries under the names that the dialect's class saves today.
WeightFile tidied(const WeightFile& weights, const config::GptShape& shape, int64_t num_ranks, GptDialect dialect) {
  WeightFile tidy{.path = weights.path, .tensors = {}, .ignored = weights.ignored, .epoch = {}};
  const bool lacks_prefix = dialect == GptDialect::kHfGpt2 && !any_starts_with(weights, kGpt2Prefix);
  for (const auto& [name, value] : weights.tensors) {
    const bool is_head = name == "lm_head.weight" || name == "output_layer.weight";
    if (is_mask(name) || (is_head && shape.is_head_tied))
      tidy.ignored.push_back(name);
    else if (name == "embedding.word_embeddings.weight" || name == "output_layer.weight")
      tidy.tensors.emplace_back(name, padded_anew(value, shape, num_ranks));
    else
      tidy.tensors.emplace_back(lacks_prefix && !is_head ? std::string(kGpt2Prefix) + name : name, value);
  }
  return tidy;
}

/// What a file of the whole model holds, as shapes.
NamedValues expected_tensors(const config::GptShape& shape, int64_t num_ranks, GptDialect dialect) {
  NamedValues expected;
  for (const ParamSpec& spec : config::gpt_param_specs(shape, config::whole_gpt(shape), num_ranks))
    for (const ForeignTensor& foreign : config::foreign_tensors(shape, spec, dialect))
      expected.emplace_back(foreign.name, at::empty(foreign.shape, at::TensorOptions().device(at::kMeta)));
  return expected;
}

at::Tensor row_numbers(const config::GptShape& shape, const ParamSpec& spec, const ForeignTensor& foreign) {
  return at::tensor(config::own_rows(shape, spec, foreign.rows));
}

/// The parameter as rows, which foreign tensors hold some of.
std::vector<int64_t> row_shape(const ParamSpec& spec, const ForeignTensor& foreign) {
  const int64_t width = foreign.shape.size() == 1 ? 1 : foreign.is_transposed ? foreign.shape[0] : foreign.shape[1];
  return {spec.numel() / width, width};
}

at::Tensor own_part(const at::Tensor& whole, const ParamSpec& spec, const nn::ShardCtx& shard) {
  if (!spec.split_dim || shard.is_alone()) return whole;
  const int64_t size = nn::share_of(whole.size(*spec.split_dim), shard);
  return whole.narrow(*spec.split_dim, shard.rank() * size, size);
}

std::unordered_map<std::string, const ParamSpec*> specs_by_name(const GptModel& model) {
  std::unordered_map<std::string, const ParamSpec*> specs;
  for (const ParamSpec& spec : model.param_specs()) specs.emplace(spec.name, &spec);
  return specs;
}

}  // namespace

void load_gpt_weights(GptModel& model, const WeightFile& weights) {
  const config::GptShape& shape = model.shape();
  const GptDialect dialect = dialect_of(weights, shape);
  const WeightFile tidy = tidied(weights, shape, model.shard().size(), dialect);
  require_fit(expected_tensors(shape, model.shard().size(), dialect), tidy);
  std::unordered_map<std::string, at::Tensor> values(tidy.tensors.begin(), tidy.tensors.end());
  const auto specs = specs_by_name(model);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.named_parameters()) {
    const ParamSpec& spec = *specs.at(name);
    at::Tensor whole;
    for (const ForeignTensor& foreign : config::foreign_tensors(shape, spec, dialect)) {
      const at::Tensor value = values.at(foreign.name);
      const std::vector<int64_t> rows = row_shape(spec, foreign);
      if (!whole.defined()) whole = at::zeros(rows, value.options());
      whole.index_copy_(0, row_numbers(shape, spec, foreign),
                        (foreign.is_transposed ? value.t() : value).reshape({-1, rows[1]}).to(whole.scalar_type()));
    }
    tensor->detach().copy_(own_part(whole.view(spec.shape), spec, model.shard()));
  }
}

at::Tensor whole_parameter(const at::Tensor& own, const ParamSpec& spec, const nn::ShardCtx& shard) {
  if (!spec.split_dim || shard.is_alone()) return own.detach();
  const at::Tensor part = own.detach().transpose(0, *spec.split_dim).contiguous();
  auto sizes = part.sizes().vec();
  sizes[0] *= shard.size();
  const at::Tensor whole = at::empty(sizes, part.options());
  shard.tp->all_gather_into(whole, part).wait();
  return whole.transpose(0, *spec.split_dim).contiguous();
}

NamedValues take_gpt_values(std::unique_ptr<GptModel> model, GptDialect dialect) {
  NamedValues out;
  const auto specs = specs_by_name(*model);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model->named_parameters()) {
    const ParamSpec& spec = *specs.at(name);
    if (spec.is_tied_copy) continue;
    const at::Tensor whole = whole_parameter(*tensor, spec, model->shard()).cpu();
    for (const ForeignTensor& foreign : config::foreign_tensors(model->shape(), spec, dialect)) {
      const at::Tensor rows =
          whole.view(row_shape(spec, foreign)).index_select(0, row_numbers(model->shape(), spec, foreign));
      out.emplace_back(foreign.name, (foreign.is_transposed ? rows.t().contiguous() : rows).view(foreign.shape));
    }
    tensor->set_data(at::empty({0}, tensor->options()));
  }
  return out;
}

}  // namespace lockstep::models
