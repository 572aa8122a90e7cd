#include "data/pictures/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/rng.h"
#include "data/pictures/picture_decoder.h"
#include "unit/data/image_golden.h"

namespace lockstep::data {
namespace {

core::Json augment_golden(const std::string& name) {
  return core::read_json_file(std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "augment" / (name + ".json"));
}

const std::map<std::string, AugmentOp>& op_names() {
  static const std::map<std::string, AugmentOp> names = {{"Identity", AugmentOp::kIdentity},
                                                         {"ShearX", AugmentOp::kShearX},
                                                         {"ShearY", AugmentOp::kShearY},
                                                         {"TranslateX", AugmentOp::kTranslateX},
                                                         {"TranslateY", AugmentOp::kTranslateY},
                                                         {"Rotate", AugmentOp::kRotate},
                                                         {"Brightness", AugmentOp::kBrightness},
                                                         {"Color", AugmentOp::kColor},
                                                         {"Contrast", AugmentOp::kContrast},
                                                         {"Sharpness", AugmentOp::kSharpness},
                                                         {"Posterize", AugmentOp::kPosterize},
                                                         {"Solarize", AugmentOp::kSolarize},
                                                         {"AutoContrast", AugmentOp::kAutoContrast},
                                                         {"Equalize", AugmentOp::kEqualize},
                                                         {"Invert", AugmentOp::kInvert}};
  return names;
}

TEST(Augment, OperationsEqualTorchvisionsOnPillow) {
  const core::Json golden = augment_golden("ops");
  ASSERT_GE(golden["cases"].size(), 900u);
  AugmentScratch scratch;
  std::map<std::string, int> num_wrong;
  for (const core::Json& row : golden["cases"]) {
    Image image = golden::generate(row[0], row[1], row[2]);
    apply_augment_op(op_names().at(row[3]), row[4], row[5] == "bilinear",
                     {.rgb_YXC = image.rgb_YXC, .width = image.width, .height = image.height}, scratch);
    if (golden::crc(image.rgb_YXC) == row[6].get<uint32_t>()) continue;
    if (++num_wrong[row[3]] <= 2) ADD_FAILURE() << "case " << row.dump();
  }
  for (const auto& [op, count] : num_wrong) ADD_FAILURE() << op << ": " << count;
}

TEST(Augment, HueEqualsTorchvisionsOnPillow) {
  const core::Json golden = augment_golden("hue");
  ASSERT_EQ(golden["cases"].size(), 72u);
  AugmentScratch scratch;
  for (const core::Json& row : golden["cases"]) {
    Image image = golden::generate(row[0], row[1], row[2]);
    apply_augment_op(AugmentOp::kHue, row[3], true,
                     {.rgb_YXC = image.rgb_YXC, .width = image.width, .height = image.height}, scratch);
    EXPECT_EQ(golden::crc(image.rgb_YXC), row[4].get<uint32_t>()) << row.dump();
  }
}

/// Each change is uniform in its range, every order of the four comes equally often, and nothing comes without being
/// asked for.
TEST(Augment, ColoursAreDrawnAsTorchvisionsJitterDrawsThem) {
  constexpr int kNumPictures = 24000;
  const AugmentConfig config{.jitter = {0.4, 2.0, 0.0, 0.1}, .jitter_probability = 0.75, .grey_probability = 0.2};
  std::map<std::vector<AugmentOp>, int> orders;
  std::map<AugmentOp, std::array<double, 3>> low_high_sum;
  int num_grey = 0;
  for (uint64_t key = 0; key < kNumPictures; ++key) {
    std::vector<AugmentStep> steps = plan_colours(config, key);
    if (!steps.empty() && steps.back().magnitude == -1.0 && steps.back().op == AugmentOp::kColor) {
      ++num_grey;
      steps.pop_back();
    }
    std::vector<AugmentOp> order;
    for (const AugmentStep& step : steps) {
      order.push_back(step.op);
      auto& [low, high, sum] = low_high_sum[step.op];
      low = std::min(low, step.magnitude);
      high = std::max(high, step.magnitude);
      sum += step.magnitude;
    }
    ++orders[order];
  }
  EXPECT_NEAR(num_grey, 0.2 * kNumPictures, 300);
  EXPECT_NEAR(orders[{}], 0.25 * kNumPictures, 350);
  ASSERT_EQ(orders.size(), 7u) << "six orders of three changes, and none";
  orders.erase(std::vector<AugmentOp>{});
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 0.125 * kNumPictures, 250);
  const std::map<AugmentOp, std::pair<double, double>> ranges{
      {AugmentOp::kBrightness, {-0.4, 0.4}}, {AugmentOp::kContrast, {-1.0, 2.0}}, {AugmentOp::kHue, {-0.1, 0.1}}};
  for (const auto& [op, range] : ranges) {
    const auto [low, high, sum] = low_high_sum[op];
    const double width = range.second - range.first;
    EXPECT_NEAR(low, range.first, 0.01 * width);
    EXPECT_NEAR(high, range.second, 0.01 * width);
    EXPECT_NEAR(sum / (0.75 * kNumPictures), (range.first + range.second) / 2, 0.02 * width);
  }
  EXPECT_EQ(low_high_sum.count(AugmentOp::kColor), 0u) << "its change is 0";
  EXPECT_TRUE(plan_colours({}, 1).empty());
}

/// How often each (operation, magnitude) comes, against torchvision's counts in as many pictures.
TEST(Augment, PoliciesDrawFromTorchvisionsLaw) {
  constexpr uint64_t kNumPictures = 40000;
  const core::Json golden = augment_golden("drawn");
  for (const char* name : {"imagenet", "ra", "ta_wide"}) {
    const AugmentConfig config{.policy = parse_augment_policy(name)};
    std::map<std::pair<AugmentOp, int64_t>, int64_t> counts;  // magnitudes in millionths
    for (uint64_t i = 0; i < kNumPictures; ++i)
      for (const AugmentStep& step :
           plan_augment(config, golden["size"][0], golden["size"][1], core::stream_key({4, i})))
        ++counts[{step.op, std::llround(step.magnitude * 1e6)}];
    size_t num_expected = 0;
    for (const core::Json& row : golden[name]) {
      const std::pair key(op_names().at(row[0]), std::llround(row[1].get<double>() * 1e6));
      // Single precision leaves the last digit of a millionth open.
      int64_t seen = 0;
      for (int64_t near = -20; near <= 20; ++near) {
        const auto found = counts.find({key.first, key.second + near});
        if (found != counts.end()) seen += found->second;
      }
      ++num_expected;
      const auto expected = row[2].get<double>();
      EXPECT_NEAR(static_cast<double>(seen), expected, 6 * std::sqrt(2 * expected) + 3) << name << " " << row.dump();
    }
    EXPECT_EQ(counts.size(), num_expected) << name;
  }
}

TEST(Augment, ErasesWhatTorchvisionErases) {
  constexpr uint64_t kNumPictures = 20000;
  const core::Json golden = augment_golden("erased");
  const int width = golden["size"][0], height = golden["size"][1];
  const AugmentConfig config{.erase_probability = 1};
  std::array<std::vector<double>, 5> draws;
  for (uint64_t i = 0; i < kNumPictures; ++i) {
    const Region box = plan_erase(config, width, height, core::stream_key({6, i}));
    if (box.width == 0) continue;
    ASSERT_TRUE(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height);
    draws[0].push_back(box.width);
    draws[1].push_back(box.height);
    draws[2].push_back(static_cast<double>(box.width) * box.height);
    draws[3].push_back(static_cast<double>(box.x) / std::max(1, width - box.width));
    draws[4].push_back(static_cast<double>(box.y) / std::max(1, height - box.height));
  }
  ASSERT_GT(draws[0].size(), kNumPictures * 99 / 100);
  for (size_t k = 0; k < 5; ++k) {
    std::sort(draws[k].begin(), draws[k].end());
    const double range = draws[k].back() - draws[k].front();
    ASSERT_GT(range, 0);
    for (size_t decile = 1; decile <= 9; ++decile) {
      const double value = golden["deciles"][k][decile - 1], slack = 1e-4 * range;
      const auto count = static_cast<double>(draws[k].size());
      const auto below = std::lower_bound(draws[k].begin(), draws[k].end(), value - slack) - draws[k].begin();
      const auto upto = std::upper_bound(draws[k].begin(), draws[k].end(), value + slack) - draws[k].begin();
      EXPECT_LE(static_cast<double>(below) / count, static_cast<double>(decile) / 10 + 0.02) << k << " " << decile;
      EXPECT_GE(static_cast<double>(upto) / count, static_cast<double>(decile) / 10 - 0.02) << k << " " << decile;
    }
  }
  int num_erased = 0;
  for (uint64_t i = 0; i < kNumPictures; ++i)
    num_erased += plan_erase({.erase_probability = 0.25}, width, height, i).width > 0;
  EXPECT_NEAR(num_erased, 5000, 300);
}

TEST(Augment, ErasedPartsHoldTheMeanAndNothingElseChanges) {
  Image image = golden::generate(48, 64, 0);
  const Image before = image;
  const AugmentConfig config{.erase_probability = 1};
  AugmentScratch scratch;
  augment(config, 9, {.rgb_YXC = image.rgb_YXC, .width = 48, .height = 64}, scratch);
  const Region box = plan_erase(config, 48, 64, 9);
  ASSERT_GT(box.width, 0);
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 48; ++x)
      for (size_t c = 0; c < 3; ++c) {
        const size_t at = static_cast<size_t>(y * 48 + x) * 3 + c;
        const bool is_erased = x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
        ASSERT_EQ(image.rgb_YXC[at], is_erased ? config.erase_color[c] : before.rgb_YXC[at]);
      }
}

