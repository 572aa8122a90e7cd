#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "data/loader.h"

namespace lockstep::bench {

struct LoaderDrive {
  int64_t num_warmup = 0, num_batches = 0;
  std::chrono::duration<double, std::milli> think{};  ///< Pause after each timed batch.
};

/// What one rank's loader did in the timed part.
struct LoaderTally {
  std::vector<double> wait_ms{};  ///< Until each batch was there.
  int64_t num_samples = 0;
  int64_t num_drained = 0;                         ///< Batches taken after the warm-up until one was not ready.
  int64_t num_ahead = 0;                           ///< Batches that were ready when the timed part began.
  double seconds = 0, cpu_seconds = 0, bytes = 0;  ///< Wall clock, processor time of all threads, bytes of read calls.
  double read_ms = 0, decode_ms = 0;               ///< In the source and in the decoder, summed over threads.
};

/// Takes the warm-up, then batches without a pause until one is not ready, then the timed ones: so what was prepared
/// before the timing is not counted as its work. A loader that is always ready (nothing to decode) is given up on after
/// a bounded number of batches; num_ahead tells.
LoaderTally drive_loader(data::Loader& loader, const LoaderDrive& drive);

}  // namespace lockstep::bench
