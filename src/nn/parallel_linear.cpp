#include "nn/parallel_linear.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>

#include <optional>

#include "core/error.h"
#include "nn/bias_activation.h"
#include "nn/fp8_linear.h"
#include "nn/gpt_activation.h"
#include "nn/layers.h"
#include "nn/product.h"
#include "nn/tensor_parallel.h"

namespace lockstep::nn {
namespace {

at::Tensor plus_bias(const at::Tensor& y, const at::Tensor& bias) { return bias.defined() ? add_bias(y, bias) : y; }

/// Such as have one kernel together with a bias.
std::optional<Activation> elementwise(config::GptActivation activation) {
  if (activation == config::GptActivation::kGelu) return Activation::kGelu;
  if (activation == config::GptActivation::kGeluTanh) return Activation::kGeluTanh;
  return std::nullopt;
}

}  // namespace

int64_t share_of(int64_t size, const ShardCtx& shard) {
  LOCKSTEP_CHECK(size % shard.size() == 0, "{} entries among {} ranks", size, shard.size());
  return size / shard.size();
}

ColumnParallelLinear::ColumnParallelLinear(int64_t in, int64_t out, const ShardCtx& shard,
                                           const at::TensorOptions& options, bool with_bias, int64_t parts,
                                           Fp8State* fp8)
    : shard_(shard) {
  if (fp8 != nullptr) register_child("fp8", *(fp8_ = fp8->add_linear()));
  const int64_t rows = share_of(out / parts, shard);
  weight_ =
      make_parameter(parts == 1 ? std::vector<int64_t>{rows, in} : std::vector<int64_t>{parts, rows, in}, options);
  register_parameter("weight", weight_);
  if (!with_bias) return;
  bias_ = make_parameter(parts == 1 ? std::vector<int64_t>{rows} : std::vector<int64_t>{parts, rows}, options);
  register_parameter("bias", bias_);
}

at::Tensor ColumnParallelLinear::forward(const at::Tensor& x) const {
  if (is_faster(packed_, x)) return packed_.forward(x);
  return multiply(x, bias_.defined() ? bias_.flatten() : bias_);
}

at::Tensor ColumnParallelLinear::forward_activated(const at::Tensor& x, config::GptActivation activation) const {
  const std::optional<Activation> biased = elementwise(activation);
  if (is_faster(packed_, x)) return activate(packed_.forward(x), activation);
  return bias_.defined() && biased && takes_bias_with_activation(x.device(), *biased)
             ? activate_biased(multiply(x, {}), bias_.flatten(), *biased)
             : activate(forward(x), activation);
}

void ColumnParallelLinear::prepare_inference(std::optional<at::ScalarType> type) {
  if (!fp8_ && shard_.is_alone())
    packed_ = pack_where_possible(weight_.flatten(0, -2), bias_.defined() ? bias_.flatten() : bias_, type);
}

at::Tensor ColumnParallelLinear::multiply(const at::Tensor& x, const at::Tensor& bias) const {
  return fp8_ ? fp8_linear(x, weight_.flatten(0, -2), bias, *fp8_, shard_, Fp8Split::kColumn)
              : column_linear(x, weight_, bias, shard_);
}

RowParallelLinear::RowParallelLinear(int64_t in, int64_t out, const ShardCtx& shard, const at::TensorOptions& options,
                                     bool with_bias, Fp8State* fp8)
    : shard_(shard), weight_(make_parameter({out, share_of(in, shard)}, options)) {
  if (fp8 != nullptr) register_child("fp8", *(fp8_ = fp8->add_linear()));
  register_parameter("weight", weight_);
  if (!with_bias) return;
  bias_ = make_parameter({out}, options);
  register_parameter("bias", bias_);
}

void RowParallelLinear::prepare_inference(std::optional<at::ScalarType> type) {
  if (!fp8_ && shard_.is_alone()) packed_ = pack_where_possible(weight_, bias_, type);
}

at::Tensor RowParallelLinear::forward(const at::Tensor& x) const {
  if (is_faster(packed_, x)) return packed_.forward(x);
  if (fp8_) return fp8_linear(x, weight_, bias_, *fp8_, shard_, Fp8Split::kRow);
  if (shard_.is_alone()) return linear_layer(x, weight_, bias_);
  return plus_bias(leave_shared(linear_layer(x, weight_, {}), shard_), bias_);
}

VocabParallelEmbedding::VocabParallelEmbedding(int64_t rows, int64_t width, const ShardCtx& shard,
                                               const at::TensorOptions& options)
    : shard_(shard), weight_(make_parameter({share_of(rows, shard), width}, options)) {
  register_parameter("weight", weight_);
}

at::Tensor VocabParallelEmbedding::forward(const at::Tensor& ids) const {
  if (shard_.is_alone()) return at::embedding(weight_, ids);
  const int64_t rows = weight_.size(0);
  const at::Tensor own_ids = ids.sub(shard_.rank() * rows);
  const at::Tensor is_elsewhere = own_ids.lt(0).logical_or_(own_ids.ge(rows));
  const at::Tensor found =
      at::embedding(weight_, own_ids.masked_fill(is_elsewhere, 0)).masked_fill(is_elsewhere.unsqueeze(-1), 0);
  return leave_shared(found, shard_);
}

}  // namespace lockstep::nn
