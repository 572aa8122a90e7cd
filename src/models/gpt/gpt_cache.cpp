// Letters: B sequences, G query groups, K head width, L new tokens, T slots.
#include "models/gpt/gpt_cache.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "nn/parallel_linear.h"

namespace lockstep::models {

GptCache::GptCache(const config::GptShape& shape, const nn::ShardCtx& shard, const std::vector<int64_t>& first_slot_B,
                   const Options& options)
    : capacity_(options.capacity),
      first_slot_B_(at::tensor(first_slot_B, at::TensorOptions(at::kLong)).to(options.tensors.device())),
      is_ragged_(std::any_of(first_slot_B.begin(), first_slot_B.end(), [](int64_t slot) { return slot > 0; })) {
  LOCKSTEP_CHECK(options.capacity > 0 && !first_slot_B.empty(), "capacity={} sequences={}", options.capacity,
                 first_slot_B.size());
  const std::vector<int64_t> sizes = {std::ssize(first_slot_B), nn::share_of(shape.query_groups, shard),
                                      options.capacity, shape.head_width};
  for (int64_t i = 0; i < shape.layers; ++i)
    layers_.push_back({at::empty(sizes, options.tensors), at::empty(sizes, options.tensors)});
}

at::Tensor GptCache::next_slots(int64_t num_tokens) const {
  return at::arange(length_, length_ + num_tokens, first_slot_B_.options());
}

at::Tensor GptCache::positions(int64_t num_tokens) const {
  return next_slots(num_tokens).unsqueeze(0).sub(first_slot_B_.unsqueeze(1)).clamp_min(0);
}

at::Tensor GptCache::mask(int64_t num_tokens, at::ScalarType type) const {
  if (!is_ragged_ && (length_ == 0 || num_tokens == 1)) return {};
  const at::Tensor query_L1 = next_slots(num_tokens).unsqueeze(1),
                   key_T = at::arange(length_ + num_tokens, first_slot_B_.options());
  const at::Tensor is_sequence_BLT = key_T.ge(first_slot_B_.view({-1, 1, 1})).logical_and(key_T.le(query_L1));
  // Slots before a sequence see themselves: a softmax over nothing is not a number, which zero weights would not keep
  // out of the values.
  const at::Tensor is_seen_BLT = is_sequence_BLT.logical_or(key_T.eq(query_L1));
  return at::zeros(is_seen_BLT.sizes(), is_seen_BLT.options().dtype(type))
      .masked_fill_(is_seen_BLT.logical_not(), -std::numeric_limits<double>::infinity())
      .unsqueeze(1);
}

std::pair<at::Tensor, at::Tensor> GptCache::take_up(int64_t layer, const at::Tensor& k_BGLK, const at::Tensor& v_BGLK) {
  const int64_t num_tokens = k_BGLK.size(2), end = length_ + num_tokens;
  LOCKSTEP_CHECK(end <= capacity_, "slots {} of {}", end, capacity_);
  Layer& held = layers_.at(static_cast<size_t>(layer));
  held.k_BGTK.narrow(2, length_, num_tokens).copy_(k_BGLK);
  held.v_BGTK.narrow(2, length_, num_tokens).copy_(v_BGLK);
  return {held.k_BGTK.narrow(2, 0, end), held.v_BGTK.narrow(2, 0, end)};
}

void GptCache::advance(int64_t num_tokens) { length_ += num_tokens; }

void GptCache::keep(std::span<const int64_t> rows) {
  const at::Tensor row =
      at::tensor(at::IntArrayRef(rows.data(), rows.size()), at::TensorOptions(at::kLong)).to(first_slot_B_.device());
  first_slot_B_ = first_slot_B_.index_select(0, row);
  for (Layer& layer : layers_) {
    layer.k_BGTK = layer.k_BGTK.index_select(0, row);
    layer.v_BGTK = layer.v_BGTK.index_select(0, row);
  }
}

}  // namespace lockstep::models
