#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/json.h"
#include "data/batch.h"
#include "data/shards/sample.h"
#include "data/shards/source.h"

namespace lockstep::data {

enum class OnBadSample {
  kStop,
  kSkip,     ///< Another sample takes its place. Sources of training alone have others.
  kLeaveOut  ///< The batch is a sample shorter. Counted and listed as those replaced. For evaluation.
};

struct LoaderConfig {
  int64_t micro_batch_size = 0;  ///< Samples of one micro-batch.
  int64_t image_pixels = 0;      ///< Y (= X); 0: no images.
  int64_t clip_samples = 0;      ///< S; 0: no audio.
  int64_t context_length = 0;    ///< T; 0: no text.
  int64_t num_workers = 4;       ///< Decode threads (at least 1); a reader thread comes on top.
  int64_t prefetch_batches = 2;  ///< Batches under way or ready besides the one handed out (at least 1).
  OnBadSample on_bad_sample = OnBadSample::kStop;
  bool may_leave_out = false;  ///< With kStop: --on-bad-sample skip would go on, so hints may say so. Sources that have
                               ///< substitutes need not say it.
  bool is_quiet =
      false;  ///< Bad samples are counted and listed without a word in the log: another loader told of them.
  int64_t max_bad_samples = 1000;  ///< Not with kStop: more of them end the run.
  int64_t max_attempts = 16;       ///< With kSkip: substitutes tried for one sample.
};

struct LoaderStats {
  int64_t num_batches = 0;      ///< Handed out.
  double wait_ms = 0;           ///< next() waited for a batch, summed.
  double read_ms = 0;           ///< The reader thread spent in the source, summed.
  double decode_ms = 0;         ///< Workers spent in the decoder, summed over threads.
  double sample_bytes = 0;      ///< Of the samples handed out, before decoding.
  double mean_queue_depth = 0;  ///< Batches that were ready when next() was called, on average.
};

/// Reads, decodes and batches ahead of the caller in threads of its own.
///
/// Batches come in exact stream order whatever the order of decoding. An error in any thread comes out of the next()
/// that would have returned the batch it belongs to, and of every later one; next() never hangs on it. Prefetch crosses
/// epochs. The destructor stops promptly, also with full queues or an input that hangs. One caller thread.
class Loader {
 public:
  Loader(std::unique_ptr<SampleSource> source, SampleDecoder decoder, const LoaderConfig& config);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch. A finite source ends with one smaller batch (if need be) and then batches with num_samples == 0.
  HostBatch next();
  /// Gives a batch's memory back for reuse; optional.
  void recycle(HostBatch&& batch);
  /// Position of the stream right after the last batch handed out: a loader that seeks there hands out exactly the
  /// following batch.
  core::Json position() const;
  /// Throws prefetched batches away and continues from `position`.
  void seek(const core::Json& position);
  /// Bad samples replaced or left out in the batches handed out so far.
  int64_t num_bad_samples() const;
  /// The first of them (at most 1,000), in stream order.
  const std::vector<BadSample>& bad_samples() const;
  LoaderStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
