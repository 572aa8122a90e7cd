#include "config/layer_groups.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace lockstep::config {
namespace {

std::map<std::string, double> scales_of(const std::string& model, const LayerDecay& decay) {
  const ClipShape shape = resolve_clip_shape(model);
  auto specs = clip_param_specs(shape);
  set_layer_decay(shape, decay, specs);
  std::map<std::string, double> scales;
  for (const ParamSpec& spec : specs) scales[spec.name] = spec.lr_scale;
  return scales;
}

TEST(LayerDecay, CountsGroupsFromTheProjectionToTheEmbeddings) {
  const auto image = scales_of("ViT-B-32", {.image = 0.5});
  EXPECT_EQ(image.at("visual.proj"), 1);
  EXPECT_EQ(image.at("visual.ln_post.weight"), 0.5);
  EXPECT_EQ(image.at("visual.transformer.resblocks.11.mlp.c_fc.bias"), 0.5);
  EXPECT_EQ(image.at("visual.transformer.resblocks.1.ln_1.weight"), std::pow(0.5, 11)) << "not block 10 or 11";
  EXPECT_EQ(image.at("visual.transformer.resblocks.0.ln_1.weight"), std::pow(0.5, 12));
  for (const char* name : {"visual.conv1.weight", "visual.class_embedding", "visual.ln_pre.bias"})
    EXPECT_EQ(image.at(name), std::pow(0.5, 13)) << name;
  for (const char* name : {"logit_scale", "text_projection", "token_embedding.weight"}) EXPECT_EQ(image.at(name), 1);
  const auto text = scales_of("ViT-B-32", {.text = 0.5});
  EXPECT_EQ(text.at("text_projection"), 1);
  EXPECT_EQ(text.at("ln_final.bias"), 0.5);
  EXPECT_EQ(text.at("positional_embedding"), std::pow(0.5, 13));
  EXPECT_EQ(text.at("visual.conv1.weight"), 1);
}

TEST(LayerDecay, OfAResnetCountsStages) {
  const auto scales = scales_of("RN50", {.image = 0.5});
  EXPECT_EQ(scales.at("visual.attnpool.c_proj.weight"), 1);
  EXPECT_EQ(scales.at("visual.layer4.0.conv1.weight"), 0.5);
  EXPECT_EQ(scales.at("visual.layer1.0.conv1.weight"), std::pow(0.5, 4));
  EXPECT_EQ(scales.at("visual.conv3.weight"), std::pow(0.5, 5));
  EXPECT_EQ(scales.at("visual.bn1.bias"), std::pow(0.5, 5));
}

TEST(LayerDecay, OfATextTowerOfHuggingFaceHasTheProjectionAsTheLastGroup) {
  const auto scales = scales_of("roberta-ViT-B-32", {.text = 0.5});
  EXPECT_EQ(scales.at("text.proj.0.weight"), 1);
  EXPECT_EQ(scales.at("text.transformer.encoder.layer.11.output.dense.weight"), 0.5);
  EXPECT_EQ(scales.at("text.transformer.embeddings.word_embeddings.weight"), std::pow(0.5, 13));
}

TEST(LayerDecay, OfATowerOfTimmHasOpenClipsHeadAsTheLastGroup) {
  const auto convnext = scales_of("convnext_base", {.image = 0.5});  // 3 + 3 + 27 + 3 blocks
  EXPECT_EQ(convnext.at("visual.head.proj.weight"), 1);
  EXPECT_EQ(convnext.at("visual.trunk.head.norm.weight"), 0.5);
  EXPECT_EQ(convnext.at("visual.trunk.stages.3.blocks.2.gamma"), std::pow(0.5, 2));
  EXPECT_EQ(convnext.at("visual.trunk.stages.3.downsample.1.weight"), std::pow(0.5, 4));
  EXPECT_EQ(convnext.at("visual.trunk.stem.0.weight"), std::pow(0.5, 38));
  const auto siglip = scales_of("ViT-B-16-SigLIP", {.image = 0.5});
  EXPECT_EQ(siglip.at("visual.trunk.attn_pool.latent"), 1) << "nothing is behind its trunk";
  EXPECT_EQ(siglip.at("visual.trunk.norm.bias"), 0.5);
  EXPECT_EQ(siglip.at("visual.trunk.pos_embed"), std::pow(0.5, 13));
}

TEST(WeightDecay, LeavesOutWhatAPatternMatches) {
  auto specs = clip_param_specs(resolve_clip_shape("ViT-B-32"));
  exclude_from_decay({"*positional_embedding", "visual.proj"}, specs);
  for (const ParamSpec& spec : specs) {
    const bool is_excluded = spec.name == "visual.proj" || spec.name.ends_with("positional_embedding");
    if (is_excluded || spec.name == "text_projection") {
      EXPECT_EQ(spec.weight_decay, !is_excluded) << spec.name;
    }
  }
  try {
    exclude_from_decay({"positional"}, specs);
    FAIL() << "a pattern is of the whole name";
  } catch (const UsageError& error) {
    EXPECT_NE(error.text().find("--wd-exclude 'positional' matches no parameter"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace lockstep::config
