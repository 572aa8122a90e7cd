#include "nn/transformer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/gather.h>
#include <c10/core/GradMode.h>

#include <string>

#include "nn/recompute.h"

namespace lockstep::nn {

Mlp::Mlp(int64_t width, int64_t hidden, Activation activation, const at::TensorOptions& options)
    : c_fc_(width, hidden, options), c_proj_(hidden, width, options), activation_(activation) {
  register_child("c_fc", c_fc_);
  register_child("c_proj", c_proj_);
}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  return is_usable(packed_up_) ? packed_down_.forward(expand_packed(x))
                               : c_proj_.forward(c_fc_.forward_activated(x, activation_));
}

at::Tensor Mlp::forward_add(const at::Tensor& x, const at::Tensor& residual) const {
  return is_usable(packed_up_) ? packed_down_.forward_add(expand_packed(x), residual) : residual.add(forward(x));
}

at::Tensor Mlp::expand_packed(const at::Tensor& x) const {
  return packed_up_.forward(x,
                            activation_ == Activation::kGelu ? PackedLinear::Then::kGelu : PackedLinear::Then::kSilu);
}

namespace {
/// Channels of zeros that a hidden state of so many gets: rows that lie multiples of 4 KiB apart share few lines of the
/// cache, and the fp32 product that writes them takes up to twice as long (64 rows of 2048: 2.4 times).
int64_t hidden_padding(int64_t hidden, at::ScalarType type) {
  constexpr int64_t kCongruentBytes = 4096, kPadding = 16;
  return type == at::kFloat && hidden * 4 % kCongruentBytes == 0 ? kPadding : 0;
}
}  // namespace

/// The factors of QuickGELU go into the weights on both sides of it. The activation of a channel of zeros is zero.
void Mlp::prepare_inference(std::optional<at::ScalarType> type) {
  if (activation_ == Activation::kGeluTanh) {  // has no packed form
    c_fc_.prepare_inference(type);
    c_proj_.prepare_inference(type);
    return;
  }
  packed_up_ = packed_down_ = {};
  if (!type || !c_fc_.weight().is_cpu()) return;
  const double slope = activation_ == Activation::kGelu ? 1.0 : kQuickGeluSlope;
  const c10::NoGradGuard no_grad;
  const int64_t padding = hidden_padding(c_fc_.weight().size(0), *type);
  packed_up_ = pack_where_possible(at::constant_pad_nd(c_fc_.weight().mul(slope), {0, 0, 0, padding}),
                                   at::constant_pad_nd(c_fc_.bias().mul(slope), {0, padding}), type);
  packed_down_ =
      pack_where_possible(at::constant_pad_nd(c_proj_.weight().mul(1.0 / slope), {0, padding}), c_proj_.bias(), type);
}

ResidualBlock::ResidualBlock(const BlockShape& shape, const at::TensorOptions& options)
    : ln_1_(shape.width, options, shape.norm_epsilon), attn_(shape.width, shape.heads, options),
      ln_2_(shape.width, options, shape.norm_epsilon), mlp_(shape.width, shape.mlp_width, shape.activation, options) {
  register_child("ln_1", ln_1_);
  register_child("attn", attn_);
  if (shape.has_layer_scale) register_child("ls_1", ls_1_.emplace(shape.width, options));
  register_child("ln_2", ln_2_);
  register_child("mlp", mlp_);
  if (shape.has_layer_scale) register_child("ls_2", ls_2_.emplace(shape.width, options));
  declare_unit();
}

at::Tensor ResidualBlock::finish(const at::Tensor& x, const at::Tensor& attended) const {
  const auto [middle, normed] = ln_2_.forward_sum(x, ls_1_ ? ls_1_->forward(attended) : attended);
  return ls_2_ ? middle.add(ls_2_->forward(mlp_.forward(normed))) : mlp_.forward_add(normed, middle);
}

at::Tensor ResidualBlock::forward(const at::Tensor& x_BTD, bool is_causal, const at::Tensor& mask) const {
  about_to_run();
  const auto [x, normed] = ln_1_.forward_beside(x_BTD);
  return finish(x, attn_.forward(normed, is_causal, mask));
}

