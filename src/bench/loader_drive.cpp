#include "bench/loader_drive.h"

#include <sys/resource.h>

#include <cmath>
#include <thread>

#include "core/clock.h"

namespace lockstep::bench {
namespace {

using core::Clock;

constexpr int64_t kMostDrained = 200;

/// Processor time of all threads of this process.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Taken {
  int64_t num_samples = 0;
  int64_t num_ready = 0;  ///< Batches that were ready when this one was asked for.
};

Taken take(data::Loader& loader) {
  const auto depth_sum = [&] {
    const data::LoaderStats stats = loader.stats();
    return std::llround(stats.mean_queue_depth * static_cast<double>(stats.num_batches));
  };
  const int64_t before = depth_sum();
  auto batch = loader.next();
  const Taken taken{batch.num_samples, depth_sum() - before};
  loader.recycle(std::move(batch));
  return taken;
}
}  // namespace

LoaderTally drive_loader(data::Loader& loader, const LoaderDrive& drive) {
  for (int64_t i = 0; i < drive.num_warmup; ++i) take(loader);
  LoaderTally tally;
  for (bool was_ready = true; was_ready && tally.num_drained < kMostDrained; ++tally.num_drained)
    was_ready = take(loader).num_ready > 0;
  const double cpu_before = cpu_seconds();
  const data::LoaderStats before = loader.stats();
  const auto begin = Clock::now();
  for (int64_t i = 0; i < drive.num_batches; ++i) {
    const auto asked = Clock::now();
    const Taken taken = take(loader);
    tally.wait_ms.push_back(core::ms_since(asked));
    tally.num_samples += taken.num_samples;
    if (i == 0) tally.num_ahead = taken.num_ready;
    if (drive.think.count() > 0) std::this_thread::sleep_for(drive.think);
  }
  tally.seconds = core::ms_since(begin) / 1e3;
  tally.cpu_seconds = cpu_seconds() - cpu_before;
  const data::LoaderStats after = loader.stats();
  tally.bytes = after.sample_bytes - before.sample_bytes;
  tally.read_ms = after.read_ms - before.read_ms;
  tally.decode_ms = after.decode_ms - before.decode_ms;
  return tally;
}

}  // namespace lockstep::bench
