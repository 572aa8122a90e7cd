#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::nn {

/// Linear, activation, linear.
class Mlp : public Module {
 public:
  Mlp(int64_t width, int64_t hidden, Activation activation, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// residual + forward(x).
  at::Tensor forward_add(const at::Tensor& x, const at::Tensor& residual) const;
  void prepare_inference(std::optional<at::ScalarType> type) override;

 private:
  at::Tensor expand_packed(const at::Tensor& x) const;

  Linear c_fc_, c_proj_;
  Activation activation_;
  PackedLinear packed_up_, packed_down_;  // the activation rides on the first product
};

struct BlockShape {
  int64_t width = 0, heads = 0, mlp_width = 0;
  Activation activation = Activation::kGelu;
  bool has_layer_scale = false;
  double norm_epsilon = 1e-5;
};

/// Pre-norm block: x + ls_1(attn(ln_1 x)), then + ls_2(mlp(ln_2 x)).
class ResidualBlock : public Module {
 public:
  ResidualBlock(const BlockShape& shape, const at::TensorOptions& options);
  /// `mask` as of MultiHeadAttention::forward.
  at::Tensor forward(const at::Tensor& x_BTD, bool is_causal, const at::Tensor& mask = {}) const;
  at::ScalarType parameter_type() const { return attn_.parameter_type(); }
  /// forward() at one position per sample, without computing the others: [B, D].
  at::Tensor forward_one_position(const at::Tensor& x_BTD, const at::Tensor& position_B, bool is_causal) const;

 private:
  at::Tensor finish(const at::Tensor& x, const at::Tensor& attended) const;

  LayerNorm ln_1_;
  MultiHeadAttention attn_;
  std::optional<LayerScale> ls_1_;
  LayerNorm ln_2_;
  Mlp mlp_;
  std::optional<LayerScale> ls_2_;
};

/// Pre-norm block whose attention reads another sequence: x + ls_1(attn(ln_1 x, ln_1_kv context)), then
/// + ls_2(mlp(ln_2 x)).
class CrossBlock : public Module {
 public:
  CrossBlock(const BlockShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BLD, const at::Tensor& context_BTD) const;

 private:
  LayerNorm ln_1_;
  CrossAttention attn_;
  std::optional<LayerScale> ls_1_;
  LayerNorm ln_1_kv_, ln_2_;
  Mlp mlp_;
  std::optional<LayerScale> ls_2_;
};

/// A stack of blocks, named resblocks.0, resblocks.1, ...
class Transformer : public Module {
 public:
  Transformer(int64_t num_layers, const BlockShape& shape, bool is_causal, const at::TensorOptions& options);

  /// Keep only block inputs for the backward pass and compute the rest of a block once more there.
  void set_checkpointing(bool checkpointing) { checkpointing_ = checkpointing; }

  at::Tensor forward(const at::Tensor& x_BTD, const at::Tensor& mask = {});
  at::ScalarType parameter_type() const { return blocks_.front()->parameter_type(); }
  /// Row position_B (int64) of forward() of each sample, [B, D]. With `exact_shortcut` the last block computes nothing
  /// but those rows; the result and all gradients are the same up to rounding.
  at::Tensor forward_pooled(const at::Tensor& x_BTD, const at::Tensor& position_B, bool exact_shortcut);

 private:
  at::Tensor run_block(ResidualBlock& block, const at::Tensor& x_BTD, const at::Tensor& mask = {});

  std::vector<std::unique_ptr<ResidualBlock>> blocks_;
  bool is_causal_;
  bool checkpointing_ = false;
};

/// Row position_B of each sample: [B, T, D] -> [B, D].
at::Tensor take_rows(const at::Tensor& x_BTD, const at::Tensor& position_B);

}  // namespace lockstep::nn
