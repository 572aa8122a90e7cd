#pragma once
#include <cstdint>
#include <memory>

#include "core/json.h"
#include "data/tokens/gpt_dataset.h"
#include "data/tokens/token_batch.h"

namespace lockstep::data {

struct GptStreamConfig {
  int64_t sequence_length = 0;   ///< T.
  int64_t micro_batch_size = 0;  ///< B of one micro-batch.
  int64_t data_rank = 0;  ///< Place on the data axis of the mesh; ranks that differ on other axes only see the same.
  int64_t data_size = 1;
  DocumentRules rules;
};

/// Micro-batches of one place on the data axis, in order: micro-batch i takes samples [i * B * data_size, (i + 1) * B *
/// data_size) of the run, and of these its own B. So the samples of a step depend on the global batch alone, not on the
/// mesh. One caller thread.
class GptStream {
 public:
  GptStream(std::shared_ptr<const GptSamples> samples, const GptStreamConfig& config);
  /// Fills `batch` with the next micro-batch; num_samples is 0 when fewer than B * data_size samples are left.
  /// DataError names the file of a token outside the vocabulary.
  void next(TokenBatch& batch);
  /// Samples that all ranks have taken, and what they were taken from.
  core::Json position() const;
  /// Continues as if exactly those samples had been taken, also with another micro-batch or data size; DataError when
  /// they were taken from other data. Where a longer or shorter run makes another number of samples of the same data,
  /// their order is another one (as in Megatron): goes on at the same place in it, with a warning.
  void seek(const core::Json& position);
  int64_t consumed_samples() const { return consumed_samples_; }

 private:
  std::shared_ptr<const GptSamples> samples_;
  GptStreamConfig config_;
  std::string hash_;
  int64_t consumed_samples_ = 0;
  std::vector<int32_t> tokens_, piece_begins_;
};

}  // namespace lockstep::data
