#include "config/frozen_parameters.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::config {
namespace {

bool is_image(const std::string& name) { return name.starts_with("visual."); }

TEST(FrozenParameters, ALockedTowerIsFrozenWholeAndTheScalarsNever) {
  const ClipShape shape = resolve_clip_shape("ViT-B-32");
  const auto frozen = frozen_parameters(shape, {.image = true, .text = true});
  for (const ParamSpec& spec : clip_param_specs(shape))
    EXPECT_EQ(frozen.contains(spec.name), spec.name != "logit_scale") << spec.name;
  for (const auto& name : frozen_parameters(shape, {.text = true})) EXPECT_FALSE(is_image(name)) << name;
  EXPECT_TRUE(frozen_parameters(shape, {}).empty());
}

TEST(FrozenParameters, UnlockedGroupsCountFromTheOutput) {
  const ClipShape shape = resolve_clip_shape("ViT-B-32");
  const auto frozen =
      frozen_parameters(shape, {.image = true, .text = true, .image_unlocked_groups = 2, .text_unlocked_groups = 1});
  for (const char* name :
       {"visual.proj", "visual.ln_post.weight", "visual.transformer.resblocks.11.mlp.c_fc.bias", "text_projection"})
    EXPECT_FALSE(frozen.contains(name)) << name;
  for (const char* name : {"visual.transformer.resblocks.10.mlp.c_fc.bias", "visual.ln_pre.weight", "ln_final.bias",
                           "visual.class_embedding", "token_embedding.weight", "positional_embedding"})
    EXPECT_TRUE(frozen.contains(name)) << name;
  // Block 1 is not block 10 or 11.
  const auto but_two = frozen_parameters(shape, {.image = true, .image_unlocked_groups = 12});
  EXPECT_TRUE(but_two.contains("visual.transformer.resblocks.0.ln_1.weight"));
  EXPECT_FALSE(but_two.contains("visual.transformer.resblocks.1.ln_1.weight"));
  EXPECT_FALSE(but_two.contains("visual.transformer.resblocks.10.ln_1.weight"));
  EXPECT_TRUE(frozen_parameters(shape, {.image = true, .image_unlocked_groups = 99}).empty());
}

TEST(FrozenParameters, AResnetIsLockedWholeOrNotAtAll) {
  const ClipShape shape = resolve_clip_shape("RN50");
  EXPECT_TRUE(frozen_parameters(shape, {.image = true}).contains("visual.layer1.0.conv1.weight"));
  EXPECT_THROW(frozen_parameters(shape, {.image = true, .image_unlocked_groups = 1}), UsageError);
}

TEST(FrozenParameters, WhatOpenClipPutsBehindForeignTowersIsTrained) {
  const auto convnext = frozen_parameters(resolve_clip_shape("convnext_base"), {.image = true});
  EXPECT_TRUE(convnext.contains("visual.trunk.stages.0.blocks.0.gamma"));
  EXPECT_FALSE(convnext.contains("visual.head.proj.weight"));
  const auto fastvit = frozen_parameters(resolve_clip_shape("MobileCLIP2-S0"), {.image = true});
  EXPECT_TRUE(fastvit.contains("visual.trunk.head.fc.weight")) << "its last layer is timm's";
  const auto but_pool =
      frozen_parameters(resolve_clip_shape("ViT-B-16-SigLIP"), {.image = true, .image_unlocked_groups = 1});
  EXPECT_FALSE(but_pool.contains("visual.trunk.attn_pool.latent"));
  EXPECT_TRUE(but_pool.contains("visual.trunk.norm.weight"));
  const ClipShape roberta = resolve_clip_shape("xlm-roberta-base-ViT-B-32");
  const auto all = frozen_parameters(roberta, {.text = true}),
             but_two = frozen_parameters(roberta, {.text = true, .text_unlocked_groups = 2});
  EXPECT_TRUE(all.contains("text.transformer.encoder.layer.11.output.dense.weight"));
  EXPECT_FALSE(all.contains("text.proj.0.weight"));
  EXPECT_TRUE(but_two.contains("text.transformer.embeddings.word_embeddings.weight"));
  EXPECT_TRUE(but_two.contains("text.transformer.encoder.layer.9.output.dense.weight"));
  EXPECT_FALSE(but_two.contains("text.transformer.encoder.layer.10.output.dense.weight"));
}

TEST(FrozenParameters, ALockedTextTowerLeavesTheDecoderFree) {
  const auto frozen = frozen_parameters(resolve_clip_shape("coca_ViT-B-32"), {.image = true, .text = true});
  for (const char* name : {"text.cls_emb", "text.text_projection", "visual.attn_pool.query", "visual.proj"})
    EXPECT_TRUE(frozen.contains(name)) << name;
  EXPECT_FALSE(frozen.contains("text_decoder.text_projection"));
}

TEST(TrainedForward, ALockedTowerCountsAThird) {
  const ClipShape shape = resolve_clip_shape("ViT-B-32");
  const ClipCost cost = clip_cost(shape);
  EXPECT_DOUBLE_EQ(trained_forward(shape, {}).flops, clip_forward(shape).flops);
  EXPECT_NEAR(trained_forward(shape, {.image = true}).flops, cost.image_forward_flops / 3 + cost.text_forward_flops,
              1e-6 * cost.image_forward_flops);
  const double in_part = trained_forward(shape, {.image = true, .image_unlocked_groups = 6}).flops;
  EXPECT_GT(in_part, trained_forward(shape, {.image = true}).flops);
  EXPECT_LT(in_part, clip_forward(shape).flops);
}

}  // namespace
}  // namespace lockstep::config
