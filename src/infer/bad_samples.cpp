#include "infer/bad_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"

namespace lockstep::infer {

void BadSamples::add(const data::RawSample& sample, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  by_id_[sample.id] = {sample.shard, sample.offset, sample.key, reason};
}

std::vector<data::BadSample> BadSamples::in_order() const {
  std::vector<data::BadSample> list;
  for (const auto& [id, sample] : by_id_) list.push_back(sample);
  return list;
}

data::SampleDecoder tolerant_decoder(data::SampleDecoder decode, BadSamples& bad) {
  return [decode = std::move(decode), &bad](const data::RawSample& sample, data::SampleSlot& slot) {
    try {
      decode(sample, slot);
      slot.label = 0;
    } catch (const DataError& error) {
      bad.add(sample, error.what());
      std::fill(slot.image_YXC.begin(), slot.image_YXC.end(), uint8_t{0});
      std::fill(slot.audio_S.begin(), slot.audio_S.end(), 0.0f);
      if (!slot.text_T.empty()) slot.text_T[0] = 1;
      slot.label = kBadLabel;
    }
  };
}

/// A caption was cut where one column more changes more than that column: its end comes later.
data::SampleDecoder cut_noting_decoder(data::SampleDecoder decode, BadSamples& cut) {
  return [decode = std::move(decode), &cut](const data::RawSample& sample, data::SampleSlot& slot) {
    decode(sample, slot);
    if (slot.text_T.empty()) return;
    thread_local std::vector<int32_t> longer;
    longer.assign(slot.text_T.size() + 1, 0);
    data::SampleSlot text_alone;
    text_alone.text_T = longer;
    decode(sample, text_alone);
    if (!std::equal(slot.text_T.begin(), slot.text_T.end(), longer.begin()))
      cut.add(sample, fmt::format("its caption is cut to {} tokens", slot.text_T.size()));
  };
}

void tell_bad(const BadSamples& bad, size_t num_samples) {
  constexpr size_t kMostTold = 20;  // results list all
  size_t num_told = 0;
  for (const auto& [id, sample] : bad.by_id())
    if (num_told++ < kMostTold) core::log_warning("infer: left out: '{}': {}", sample.key, sample.reason);
  if (num_told > kMostTold) core::log_warning("infer: left out: {} more", num_told - kMostTold);
  if (num_told > 0 && num_told == num_samples)
    throw DataError(fmt::format("infer: none of {} can be used, the first because: {}",
                                core::counted(num_samples, "file"), bad.by_id().begin()->second.reason));
}

}  // namespace lockstep::infer
