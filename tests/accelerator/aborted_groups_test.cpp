// Two ranks, threads of this process, whose devices wait for each other in different groups: the failure of one ends
// what either device waits for.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <latch>
#include <thread>

#include "comm/store.h"
#include "comm/world.h"
#include "support/accelerator/runtime.h"

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
    if (rank == 1) world.report_failure("it was told to");
    EXPECT_TRUE(is_reached(behind)) << "the device of rank " << rank << " waits for ever";
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  std::signal(SIGTERM, SIG_DFL);  // see World::report_failure
  EXPECT_TRUE(Runtime::get().races().take_reports().empty());
}

}  // namespace
}  // namespace lockstep::tests
