#include "train/staging_area.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>

namespace lockstep::train {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(StagingArea, BlocksArePowersOfTwoAndHardlyLargerThanWhatTheyHold) {
  EXPECT_TRUE(staging_blocks(0, 256 * kMiB).empty());
  // 2.47 GB, which one allocation would make 4 GiB.
  for (const int64_t bytes : {int64_t{1}, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB, 255 * kMiB, 257 * kMiB + 5,
                              int64_t{2'470'000'000}, int64_t{300'000'000'001}}) {
    const auto blocks = staging_blocks(bytes, 256 * kMiB);
    const int64_t total = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
    EXPECT_GE(total, bytes);
    EXPECT_LT(total - bytes, kMiB) << bytes;
    for (const int64_t block : blocks) {
      EXPECT_TRUE(std::has_single_bit(static_cast<uint64_t>(block))) << block;
      EXPECT_LE(block, 256 * kMiB);
    }
  }
}

std::string bytes_of_pieces(const core::ScatteredEntry& entry) {
  std::string bytes;
  for (const auto piece : entry.pieces) bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return bytes;
}

std::string bytes_of_tensor(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

TEST(StagingArea, TensorsAreWholeWhereverBlocksEnd) {
  const NamedHandles model = {{"odd", at::arange(13, at::kShort)},
                              {"large", at::arange(900'001, at::kFloat).view({1, 900'001})},
                              {"turned", at::arange(600'000, at::kDouble).view({300, 2000}).t()},
                              {"none", at::empty({0, 4})},
                              {"flag", at::ones({}, at::kBool)}};
  const NamedHandles optimizer = {{"step", at::full({}, 7, at::kLong)}, {"bits", at::arange(700'000, at::kBFloat16)}};
  const std::vector<const NamedHandles*> files = {&model, &optimizer};
  StagingArea area(kMiB);
  int64_t num_bytes = 0;
  for (const int round : {0, 1}) {
    for (const auto* tensors : files)
      for (const auto& [name, tensor] : *tensors) tensor.copy_(tensor.to(at::kDouble) * (1 + round));
    area.copy_aside(files);
    for (size_t file = 0; file < files.size(); ++file) {
      const auto entries = area.entries(file);
      ASSERT_EQ(entries.size(), files[file]->size());
      for (size_t i = 0; i < entries.size(); ++i) {
        const auto& [name, tensor] = (*files[file])[i];
        EXPECT_EQ(entries[i].name, name);
        EXPECT_EQ(entries[i].shape, tensor.sizes().vec());
        EXPECT_TRUE(bytes_of_pieces(entries[i]) == bytes_of_tensor(tensor)) << name;
        num_bytes += round == 0 ? static_cast<int64_t>(tensor.nbytes()) : 0;
      }
    }
    EXPECT_GT(area.entries(0)[1].pieces.size(), 3u) << "nothing was cut";
  }
  EXPECT_LT(area.num_bytes(), num_bytes + kMiB + 64 * 7);
}

TEST(StagingArea, OtherTensorsAreLaidOutAnew) {
  StagingArea area(kMiB);
  const NamedHandles few = {{"w", at::ones({3})}}, more = {{"w", at::full({4}, 2.0)}, {"v", at::full({500'000}, 3.0)}};
  for (const NamedHandles* file : {&few, &more, &few}) {
    area.copy_aside(std::vector<const NamedHandles*>{file});
    const auto entries = area.entries(0);
    ASSERT_EQ(entries.size(), file->size());
    for (size_t i = 0; i < entries.size(); ++i)
      EXPECT_TRUE(bytes_of_pieces(entries[i]) == bytes_of_tensor((*file)[i].second));
  }
  EXPECT_EQ(area.num_bytes(), kMiB);
}

}  // namespace
}  // namespace lockstep::train
