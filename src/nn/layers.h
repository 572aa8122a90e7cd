#pragma once
#include <ATen/core/TensorBody.h>

#include <utility>

#include "nn/activation.h"
#include "nn/module.h"
#include "nn/packed_linear.h"

namespace lockstep::nn {

/// A trainable tensor without content yet (see nn/init.h).
at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options);

/// y = x W^t + b.
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const at::TensorOptions& options, bool with_bias = true);
  at::Tensor forward(const at::Tensor& x) const;
  /// activate() of that.
  at::Tensor forward_activated(const at::Tensor& x, Activation activation) const;
  void prepare_inference(std::optional<at::ScalarType> type) override;
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }

 private:
  at::Tensor weight_, bias_;
  PackedLinear packed_;
};

/// Weights of a layer for inference where they lie on the CPU and `type` is given; else nothing.
PackedLinear pack_where_possible(const at::Tensor& weight, const at::Tensor& bias, std::optional<at::ScalarType> type);
/// Is it there, and does nobody ask for gradients?
bool is_usable(const PackedLinear& packed);
/// The same, for layers that are given few rows, too: fewer than four of fp32 are read faster from plain weights. All
/// products of a token of GPT-2 in turn, one thread's processor time, medians of nine turns on two shared Xeon cores
/// with AMX: with plain weights fp32 takes 0.80 (1 row), 0.83 (2), 1.17 (4) and 1.38 (8) times as long as with packed
/// ones, bf16 1.32, 1.22, 1.30 and 1.14 times.
bool is_faster(const PackedLinear& packed, const at::Tensor& x);

/// Layer norm over the last dim. Statistics in fp32 whatever the types of input and weights; the result
/// has the input's type.
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, const at::TensorOptions& options, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& x) const;
  /// {x + residual, forward() of that in the type that products compute in}.
  std::pair<at::Tensor, at::Tensor> forward_sum(const at::Tensor& x, const at::Tensor& residual) const;
  /// {x, likewise}: for an x that is used beside its norm (see layer_norm_beside()).
  std::pair<at::Tensor, at::Tensor> forward_beside(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
  double epsilon_;
};

/// Rows of a table, by index.
class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& ids) const;

 private:
  at::Tensor weight_;
};

/// x * gamma, gamma per channel of the last dim; the result has the input's type.
class LayerScale : public Module {
 public:
  LayerScale(int64_t width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor gamma_;
};

}  // namespace lockstep::nn
