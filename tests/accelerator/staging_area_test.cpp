// Checkpoints on their way to the host: pinned, whole, and ordered behind the work that makes their values.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/accelerator/runtime.h"
#include "train/staging_area.h"

namespace lockstep::tests {
namespace {

using accelerator::Runtime;

TEST(StagingAreaOnAccelerator, CutTensorsArriveWhole) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const at::Device device(accelerator::kDeviceType, 0);
  const c10::impl::VirtualGuardImpl devices(accelerator::kDeviceType);
  const at::Tensor wanted = at::arange(900'000, at::kFloat), turned = at::arange(6, at::kFloat).view({2, 3}).t();
  const train::NamedHandles tensors = {
      {"first", at::ones({5}, device)}, {"large", at::zeros({900'000}, device)}, {"turned", turned.to(device)}};
  train::StagingArea area(kMiB);
  for (const double factor : {1.0, 2.0}) {
    tensors[1].second.copy_(wanted);
    tensors[1].second.mul_(factor);  // under way when its copies are queued
    area.copy_aside(std::vector<const train::NamedHandles*>{&tensors});
    tensors[1].second.zero_();
    devices.synchronizeStream(devices.getStream(device));
    const auto entries = area.entries(0);
    ASSERT_GT(entries[1].pieces.size(), 3u);
    std::vector<float> values(900'000);
    size_t at = 0;
    for (const auto piece : entries[1].pieces) {
      std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, piece.data(), piece.size());
      at += piece.size();
    }
    EXPECT_TRUE(at::equal(at::from_blob(values.data(), {900'000}), wanted * factor));
    ASSERT_EQ(entries[2].pieces.size(), 1u);
    const at::Tensor whole = turned.contiguous();
    EXPECT_EQ(std::memcmp(entries[2].pieces[0].data(), whole.const_data_ptr(), whole.nbytes()), 0);
  }
  EXPECT_LT(area.num_bytes(), 900'000 * 4 + kMiB + 3 * 64);
  EXPECT_TRUE(Runtime::get().races().take_reports().empty());
}

}  // namespace
}  // namespace lockstep::tests
