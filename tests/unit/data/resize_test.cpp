#include "data/pictures/resize.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <set>

#include "unit/data/image_golden.h"

namespace lockstep::data {
namespace {

std::vector<uint8_t> resize_whole(const Image& image, const ResizeSpec& spec, ResizeScratch& scratch) {
  std::vector<uint8_t> out(static_cast<size_t>(spec.window.width) * static_cast<size_t>(spec.window.height) * 3);
  Resizer(spec).run(image, {0, 0, image.width, image.height}, out.data(), static_cast<size_t>(spec.window.width) * 3,
                    scratch);
  return out;
}

ResizeFilter filter_named(const std::string& name) {
  return name == "bicubic" ? ResizeFilter::kBicubic : ResizeFilter::kBilinear;
}

TEST(Resize, EqualsPillow13AndOlderBitForBit) {
  const core::Json golden = golden::read_json("resize");
  ResizeScratch scratch;
  int num_order_matters = 0;
  ASSERT_GE(golden["cases"].size(), 400u);
  for (const core::Json& row : golden["cases"]) {
    const int w = row[0], h = row[1], out_w = row[2], out_h = row[3];
    const Image image = golden::generate(w, h, row[4]);
    ResizeSpec spec{.source = {0, 0, w, h},
                    .width = out_w,
                    .height = out_h,
                    .window = {0, 0, out_w, out_h},
                    .filter = filter_named(row[5])};
    EXPECT_EQ(golden::crc(resize_whole(image, spec, scratch)), row[6].get<uint32_t>())
        << "Pillow 13, case " << row.dump();
    spec.order = PassOrder::kHorizontalFirst;
    EXPECT_EQ(golden::crc(resize_whole(image, spec, scratch)), row[7].get<uint32_t>())
        << "horizontal first, case " << row.dump();
    num_order_matters += row[6] != row[7];
  }
  EXPECT_GE(num_order_matters, 40);  // else the two orders were not told apart
}

TEST(Resize, BoxEqualsCropThenResize) {
  const core::Json golden = golden::read_json("resized_crop");
  ResizeScratch scratch;
  for (const core::Json& row : golden["cases"]) {
    const Image image = golden::generate(row[0], row[1], row[2]);
    const int side = row[7];
    const ResizeSpec spec{
        .source = {row[3], row[4], row[5], row[6]}, .width = side, .height = side, .window = {0, 0, side, side}};
    EXPECT_EQ(golden::crc(resize_whole(image, spec, scratch)), row[8].get<uint32_t>()) << "case " << row.dump();
  }
}

TEST(Resize, WindowEqualsCutFromTheWhole) {
  ResizeScratch scratch;
  for (const auto& [w, h, out_w, out_h] : {std::array{90, 70, 61, 50},
                                           {90, 270, 61, 50},
                                           {40, 30, 61, 50},
                                           {61, 90, 61, 50},
                                           {90, 50, 61, 50},
                                           {61, 50, 61, 50}}) {
    const Image image = golden::generate(w, h, 0);
    ResizeSpec spec{.source = {0, 0, w, h}, .width = out_w, .height = out_h, .window = {0, 0, out_w, out_h}};
    const std::vector<uint8_t> whole = resize_whole(image, spec, scratch);
    for (const Region window :
         {Region{0, 0, 1, 1}, Region{10, 5, 17, 31}, Region{60, 49, 1, 1}, Region{44, 0, 17, 50}}) {
      spec.window = window;
      const std::vector<uint8_t> part = resize_whole(image, spec, scratch);
      for (int y = 0; y < window.height; ++y) {
        const auto* expected =
            whole.data() +
            (static_cast<size_t>(window.y + y) * static_cast<size_t>(out_w) + static_cast<size_t>(window.x)) * 3;
        const size_t row_bytes = static_cast<size_t>(window.width) * 3;
        ASSERT_EQ(std::memcmp(part.data() + static_cast<size_t>(y) * row_bytes, expected, row_bytes), 0)
            << w << " x " << h << ", window row " << y;
      }
    }
  }
}

TEST(Resize, ReadsOnlyWhatItSaysItNeeds) {
  ResizeScratch scratch;
  const Image image = golden::generate(120, 90, 0);
  const ResizeSpec spec{.source = {7, 5, 100, 80}, .width = 40, .height = 33, .window = {4, 6, 20, 19}};
  const std::vector<uint8_t> expected = resize_whole(image, spec, scratch);
  const Resizer resizer(spec);
  const Region needed = resizer.needed();
  ASSERT_LT(needed.width, 100);
  ASSERT_LT(needed.height, 80);
  Image part{.width = needed.width, .height = needed.height, .rgb_YXC = {}};
  for (int y = 0; y < needed.height; ++y) {
    const auto* row =
        image.rgb_YXC.data() + (static_cast<size_t>(needed.y + y) * 120 + static_cast<size_t>(needed.x)) * 3;
    part.rgb_YXC.insert(part.rgb_YXC.end(), row, row + static_cast<size_t>(needed.width) * 3);
  }
  std::vector<uint8_t> out(expected.size());
  resizer.run(part, needed, out.data(), 60, scratch);
  EXPECT_EQ(out, expected);
}

TEST(Resize, EveryInstructionSetGivesTheSameBytes) {
  const Image image = golden::generate(149, 113, 0);
  const ResizeSpec spec{.source = {0, 0, 149, 113}, .width = 67, .height = 59, .window = {3, 2, 61, 50}};
  ResizeScratch scratch;
  const std::vector<uint8_t> expected = resize_whole(image, spec, scratch);
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_TRUE(resize_whole(image, spec, scratch) == expected) << hwy::TargetName(target);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Resize, WeightsSumToOne) {
  for (const int in : {1, 2, 5, 100, 499}) {
    for (const int out : {1, 3, 64, 500}) {
      for (const ResizeFilter filter : {ResizeFilter::kBilinear, ResizeFilter::kBicubic}) {
        const AxisWeights axis = make_axis_weights(in, out, 0, out, filter);
        for (size_t i = 0; i < axis.begin.size(); ++i) {
          int64_t sum = 0;
          for (int t = 0; t < axis.num_taps; ++t)
            sum += axis.weights[i * static_cast<size_t>(axis.num_taps) + static_cast<size_t>(t)];
          EXPECT_NEAR(static_cast<double>(sum), 1 << 22, axis.num_taps) << in << " -> " << out;
          EXPECT_GE(axis.begin[i], 0);
          EXPECT_LE(axis.begin[i] + axis.count[i], in);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::data
