#include "infer/embed_progress.h"

#include <algorithm>

namespace lockstep::infer {

void EmbedProgress::begin(const Shard& shard) {
  present_ = shard;
  num_there_ = 0;
  offset_ = 0;
}

void EmbedProgress::add(int64_t num_samples, uint64_t offset) {
  num_done_ += num_samples;
  num_there_ += num_samples;
  offset_ = offset;
}

void EmbedProgress::end() {
  ++num_ended_;
  present_.reset();
}

std::optional<double> EmbedProgress::num_left() const {
  const std::optional<double> total = present_total();
  const double num_before = static_cast<double>(num_done_ - (present_ ? num_there_ : 0)) + total.value_or(0);
  const auto num_known = static_cast<double>(num_ended_ + (total ? 1 : 0));
  if (num_known == 0 || num_before == 0) return std::nullopt;
  const double mean = num_before / num_known;
  const auto num_later = static_cast<double>(num_shards_ - num_ended_ - (present_ ? 1 : 0));
  const double present = present_ ? total.value_or(mean) - static_cast<double>(num_there_) : 0;
  return std::max(0.0, present) + mean * num_later;
}

/// Before the last sample lie all others and its offset in bytes.
std::optional<double> EmbedProgress::present_total() const {
  if (!present_) return std::nullopt;
  const auto there = static_cast<double>(num_there_);
  if (present_->num_samples) return std::max(there, static_cast<double>(*present_->num_samples));
  if (present_->num_bytes == 0 || offset_ == 0) return std::nullopt;
  return std::max(there, (there - 1) * static_cast<double>(present_->num_bytes) / static_cast<double>(offset_));
}

}  // namespace lockstep::infer
