// How `train imagenet` prepares its pictures.
#include "tasks/imagenet/engine/imagenet_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "data/pictures/augment.h"

namespace lockstep::tasks {
namespace {

using Colour = std::array<uint8_t, 3>;

/// The colours of a green picture with an erased box.
std::vector<Colour> colours_of(const ImagenetOptions& options) {
  constexpr int kPicturePixels = 32;
  constexpr Colour kGreen{0, 255, 0};
  std::vector<uint8_t> rgb_YXC;
  for (int pixel = 0; pixel < kPicturePixels * kPicturePixels; ++pixel)
    rgb_YXC.insert(rgb_YXC.end(), kGreen.begin(), kGreen.end());
  data::AugmentScratch scratch;
  data::augment(make_imagenet_augment(options), /*rng_key=*/1,
                {.rgb_YXC = rgb_YXC, .width = kPicturePixels, .height = kPicturePixels}, scratch);
  std::vector<Colour> colours;
  for (size_t at = 0; at < rgb_YXC.size(); at += 3) {
    const Colour colour{rgb_YXC[at], rgb_YXC[at + 1], rgb_YXC[at + 2]};
    if (colour != kGreen && std::find(colours.begin(), colours.end(), colour) == colours.end())
      colours.push_back(colour);
  }
  return colours;
}

/// torchvision's RandomErasing writes zeros behind the normalisation.
TEST(ImagenetData, ErasedBoxesBecomeZeroWhateverTheMeanIs) {
  ImagenetOptions options;
  EXPECT_TRUE(colours_of(options).empty());
  options.random_erase = 1;
  EXPECT_EQ(colours_of(options), std::vector<Colour>({{124, 116, 104}}));
  options.image_mean = {0.5};
  EXPECT_EQ(colours_of(options), std::vector<Colour>({{128, 128, 128}}));
  options.image_mean = {0, 0.2, 1};
  EXPECT_EQ(colours_of(options), std::vector<Colour>({{0, 51, 255}}));
}

TEST(ImagenetData, EvaluationResizesToEightSeventhsOfItsCrop) {
  const ImagenetOptions options;
  EXPECT_EQ(make_imagenet_transform(options, /*is_train=*/false, 224).resize_pixels, 256);
  EXPECT_EQ(make_imagenet_transform(options, /*is_train=*/false, 32).resize_pixels, 36);
  ImagenetOptions recipe;
  recipe.resize_pixels = 232;
  EXPECT_EQ(make_imagenet_transform(recipe, /*is_train=*/false, 224).resize_pixels, 232);
}

}  // namespace
}  // namespace lockstep::tasks
