// Two ranks, threads of this process, one of which fails: what ends then, also on the other one, and what does not.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <latch>
#include <thread>

#include "checkpoint/manifest.h"
#include "comm/store.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/files.h"
#include "support/accelerator/runtime.h"
#include "train/agree.h"
#include "train/checkpointer_writer.h"

namespace lockstep::tests {
namespace {

using accelerator::Runtime;

/// Whether the device comes to the event within 20 s.
bool is_reached(c10::Event& event) {
  for (int i = 0; i < 1000; ++i) {
    if (event.query()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(AbortedGroups, AFailureEndsWhatDevicesWaitForOnBothSides) {
  Runtime::get().races().take_reports();
  const uint16_t port = comm::Store::serve(0, std::chrono::seconds(20)).port();
  std::latch both_wait(2);
  const auto run_rank = [&](int rank) {
    hw::RankInfo info;
    info.rank = info.local_rank = rank;
    info.world_size = info.local_world_size = 2;
    info.master_port = port;
    const at::Device device(accelerator::kDeviceType, static_cast<c10::DeviceIndex>(rank));
    comm::World world = comm::World::join(
        info, {.backend = "nccl", .device = device, .report_interval = std::chrono::milliseconds(50)});
    comm::Comm pair = world.group("pair", {0, 1});
    const at::Tensor x = at::ones({4}, device);
    (rank == 0 ? pair : world.comm()).all_reduce(x).wait();  // the device's stream waits, not the host
    c10::Event behind(device.type());
    behind.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    EXPECT_FALSE(behind.query());
    EXPECT_FALSE(behind.query()) << "the other rank has come, and nothing is shown";
    both_wait.arrive_and_wait();
    if (rank == 1) world.report_failure("it was told to", ExitCode::kInternal);
    EXPECT_TRUE(is_reached(behind)) << "the device of rank " << rank << " waits for ever";
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  std::signal(SIGTERM, SIG_DFL);  // see World::report_failure
  EXPECT_TRUE(Runtime::get().races().take_reports().empty());
}

/// All ranks live, and one does not come.
TEST(AbortedGroups, ACallBeyondItsTimeLimitEndsWithTheNameOfWhoIsMissing) {
  const uint16_t port = comm::Store::serve(0, std::chrono::seconds(20)).port();
  std::latch has_given_up(1);
  const auto run_rank = [&](int rank) {
    hw::RankInfo info{.rank = rank, .world_size = 2, .local_rank = rank, .local_world_size = 2};
    info.master_port = port;
    const at::Device device(accelerator::kDeviceType, static_cast<c10::DeviceIndex>(rank));
    comm::World world = comm::World::join(info, {.backend = "nccl",
                                                 .device = device,
                                                 .timeout = std::chrono::seconds(4),
                                                 .report_interval = std::chrono::milliseconds(50)});
    world.comm().barrier();
    if (rank == 1) return has_given_up.wait();
    const at::Tensor x = at::ones({4}, device);
    world.comm().all_reduce(x).wait();
    c10::Event behind(device.type());
    behind.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    EXPECT_TRUE(is_reached(behind));
    try {
      world.comm().check_alive();
      ADD_FAILURE() << "nobody tells of it";
    } catch (const CommError& error) {
      const std::string text = error.what();
      EXPECT_NE(
          text.find("gave up in all_reduce on axis 'world': a call takes longer than its time limit; rank 1 (pid"),
          std::string::npos)
          << text;
      EXPECT_NE(text.find("did not come"), std::string::npos) << text;
    }
    has_given_up.count_down();
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
}

TEST(AbortedGroups, WhatAFailedAttemptLeavesInTheStoreDoesNotEndTheNext) {
  const comm::Store store = comm::Store::serve(0, std::chrono::seconds(20));  // as torchrun's agent does
  for (const int attempt : {0, 1}) {
    std::latch both_have_joined(2);
    const auto run_rank = [&](int rank) {
      hw::RankInfo info{.rank = rank, .world_size = 2, .local_rank = rank, .local_world_size = 2};
      info.master_port = store.port();
      info.store_is_hosted_by_launcher = true;
      info.attempt = attempt;
      const at::Device device(accelerator::kDeviceType, static_cast<c10::DeviceIndex>(rank));
      comm::World world = comm::World::join(
          info, {.backend = "nccl", .device = device, .report_interval = std::chrono::milliseconds(50)});
      both_have_joined.arrive_and_wait();
      if (attempt == 0) world.report_failure("it was told to", ExitCode::kInternal);
    };
    auto other = std::async(std::launch::async, run_rank, 1);
    EXPECT_NO_THROW(run_rank(0)) << "attempt " << attempt;
    EXPECT_NO_THROW(other.get()) << "attempt " << attempt;
  }
  std::signal(SIGTERM, SIG_DFL);  // see World::report_failure
}

TEST(AbortedGroups, WhatTheHostReadsBehindOneIsNoResult) {
  const uint16_t port = comm::Store::serve(0, std::chrono::seconds(20)).port();
  std::latch is_waited_for(1);
  const auto run_rank = [&](int rank) {
    hw::RankInfo info{.rank = rank, .world_size = 2, .local_rank = rank, .local_world_size = 2};
    info.master_port = port;
    const at::Device device(accelerator::kDeviceType, static_cast<c10::DeviceIndex>(rank));
    comm::World world = comm::World::join(
        info, {.backend = "nccl", .device = device, .report_interval = std::chrono::milliseconds(50)});
    if (rank == 1) {
      is_waited_for.wait();
      return world.report_failure("it was told to", ExitCode::kInternal);
    }
    for (const bool throws : {false, true}) {
      int64_t num_read = 0;
      const auto read = [&] {
        const at::Tensor count = at::full({1}, 100, at::TensorOptions(at::kLong).device(device));
        if (!throws) {
          world.comm().all_reduce(count).wait();
          is_waited_for.count_down();
        }
        num_read = count.item<int64_t>();
        if (throws) throw DataError("there are too few samples");
      };
      EXPECT_THROW(train::while_ranks_live(world.comm(), read), CommError);
      EXPECT_EQ(num_read, 100) << "half of it would have been taken for the result";
    }
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  std::signal(SIGTERM, SIG_DFL);  // see World::report_failure
  EXPECT_TRUE(Runtime::get().races().take_reports().empty());
}

TEST(AbortedGroups, NoCheckpointIsWrittenOfCopiesBehindOne) {
  const core::TempDir dir;
  const at::Tensor values = at::ones({100}, at::Device(accelerator::kDeviceType, 0));
  train::CheckpointWriter writer(
      {.run_folder = dir.path(), .check_alive = [] { throw CommError("comm: rank 1 does not answer any more"); }});
  EXPECT_THROW(writer.start({{.name = "model.safetensors", .tensors = {{"w", values}}}}, {.step = 1}), CommError);
  EXPECT_TRUE(checkpoint::list_checkpoints(dir.path()).empty());
}

}  // namespace
}  // namespace lockstep::tests
