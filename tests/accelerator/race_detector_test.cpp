// The detector finds each kind of race, and nothing where events and waits order what is done.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/accelerator/runtime.h"

namespace lockstep::tests {
namespace {

using accelerator::Runtime;

const c10::impl::VirtualGuardImpl& devices() {
  static const c10::impl::VirtualGuardImpl devices(accelerator::kDeviceType);
  return devices;
}

bool says(const std::string& report, const char* text) { return report.find(text) != std::string::npos; }

/// All reports since the last call.
std::string reports() {
  std::string all;
  for (const auto& report : Runtime::get().races().take_reports()) all += report + "\n";
  return all;
}

class RaceDetector : public ::testing::Test {
 protected:
  void SetUp() override { Runtime::get().races().take_reports(); }
  void TearDown() override { EXPECT_EQ(reports(), ""); }
  /// Exactly one mistake was made; its text.
  static std::string only_report() {
    const auto reports = Runtime::get().races().take_reports();
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? "" : reports.front();
  }
  static c10::Event event_here() {
    c10::Event event(accelerator::kDeviceType);
    event.record(devices().getStream(kDevice));
    return event;
  }

  /// Memory may go back to the allocator.
  void finish_side() const { devices().synchronizeStream(side_); }

  inline static const at::Device kDevice{accelerator::kDeviceType, 0};
  c10::Stream side_ = devices().getNewStream(kDevice);
};

TEST_F(RaceDetector, ReadWithoutEventAfterWrite) {
  const auto x = at::ones({8}, kDevice).add(1);
  {
    const c10::StreamGuard guard(side_);
    x.mul(2);
  }
  const std::string report = only_report();
  EXPECT_PRED2(says, report, "a read that no event orders after a write");
  EXPECT_PRED2(says, report, "earlier: aten::add");
  EXPECT_PRED2(says, report, "later: aten::mul");
  EXPECT_PRED2(says, report, "RaceDetector_ReadWithoutEventAfterWrite_Test::TestBody");
  finish_side();
}

TEST_F(RaceDetector, EventOrdersAReadAfterAWrite) {
  const auto x = at::ones({8}, kDevice).add(1);
  const auto event = event_here();
  const c10::StreamGuard guard(side_);
  event.block(side_);
  x.mul(2);
  finish_side();
}

TEST_F(RaceDetector, EventRecordedTooEarlyOrdersNothing) {
  const auto event = event_here();
  const auto x = at::ones({8}, kDevice);
  const c10::StreamGuard guard(side_);
  event.block(side_);
  x.mul(2);
  EXPECT_PRED2(says, only_report(), "a read that no event orders after a write");
  finish_side();
}

TEST_F(RaceDetector, WriteWithoutEventAfterReadAndAfterWrite) {
  const auto x = at::ones({8}, kDevice);
  const auto event = event_here();
  const auto y = x + 1;
  const auto z = at::zeros({8}, kDevice);
  const c10::StreamGuard guard(side_);
  event.block(side_);
  x.add_(1);
  EXPECT_PRED2(says, reports(), "a write that no event orders after a read");
  z.add_(1);
  EXPECT_PRED2(says, reports(), "a write that no event orders after a write");
  finish_side();
}

TEST_F(RaceDetector, PartsOfABlockAreTold) {
  const auto x = at::zeros({8}, kDevice);
  const auto event = event_here();
  x.narrow(0, 0, 4).add_(1);
  const c10::StreamGuard guard(side_);
  event.block(side_);
  x.narrow(0, 4, 4).add_(1);
  EXPECT_EQ(reports(), "");
  x.narrow(0, 3, 1).add_(1);
  EXPECT_PRED2(says, reports(), "a write that no event orders after a write");
  finish_side();
}

TEST_F(RaceDetector, MemoryGivenBackWhileAnotherStreamReads) {
  auto x = at::ones({8}, kDevice);
  const auto event = event_here();
  {
    const c10::StreamGuard guard(side_);
    event.block(side_);
    x.mul(2);
  }
  x.reset();
  EXPECT_PRED2(says, only_report(), "goes back to the allocator while another stream may use it");
}

TEST_F(RaceDetector, RecordStreamKeepsMemory) {
  auto x = at::ones({8}, kDevice);
  const auto event = event_here();
  {
    const c10::StreamGuard guard(side_);
    event.block(side_);
    x.mul(2);
  }
  x.record_stream(side_);
  x.reset();
}

TEST_F(RaceDetector, PinnedMemoryReadBeforeItsCopyHasArrived) {
  const auto x = at::full({8}, 3.0, kDevice);
  const auto host = at::empty({8}, at::TensorOptions().pinned_memory(true));
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_EQ(host.const_data_ptr<float>()[0], 3.0f);
  EXPECT_PRED2(says, only_report(), "the host uses pinned memory that it has not waited for");
}

TEST_F(RaceDetector, PinnedMemoryChangedWhileItIsCopied) {
  const auto host = at::ones({8}).pin_memory();
  const auto x = host.to(kDevice, /*non_blocking=*/true);
  EXPECT_EQ(host.const_data_ptr<float>()[0], 1.0f);  // reading is allowed
  EXPECT_EQ(reports(), "");
  host.mutable_data_ptr<float>()[0] = 2.0f;
  EXPECT_PRED2(says, only_report(), "the host uses pinned memory that it has not waited for");
}

TEST_F(RaceDetector, HostThatWaitsMayReadAndChangePinnedMemory) {
  const auto host = at::ones({8}).pin_memory();
  const auto x = host.to(kDevice, /*non_blocking=*/true).mul(5);
  const auto back = at::empty({8}, at::TensorOptions().pinned_memory(true));
  back.copy_(x, /*non_blocking=*/true);
  event_here().synchronize();
  EXPECT_EQ(back.const_data_ptr<float>()[0], 5.0f);
  host.mutable_data_ptr<float>()[0] = 2.0f;
}

TEST_F(RaceDetector, CopyThatIsAskedNotToWaitNeedsPinnedMemory) {
  const int64_t before = Runtime::get().num_host_waits();
  at::ones({8}).to(kDevice, /*non_blocking=*/true);
  EXPECT_PRED2(says, only_report(), "the host's memory is not pinned");
  EXPECT_EQ(Runtime::get().num_host_waits(), before + 1);
}

TEST_F(RaceDetector, ElapsedTimeNeedsEventsThatTheHostHasWaitedFor) {
  c10::Event begin(accelerator::kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event end(accelerator::kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
  begin.record(devices().getStream(kDevice));
  at::ones({8}, kDevice).add(1);
  end.record(devices().getStream(kDevice));
  EXPECT_THROW(begin.elapsedTime(end), c10::Error);
  end.synchronize();
  EXPECT_GE(begin.elapsedTime(end), 0.0);
}

TEST_F(RaceDetector, ThreadOfAnotherDeviceIsFound) {
  Runtime::home_device() = 1;
  at::ones({8}, kDevice);
  Runtime::home_device() = -1;
  const auto reports = Runtime::get().races().take_reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_PRED2(says, reports.front(), "a thread of device 1 uses device 0");
}

TEST_F(RaceDetector, TensorsOfTwoPlacesAreRefused) {
  EXPECT_THROW(at::ones({8}, kDevice).add(at::ones({8})), c10::Error);
  EXPECT_THROW(at::ones({8}, kDevice).add(at::ones({8}, at::Device(accelerator::kDeviceType, 1))), c10::Error);
}

TEST_F(RaceDetector, BackwardIsOrderedByLibTorch) {
  auto x = at::full({8}, 2.0, kDevice).set_requires_grad(true);
  torch::autograd::backward({x.square().sum()}, {});
  EXPECT_EQ(x.grad().cpu()[0].item<float>(), 4.0f);
}

TEST(RaceDetectorDeathTest, HostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto x = at::ones({8}, at::Device(accelerator::kDeviceType, 0));
  const auto* address = static_cast<const float*>(x.const_data_ptr());
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile float*>(address)), "memory of the device");
}

}  // namespace
}  // namespace lockstep::tests
