#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "data/tokens/array_cache.h"

namespace lockstep::data {

/// What decides the samples of one corpus: the sequences [first, last) of one split, laid end to end in a shuffled
/// order that is repeated as often as needed, and cut into pieces of `sequence_length` tokens and one more for the last
/// label.
struct GptIndexConfig {
  int64_t first = 0, last = 0;
  int64_t sequence_length = 0;  ///< T.
  int64_t num_samples = 0;      ///< At least so many; 0: one epoch.
  uint32_t seed = 1234;
  int64_t memory_bytes = 0;    ///< That the index may take while it is made; 0: any.
  bool keeps_partial = false;  ///< The last, shorter sample counts, too (evaluation); its rest is padding.
};

/// Where a sample begins: position in the order of sequences, and token within that sequence.
struct SampleStart {
  uint32_t position = 0;
  int32_t offset = 0;
  bool operator==(const SampleStart&) const = default;
};

/// The order of sequences, the cuts and the order of samples, equal to Megatron's document, sample and shuffle index.
struct GptIndex {
  int64_t num_epochs = 1;
  std::span<const int32_t> sequences{};  ///< All epochs.
  /// num_samples() + 1: where sample i ends (its last label) is where sample i + 1 begins.
  std::span<const SampleStart> starts{};
  std::span<const uint32_t> shuffle{};   ///< Sample k is the cut number shuffle[k].
  std::string hash{};                    ///< Equal on two machines when the indices are: for comparing ranks.
  std::shared_ptr<const void> memory{};  ///< Keeps the arrays.

  int64_t num_samples() const { return static_cast<int64_t>(starts.size()) - 1; }
  Arrays arrays() const;
  /// The index that arrays() gave.
  static GptIndex of(const Arrays& arrays);
};

/// Builds the index; `length_of` gives the tokens of a sequence. DataError when the split holds too few tokens for one
/// sample, or the run needs more samples than an index can hold; EnvironmentError beyond the memory.
GptIndex build_gpt_index(const GptIndexConfig& config, const std::function<int32_t(int64_t)>& length_of);

}  // namespace lockstep::data
