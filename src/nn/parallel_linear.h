#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>

#include "config/gpt_shape.h"
#include "nn/fp8_state.h"
#include "nn/module.h"
#include "nn/packed_linear.h"
#include "nn/shard.h"

namespace lockstep::nn {

/// y = x W^t + b where each rank holds some rows of W: all tokens of the rank's own outputs, from x as it is outside
/// the shared part (see tensor_parallel.h). On one rank a plain linear layer.
class ColumnParallelLinear : public Module {
 public:
  /// `parts` > 1: W is [parts, out / parts, in] and every rank has its rows of each part (a gated layer's two halves);
  /// the output has the rank's rows of part 0, then those of part 1, ... `fp8`: products in 8 bits; outlives the layer.
  ColumnParallelLinear(int64_t in, int64_t out, const ShardCtx& shard, const at::TensorOptions& options, bool with_bias,
                       int64_t parts = 1, Fp8State* fp8 = nullptr);
  at::Tensor forward(const at::Tensor& x) const;
  /// activate() of that.
  at::Tensor forward_activated(const at::Tensor& x, config::GptActivation activation) const;
  /// Of layers that one rank holds, without FP8; others stay as they are. Few rows are multiplied as is_faster() says.
  void prepare_inference(std::optional<at::ScalarType> type) override;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& bias) const;

  ShardCtx shard_;
  at::Tensor weight_, bias_;
  std::unique_ptr<Fp8Linear> fp8_;  // nullptr: in the type of x
  PackedLinear packed_;
};

/// y = x W^t + b where each rank holds some columns of W and the inputs that belong to them; b is added once, to the
/// sum.
class RowParallelLinear : public Module {
 public:
  RowParallelLinear(int64_t in, int64_t out, const ShardCtx& shard, const at::TensorOptions& options, bool with_bias,
                    Fp8State* fp8 = nullptr);
  /// Of the rank's own tokens, under token splitting.
  at::Tensor forward(const at::Tensor& x) const;
  /// As of ColumnParallelLinear.
  void prepare_inference(std::optional<at::ScalarType> type) override;

 private:
  ShardCtx shard_;
  at::Tensor weight_, bias_;
  std::unique_ptr<Fp8Linear> fp8_;  // nullptr: in the type of x
  PackedLinear packed_;
};

/// Rows of a table, by index, where rank r of R holds rows [r V/R, (r+1) V/R).
class VocabParallelEmbedding : public Module {
 public:
  VocabParallelEmbedding(int64_t rows, int64_t width, const ShardCtx& shard, const at::TensorOptions& options);
  /// [tokens, ...] -> [tokens, ..., width]; of the rank's own tokens, under token splitting. On several ranks an id
  /// beyond the table gives zeros, on one rank an error of the tensor library: check ids before.
  at::Tensor forward(const at::Tensor& ids) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  ShardCtx shard_;
  at::Tensor weight_;
};

/// size / ranks. LOCKSTEP_CHECK that it divides.
int64_t share_of(int64_t size, const ShardCtx& shard);

}  // namespace lockstep::nn
