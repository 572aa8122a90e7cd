#include "tasks/contrastive/engine/contrastive_data.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "config/contrastive_shape.h"
#include "core/error.h"
#include "data/text/clip_assets.h"

namespace lockstep::tasks {
namespace {

TEST(ContrastiveData, TextsAreCleanedAsTheModelSays) {
  try {
    data::find_clip_assets();
  } catch (const EnvironmentError& error) {
    GTEST_SKIP() << error.text();
  }
  const auto ids_of = [](const char* text, std::optional<config::TextCleaning> cleaning) {
    config::ClipShape shape = config::resolve_clip_shape("ViT-B-32");
    shape.text.cleaning = cleaning;
    std::vector<int32_t> ids(16);
    load_text_encoder("", config::ContrastiveShape{shape})(text, ids);
    return ids;
  };
  const auto plain = ids_of("a red dogs ball", std::nullopt);
  EXPECT_NE(ids_of("A red_dog's ball!", std::nullopt), plain);
  EXPECT_EQ(ids_of("A red_dog's ball!", config::TextCleaning::kCanonical), plain);
  EXPECT_EQ(ids_of("A red dogs ball", config::TextCleaning::kLower), plain);
  EXPECT_NE(ids_of("A red dogs ball", config::TextCleaning::kWhiteSpace), plain);
}

TEST(ContrastiveData, PicturesArePaddedWithTheColourOfTheOptions) {
  ContrastiveOptions options;
  options.image_resize_mode = "longest";
  const config::ClipShape shape = config::resolve_clip_shape("ViT-B-32");
  EXPECT_EQ(make_transform(options, shape, /*is_train=*/false).fill_color, 0);
  options.image_fill_color = 128;
  EXPECT_EQ(make_transform(options, shape, /*is_train=*/false).fill_color, 128);
}

}  // namespace
}  // namespace lockstep::tasks
