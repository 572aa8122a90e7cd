#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "data/shards/sample.h"

namespace lockstep::infer {

/// HostBatch::label_B of a row whose sample could not be used.
inline constexpr int64_t kBadLabel = -2;

/// The samples of one stream that could not be used, or not as they are; decoding threads add to it.
class BadSamples {
 public:
  void add(const data::RawSample& sample, const std::string& reason);
  /// By RawSample::id. No decoder may run any more.
  const std::map<uint64_t, data::BadSample>& by_id() const { return by_id_; }
  std::vector<data::BadSample> in_order() const;

 private:
  std::mutex mutex_;
  std::map<uint64_t, data::BadSample> by_id_;
};

/// `decode`, but a sample that it refuses is added to `bad` (which outlives the decoder) and becomes an empty picture,
/// silence and one token, with the label kBadLabel: its row is computed and then left out.
data::SampleDecoder tolerant_decoder(data::SampleDecoder decode, BadSamples& bad);

/// `decode`, and a sample whose caption has more tokens than fit is added to `cut`, which outlives the decoder.
data::SampleDecoder cut_noting_decoder(data::SampleDecoder decode, BadSamples& cut);

/// Warns of the first of them; DataError where none of `num_samples` can be used.
void tell_bad(const BadSamples& bad, size_t num_samples);

}  // namespace lockstep::infer
