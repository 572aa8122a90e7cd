#include "config/locked_features.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lockstep::config {
namespace {

using tests::holds;

const TowerLocks kBoth{.image = true, .text = true};

FeatureCacheRefusals refusals(const std::string& model, const LockedTowerUse& use) {
  return feature_cache_refusals(resolve_clip_shape(model), use);
}

TEST(LockedFeatures, WholeTowersWithFixedInputsAreServed) {
  const auto served = refusals("ViT-B-32", {.locks = kBoth});
  EXPECT_EQ(served.image, "");
  EXPECT_EQ(served.text, "");
  EXPECT_EQ(refusals("RN50", {.locks = kBoth, .has_frozen_batch_norm = true}).image, "");
}

TEST(LockedFeatures, WhateverElseTheFeaturesDependOnIsRefused) {
  const auto cropped = refusals("ViT-B-32", {.locks = kBoth, .has_random_image_transform = true});
  EXPECT_TRUE(holds(cropped.image, "cropped at random")) << cropped.image;
  EXPECT_EQ(cropped.text, "") << "texts are not cropped";
  const auto unlocked = refusals("ViT-B-32", {.locks = {.image = true}});
  EXPECT_TRUE(holds(unlocked.text, "--lock-text")) << unlocked.text;
  const auto in_part = refusals(
      "ViT-B-32", {.locks = {.image = true, .text = true, .image_unlocked_groups = 1, .text_unlocked_groups = 1}});
  EXPECT_TRUE(holds(in_part.image, "is trained")) << in_part.image;
  EXPECT_TRUE(holds(in_part.text, "is trained")) << in_part.text;
  EXPECT_TRUE(holds(refusals("RN50", {.locks = kBoth}).image, "batch norm"));
  EXPECT_TRUE(holds(refusals("MobileCLIP-S1", {.locks = kBoth}).image, "batch norm"));
  EXPECT_EQ(refusals("MobileCLIP-S1", {.locks = kBoth, .has_frozen_batch_norm = true}).image, "");
  EXPECT_TRUE(holds(refusals("convnext_base", {.locks = kBoth}).image, "is trained")) << "timm's head";
  EXPECT_TRUE(holds(refusals("roberta-ViT-B-32", {.locks = kBoth}).text, "is trained")) << "its projection";
  EXPECT_TRUE(holds(refusals("coca_ViT-B-32", {.locks = kBoth}).text, "captions"));
  ClipShape dropping = resolve_clip_shape("ViT-B-32");
  dropping.vision.patch_dropout = 0.5;
  EXPECT_TRUE(holds(feature_cache_refusals(dropping, {.locks = kBoth}).image, "patches"));
  ClipShape relative = resolve_clip_shape("PE-Core-B-16");
  EXPECT_EQ(feature_cache_refusals(relative, {.locks = kBoth}).image, "");
  relative.vision.timm.position_mlp_width = 8;  // as vit_relpos_medium_patch16_cls_224, but for its head
  EXPECT_TRUE(holds(feature_cache_refusals(relative, {.locks = kBoth}).image, "dropout"));
}

}  // namespace
}  // namespace lockstep::config