TEST(Augment, RefusesImpossibleSettings) {
  EXPECT_THROW(check_augment({.magnitude = 31}), UsageError);
  EXPECT_THROW(check_augment({.erase_probability = 1.5}), UsageError);
  EXPECT_THROW(check_augment({.erase_probability = NAN}), UsageError);
  EXPECT_THROW(check_augment({.num_ops = -1}), UsageError);
  EXPECT_THROW(parse_augment_policy("cifar10"), UsageError);
}

TEST(Augment, EvaluationEqualsTorchvisionsResizeAndCentreCrop) {
  const core::Json golden = augment_golden("evaluation");
  ASSERT_GE(golden["cases"].size(), 20u);
  TransformScratch scratch;
  for (const core::Json& row : golden["cases"]) {
    const TransformConfig config = imagenet_transform(/*is_train=*/false, row[4], row[3]);
    std::vector<uint8_t> out(static_cast<size_t>(config.image_pixels) * static_cast<size_t>(config.image_pixels) * 3);
    apply(golden::generate(row[0], row[1], row[2]), config, 0, out, scratch);
    EXPECT_EQ(golden::crc(out), row[5].get<uint32_t>()) << "case " << row.dump();
  }
  EXPECT_THROW(check_transform(imagenet_transform(false, 224, 200)), UsageError);
}