at::Tensor ResidualBlock::forward_one_position(const at::Tensor& x_BTD, const at::Tensor& position_B,
                                               bool is_causal) const {
  about_to_run();
  const at::Tensor normed_BTD = ln_1_.forward(x_BTD);
  const at::Tensor query_B1D = take_rows(normed_BTD, position_B).unsqueeze(1);
  const at::Tensor attended_BD = attn_.forward_one_query(query_B1D, normed_BTD, position_B, is_causal).squeeze(1);
  return finish(take_rows(x_BTD, position_B), attended_BD);
}

CrossBlock::CrossBlock(const BlockShape& shape, const at::TensorOptions& options)
    : ln_1_(shape.width, options, shape.norm_epsilon), attn_(shape.width, shape.heads, shape.width, options),
      ln_1_kv_(shape.width, options, shape.norm_epsilon), ln_2_(shape.width, options, shape.norm_epsilon),
      mlp_(shape.width, shape.mlp_width, shape.activation, options) {
  register_child("ln_1", ln_1_);
  register_child("attn", attn_);
  if (shape.has_layer_scale) register_child("ls_1", ls_1_.emplace(shape.width, options));
  register_child("ln_1_kv", ln_1_kv_);
  register_child("ln_2", ln_2_);
  register_child("mlp", mlp_);
  if (shape.has_layer_scale) register_child("ls_2", ls_2_.emplace(shape.width, options));
  declare_unit();
}

at::Tensor CrossBlock::forward(const at::Tensor& x_BLD, const at::Tensor& context_BTD) const {
  about_to_run();
  const at::Tensor attended = attn_.forward(ln_1_.forward(x_BLD), ln_1_kv_.forward(context_BTD));
  const at::Tensor middle = x_BLD.add(ls_1_ ? ls_1_->forward(attended) : attended);
  const at::Tensor expanded = mlp_.forward(ln_2_.forward(middle));
  return middle.add(ls_2_ ? ls_2_->forward(expanded) : expanded);
}

Transformer::Transformer(int64_t num_layers, const BlockShape& shape, bool is_causal, const at::TensorOptions& options)
    : is_causal_(is_causal) {
  for (int64_t i = 0; i < num_layers; ++i) {
    blocks_.push_back(std::make_unique<ResidualBlock>(shape, options));
    register_child("resblocks." + std::to_string(i), *blocks_.back());
  }
}

at::Tensor Transformer::run_block(ResidualBlock& block, const at::Tensor& x_BTD, const at::Tensor& mask) {
  if (!checkpointing_) return block.forward(x_BTD, is_causal_, mask);
  return recomputed(block, x_BTD, [&block, mask, is_causal = is_causal_](const at::Tensor& x) {
    return block.forward(x, is_causal, mask);
  });
}

at::Tensor Transformer::forward(const at::Tensor& x_BTD, const at::Tensor& mask) {
  at::Tensor x = x_BTD;
  for (const auto& block : blocks_) x = run_block(*block, x, mask);
  return x;
}

at::Tensor Transformer::forward_pooled(const at::Tensor& x_BTD, const at::Tensor& position_B, bool exact_shortcut) {
  if (!exact_shortcut) return take_rows(forward(x_BTD), position_B);
  at::Tensor x = x_BTD;
  for (size_t i = 0; i + 1 < blocks_.size(); ++i) x = run_block(*blocks_[i], x);
  ResidualBlock& last = *blocks_.back();
  if (!checkpointing_) return last.forward_one_position(x, position_B, is_causal_);
  return recomputed(last, x, [&last, position_B, is_causal = is_causal_](const at::Tensor& input) {
    return last.forward_one_position(input, position_B, is_causal);
  });
}

at::Tensor take_rows(const at::Tensor& x_BTD, const at::Tensor& position_B) {
  const int64_t batch = x_BTD.size(0), width = x_BTD.size(2);
  return at::gather(x_BTD, 1, position_B.view({batch, 1, 1}).expand({batch, 1, width})).squeeze(1);
}

}  // namespace lockstep::nn
