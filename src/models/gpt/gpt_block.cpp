// Letters: T tokens, B micro-batch, D width, G query groups, H heads, K head width, W what a rank's queries, keys and
// values fill.
#include "models/gpt/gpt_block.h"

#include <ATen/core/Tensor.h>

#include <tuple>

#include "core/rng.h"
#include "nn/attention.h"
#include "nn/gpt_activation.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kGptHiddenStream = 0x67707468,
                   kGptAttentionStream = 0x67707461;  // apart from other draws under the same key

}  // namespace

nn::Dropout GptDropout::at(int64_t layer, uint64_t place) const {
  return {hidden, core::stream_key({key, kGptHiddenStream, static_cast<uint64_t>(layer), place}), token_TB};
}

nn::Dropout GptDropout::attention_at(int64_t layer) const {
  const auto place = static_cast<uint64_t>(layer);
  if (query_BHT.defined()) return {attention, core::stream_key({key, kGptAttentionStream, place}), query_BHT};
  return {attention, core::stream_key({key, kGptAttentionStream, place, static_cast<uint64_t>(tensor_rank)})};
}

GptAttention::GptAttention(const config::GptShape& shape, int64_t layer, const nn::ShardCtx& shard,
                           const GptBlockOptions& options)
    : layer_(layer), groups_(nn::share_of(shape.query_groups, shard)), heads_per_group_(shape.heads_per_group()),
      head_width_(shape.head_width), recompute_(options.recompute_attention),
      qkv_(shape.hidden, shape.qkv_width(), shard, options.tensors, shape.has_bias || shape.has_qkv_bias, 1,
           options.fp8),
      proj_(shape.query_width(), shape.hidden, shard, options.tensors, shape.has_bias, options.fp8) {
  register_child("qkv", qkv_);
  register_child("proj", proj_);
}

at::Tensor GptAttention::forward(const at::Tensor& x_TBD, const GptFrame& frame) {
  const at::Tensor qkv_TBW = qkv_.forward(x_TBD);
  if (!recompute_) return proj_.forward(attend(qkv_TBW, frame));
  return proj_.forward(
      nn::recomputed(core_, qkv_TBW, [this, frame](const at::Tensor& qkv) { return attend(qkv, frame); }));
}

at::Tensor GptAttention::attend(const at::Tensor& qkv_TBW, const GptFrame& frame) const {
  const int64_t tokens = qkv_TBW.size(0), samples = qkv_TBW.size(1), heads = groups_ * heads_per_group_;
  const at::Tensor qkv = qkv_TBW.view({tokens, samples, groups_, heads_per_group_ + 2, head_width_});
  const std::vector<at::Tensor> parts = nn::split_apart(qkv, 3, {heads_per_group_, 1, 1});
  at::Tensor q = parts[0], k = parts[1];
  if (frame.rotary.is_defined()) {
    q = nn::rotate(q, frame.rotary);
    k = nn::rotate(k, frame.rotary);
  }
  const at::Tensor q_BHTK = q.reshape({tokens, samples, heads, head_width_}).permute({1, 2, 0, 3});
  at::Tensor k_BGTK = k.squeeze(3).permute({1, 2, 0, 3}), v_BGTK = parts[2].squeeze(3).permute({1, 2, 0, 3});
  if (frame.cache != nullptr) std::tie(k_BGTK, v_BGTK) = frame.cache->take_up(layer_, k_BGTK, v_BGTK);
  const bool is_causal = !frame.mask_B1TT.defined() && q_BHTK.size(2) == k_BGTK.size(2);
  const at::Tensor y_BHTK =
      nn::attention(q_BHTK, k_BGTK, v_BGTK, frame.mask_B1TT, is_causal, frame.dropout.attention_at(layer_));
  return y_BHTK.permute({2, 0, 1, 3}).reshape({tokens, samples, heads * head_width_});
}

GptMlp::GptMlp(const config::GptShape& shape, const nn::ShardCtx& shard, const GptBlockOptions& options)
    : activation_(shape.activation), fc1_(shape.hidden, shape.is_gated() ? 2 * shape.ffn : shape.ffn, shard,
                                          options.tensors, shape.has_bias, shape.is_gated() ? 2 : 1, options.fp8),
      fc2_(shape.ffn, shape.hidden, shard, options.tensors, shape.has_bias, options.fp8) {
  register_child("fc1", fc1_);
  register_child("fc2", fc2_);
}

at::Tensor GptMlp::forward(const at::Tensor& x) const { return fc2_.forward(fc1_.forward_activated(x, activation_)); }

GptBlock::GptBlock(const config::GptShape& shape, int64_t layer, const nn::ShardCtx& shard,
                   const GptBlockOptions& options)
    : layer_(layer), norm_1_(shape.norm, shape.hidden, shape.norm_eps, options.tensors),
      attention_(shape, layer, shard, options), norm_2_(shape.norm, shape.hidden, shape.norm_eps, options.tensors),
      mlp_(shape, shard, options) {
  register_child("norm_1", norm_1_);
  register_child("attention", attention_);
  register_child("norm_2", norm_2_);
  register_child("mlp", mlp_);
  declare_unit();
}

at::Tensor GptBlock::forward(const at::Tensor& x_TBD, const GptFrame& frame) {
  about_to_run();
  const auto [x, normed] = norm_1_.forward_beside(x_TBD);
  const at::Tensor attended = nn::dropout(attention_.forward(normed, frame), frame.dropout.at(layer_, 0));
  const auto [middle, normed_middle] = norm_2_.forward_sum(x, attended);
  return middle.add(nn::dropout(mlp_.forward(normed_middle), frame.dropout.at(layer_, 1)));
}

}  // namespace lockstep::models
