#include "bench/loader_drive.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace lockstep::bench {
namespace {

using data::RawSample;

/// Numbers from 0 on, without an end.
class NumberSource : public data::SampleSource {
 public:
  std::optional<RawSample> next() override {
    RawSample sample;
    sample.key = std::to_string(at_);
    sample.id = static_cast<uint64_t>(at_++);
    return sample;
  }
  core::Json position() const override { return {{"at", at_}}; }
  void seek(const core::Json& position) override { at_ = position.at("at").get<int64_t>(); }
  data::SourceReport report() const override {
    return {.num_samples = at_, .num_shards = 0, .num_dropped_tail = 0, .skipped = {}};
  }
  void interrupt() override {}

 private:
  int64_t at_ = 0;
};

constexpr int64_t kSamples = 4, kPrefetch = 4, kWarmup = 3, kTimed = 5;

/// The last sample of the warm-up is decoded only when all batches that the loader may prepare meanwhile are, so that
/// the queue is full when the warm-up ends.
class FullQueueDecoder {
 public:
  void decode(const RawSample& sample) {
    constexpr int64_t kLast = kWarmup * kSamples - 1, kPrepared = kPrefetch * kSamples;
    const auto number = static_cast<int64_t>(sample.id);
    std::unique_lock lock(mutex_);
    if (number == kLast) {
      prepared_.wait(lock, [&] { return num_prepared_ == kPrepared; });
      return;
    }
    if (number > kLast && number <= kLast + kPrepared && ++num_prepared_ == kPrepared) prepared_.notify_all();
    lock.unlock();
    if (number > kLast + kPrepared) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::mutex mutex_;
  std::condition_variable prepared_;
  int64_t num_prepared_ = 0;
};

TEST(LoaderDrive, WhatWasPreparedBeforeTheTimingIsTakenOutOfTheQueueFirst) {
  FullQueueDecoder decoder;
  data::Loader loader(std::make_unique<NumberSource>(),
                      [&](const RawSample& sample, data::SampleSlot&) { decoder.decode(sample); },
                      {.micro_batch_size = kSamples, .num_workers = 2, .prefetch_batches = kPrefetch});
  const LoaderTally tally = drive_loader(loader, {.num_warmup = kWarmup, .num_batches = kTimed});
  EXPECT_GE(tally.num_drained, kPrefetch) << "the queue held that many batches when the warm-up ended";
  EXPECT_LT(tally.num_ahead, kPrefetch);
  EXPECT_EQ(tally.wait_ms.size(), static_cast<size_t>(kTimed));
  EXPECT_EQ(tally.num_samples, kTimed * kSamples);
  EXPECT_EQ(loader.stats().num_batches, kWarmup + tally.num_drained + kTimed);
  EXPECT_GT(tally.seconds, 0);
  EXPECT_GT(tally.decode_ms, 1) << "the timed samples take the decoder a millisecond each";
  EXPECT_GT(tally.read_ms, 0);
}

TEST(LoaderDrive, ALoaderThatIsAlwaysReadyEndsTheDraining) {
  data::Loader loader(std::make_unique<NumberSource>(), [](const RawSample&, data::SampleSlot&) {},
                      {.micro_batch_size = 1, .num_workers = 2, .prefetch_batches = 8});
  const LoaderTally tally = drive_loader(loader, {.num_warmup = 0, .num_batches = 2});
  EXPECT_GE(tally.num_drained, 1);
  EXPECT_LE(tally.num_drained, 200);
  EXPECT_EQ(tally.num_samples, 2);
}

}  // namespace
}  // namespace lockstep::bench
