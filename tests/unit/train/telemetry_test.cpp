#include "train/telemetry.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/ranks/run_ranks.h"
#include "train/interval_recorder.h"
#include "train/startup_clock.h"

namespace lockstep::train {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

TEST(PhaseClock, GivesEachMomentToOnePhase) {
  const comm::Recorder recorder;
  const auto began = std::chrono::steady_clock::now();
  PhaseClock clock(at::kCPU, recorder);
  sleep_ms(4);
  clock.mark(Phase::kDataWait);
  sleep_ms(8);
  clock.mark(Phase::kForward);
  sleep_ms(2);
  clock.mark(Phase::kDataWait);
  const PhaseTimes times = clock.finish_step().read();
  EXPECT_GE(times[Phase::kDataWait], 6);
  EXPECT_GE(times[Phase::kForward], 8);
  EXPECT_EQ(times[Phase::kBackward], 0);
  EXPECT_LE(times.sum(), ms_since(began));
  EXPECT_EQ(clock.finish_step().read().sum(), 0);  // nothing marked since
}

TEST(PhaseClock, BlockingInCollectivesIsExposedCommunicationWhereverItHappens) {
  comm::Recorder recorder;
  PhaseClock clock(at::kCPU, recorder);
  sleep_ms(10);
  recorder.add_time("dp", 2, "all_gather", 4, 9.0, 6.0);
  clock.mark(Phase::kForward);
  sleep_ms(3);
  recorder.add_time("world", 4, "all_reduce", 24, 2.0, 2.0);
  clock.mark(Phase::kTelemetry);  // pays for its own collectives
  const PhaseTimes times = clock.finish_step().read();
  EXPECT_DOUBLE_EQ(times[Phase::kExposedComm], 6.0);
  EXPECT_GE(times[Phase::kForward], 4);
  EXPECT_GE(times[Phase::kTelemetry], 3);
  EXPECT_DOUBLE_EQ(times.compute(), times[Phase::kForward]);
}

TEST(PhaseClock, WhatBelongsToNoPhaseIsOther) {
  comm::Recorder recorder;
  PhaseClock clock(at::kCPU, recorder);
  sleep_ms(8);
  recorder.add_time("dp", 2, "all_reduce", 4, 3.0, 3.0);
  clock.mark(Phase::kExposedComm);  // the end of a wait of which 3 ms were waiting
  sleep_ms(2);
  clock.mark(Phase::kOther);
  const PhaseTimes times = clock.finish_step().read();
  EXPECT_DOUBLE_EQ(times[Phase::kExposedComm], 3.0);
  EXPECT_GE(times[Phase::kOther], 7);
  EXPECT_DOUBLE_EQ(times.sum(), times[Phase::kExposedComm] + times[Phase::kOther]);
}

StepSample sample_of(int64_t step, int sleep, PhaseClock& clock, StopRequest request = StopRequest::kNone) {
  clock.restart();
  sleep_ms(sleep);
  clock.mark(Phase::kDataWait);
  StepSample sample;
  sample.step = step;
  sample.samples_seen = 8 * (step + 1);
  sample.lr = 0.5;
  sample.phases = clock.finish_step();
  sample.request = request;
  sample.scalars = {{"loss", at::scalar_tensor(1.5 + static_cast<double>(step))}, {"found_inf", at::zeros({})}};
  return sample;
}

TEST(Telemetry, TimesAreTheLargestOverTheRanksAndWishesReachAll) {
  tests::run_ranks(3, [](comm::Comm& world) {
    ASSERT_EQ(world.size(), 3);
    const comm::Recorder recorder;
    PhaseClock clock(at::kCPU, recorder);
    Telemetry telemetry(world, at::kCPU);
    telemetry.push(sample_of(0, world.rank() == 1 ? 12 : 1, clock));
    telemetry.push(sample_of(1, 1, clock, world.rank() == 2 ? StopRequest::kSaveAndStop : StopRequest::kNone));
    EXPECT_TRUE(telemetry.take(2).empty());
    const auto values = telemetry.take(0);
    ASSERT_EQ(values.size(), 2u);
    EXPECT_GE(values[0].step_ms, 12);  // rank 1's, on every rank
    EXPECT_GE(values[0].data_wait_ms, 12);
    EXPECT_EQ(values[0].request, StopRequest::kNone);
    EXPECT_EQ(values[1].request, StopRequest::kSaveAndStop);
    EXPECT_EQ(values[1].find("loss"), 2.5);
    EXPECT_EQ(values[1].samples_seen, 16);
    EXPECT_FALSE(values[1].find("grad_norm").has_value());
  });
}

TEST(Telemetry, IsReadSomeStepsLaterInOrder) {
  comm::Comm alone;
  const comm::Recorder recorder;
  PhaseClock clock(at::kCPU, recorder);
  Telemetry telemetry(alone, at::kCPU);
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < 5; ++step) {
    telemetry.push(sample_of(step, 0, clock));
    for (const auto& values : telemetry.take(2)) seen.push_back(values.step);
    EXPECT_EQ(static_cast<int64_t>(seen.size()), std::max<int64_t>(0, step - 1));
  }
  for (const auto& values : telemetry.take(0)) seen.push_back(values.step);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(StartupClock, PhasesAddUpAndCanBeSplit) {
  StartupClock clock;
  sleep_ms(6);
  clock.finish("communicator");
  clock.split("communicator", "rendezvous", 4);
  clock.add("loader", 3);
  clock.add("loader", 2);
  const auto& phases = clock.phases_ms();
  ASSERT_EQ(phases.size(), 4u);
  EXPECT_EQ(phases[0].first, "start");
  EXPECT_GT(phases[0].second, 0);  // this process has lived a while
  EXPECT_EQ(phases[1], std::pair(std::string("rendezvous"), 4.0));
  EXPECT_GE(phases[2].second, 2);
  EXPECT_EQ(phases[3], std::pair(std::string("loader"), 5.0));
}

}  // namespace
}  // namespace lockstep::train