/// As torchvision's ImageFolder: EXIF orientation is not applied, of animations the first picture is taken (APNG) or
/// they are refused (WebP, GIF).
TEST(Augment, OddPicturesDecodeAsInPillow) {
  const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "augment";
  const core::Json golden = augment_golden("odd");
  for (const core::Json& row : golden["cases"]) {
    const Image image = decode_image(golden::read_bytes(folder / row[0].get<std::string>()), row[0].get<std::string>());
    EXPECT_EQ(image.width, row[1].get<int>()) << row[0];
    EXPECT_EQ(image.height, row[2].get<int>()) << row[0];
    EXPECT_EQ(golden::crc(image.rgb_YXC), row[3].get<uint32_t>()) << row[0];
  }
  EXPECT_THROW(decode_image(golden::read_bytes(folder / "animated.gif"), "animated.gif"), DataError);
}

TEST(PictureDecoder, IsAFunctionOfSeedAndPosition) {
  const std::string bytes = core::read_file(golden::folder() / "jpeg_444.jpg");
  const auto decoded = [&](uint64_t seed, uint64_t id) {
    PictureDecoderConfig config{.transform = imagenet_transform(/*is_train=*/true, 32), .seed = seed};
    config.augment = {.policy = AugmentPolicy::kRandAugment, .erase_probability = 0.5};
    RawSample sample;
    sample.id = id;
    sample.members = {{"jpg", bytes}};
    std::vector<uint8_t> pixels(32 * 32 * 3);
    SampleSlot slot;
    slot.image_YXC = pixels;
    make_picture_decoder(config)(sample, slot);
    return pixels;
  };
  EXPECT_EQ(decoded(1, 5), decoded(1, 5));
  EXPECT_NE(decoded(1, 5), decoded(1, 6));
  EXPECT_NE(decoded(1, 5), decoded(2, 5));
}

/// Of every kind of bad picture the message has the sample's place.
TEST(PictureDecoder, NamesTheSampleOfABadPicture) {
  const std::string whole = core::read_file(golden::folder() / "jpeg_420.jpg");
  const SampleDecoder decoder = make_picture_decoder({.transform = imagenet_transform(/*is_train=*/true, 16)});
  for (const std::string& bytes : {std::string(), whole.substr(0, whole.size() / 2), std::string("GIF89a"),
                                   core::read_file(golden::folder() / "animated.webp")}) {
    RawSample sample;
    sample.shard = "s.tar";
    sample.key = "k1";
    sample.members = {{"jpg", bytes}};
    std::vector<uint8_t> pixels(16 * 16 * 3);
    SampleSlot slot;
    slot.image_YXC = pixels;
    try {
      decoder(sample, slot);
      ADD_FAILURE() << "decoded " << bytes.size() << " bytes";
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find("shard 's.tar' offset=0 key='k1'"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep::data
