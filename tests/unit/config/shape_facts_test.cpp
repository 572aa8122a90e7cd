#include "config/shape_facts.h"

#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

core::Json facts_of(const char* model) {
  return shape_facts(resolve_contrastive_shape(model, is_clap_model(model), {}));
}

core::Json value_at(const core::Json& facts, const char* place) { return facts.at(core::Json::json_pointer(place)); }

TEST(ShapeFacts, EnumerationsAreNames) {
  const core::Json clip = facts_of("ViT-B-32"), roberta = facts_of("roberta-ViT-B-32"),
                   clap = facts_of("HTSAT-tiny-Roberta-base");
  EXPECT_EQ(value_at(clip, "/vision/pool"), "class_token");
  EXPECT_EQ(value_at(clip, "/vision/timm/qkv_bias"), "all");
  EXPECT_EQ(value_at(clip, "/text/pool"), "largest_id");
  EXPECT_EQ(value_at(clip, "/text/projection"), "matrix");
  EXPECT_EQ(value_at(clip, "/text/tokens"), "clip");
  EXPECT_EQ(value_at(clip, "/text/cleaning"), "lower");
  EXPECT_EQ(value_at(roberta, "/text/tokens"), "roberta");
  EXPECT_EQ(value_at(roberta, "/text/roberta/pooler"), "mean");
  EXPECT_TRUE(value_at(roberta, "/text/encoder_projection/kind").is_string());
  EXPECT_EQ(value_at(clap, "/text/pooler"), "class");
  EXPECT_EQ(value_at(clap, "/audio_projection/kind"), "mlp");
}

/// Numbers of folders that were begun before names were noted. They mean this whatever an enumeration becomes.
TEST(ShapeFacts, NumbersOfBeforeBecomeTheirNames) {
  const core::Json numbers = {
      {"width", 3},
      {"vision", {{"pool", 2}, {"timm", {{"qkv_bias", 1}, {"pool", 1}}}, {"head", {{"kind", 1}}}}},
      {"text", {{"pool", 3}, {"projection", 2}, {"tokens", 3}, {"cleaning", 2}, {"pooler", 3}}},
      {"audio_projection", {{"kind", 0}}},
      {"text_projection", {{"kind", 7}}}};
  const core::Json names = {
      {"width", 3},
      {"vision",
       {{"pool", "attention"}, {"timm", {{"qkv_bias", "not_keys"}, {"pool", "mean"}}}, {"head", {{"kind", "linear"}}}}},
      {"text",
       {{"pool", "last"},
        {"projection", "none"},
        {"tokens", "sentence_piece"},
        {"cleaning", "canonicalize"},
        {"pooler", "class_hidden"}}},
      {"audio_projection", {{"kind", "none"}}},
      {"text_projection", {{"kind", 7}}}};
  EXPECT_EQ(named_shape_facts(numbers), names);
  EXPECT_EQ(named_shape_facts(names), names);
  EXPECT_EQ(named_shape_facts(facts_of("ViT-B-32")), facts_of("ViT-B-32"));
}

}  // namespace
}  // namespace lockstep::config
