#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "config/gpt_shape.h"
#include "nn/shard.h"

namespace lockstep::models {

/// Keys and values of the tokens that a batch of sequences has had so far, so that the next ones need not compute them
/// again.
///
/// All sequences end at the same slot; a shorter one begins at a later slot, and its slots before that are seen by
/// nobody. Its tokens have the positions 0, 1,
/// ... from there.
class GptCache {
 public:
  struct Options {
    int64_t capacity = 0;            ///< Slots.
    at::TensorOptions tensors = {};  ///< Device and type of keys and values.
  };
  /// `first_slot_B`: where each sequence begins.
  GptCache(const config::GptShape& shape, const nn::ShardCtx& shard, const std::vector<int64_t>& first_slot_B,
           const Options& options);

  int64_t length() const { return length_; }  ///< Slots taken.
  int64_t capacity() const { return capacity_; }

  /// Positions of the next tokens: [B, L]; 0 where there is no sequence yet.
  at::Tensor positions(int64_t num_tokens) const;
  /// 0 where the next tokens may see a slot, else -inf: [B, 1, L, length + L]. Undefined where the rule is causal or
  /// all are seen.
  at::Tensor mask(int64_t num_tokens, at::ScalarType type) const;
  /// Writes a layer's keys and values of the next tokens behind the present ones; all of them, as views that the next
  /// writing changes.
  std::pair<at::Tensor, at::Tensor> take_up(int64_t layer, const at::Tensor& k_BGLK, const at::Tensor& v_BGLK);
  /// All layers have taken up the next tokens.
  void advance(int64_t num_tokens);
  /// Leaves out all sequences but these, in this order.
  void keep(std::span<const int64_t> rows);

 private:
  struct Layer {
    at::Tensor k_BGTK, v_BGTK;
  };
  at::Tensor next_slots(int64_t num_tokens) const;

  int64_t capacity_, length_ = 0;
  at::Tensor first_slot_B_;
  bool is_ragged_;  // a sequence begins behind slot 0
  std::vector<Layer> layers_;
};

}  // namespace lockstep::models
