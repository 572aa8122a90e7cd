#include "tasks/contrastive/engine/embedding_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/rng.h"
#include "models/contrastive_task.h"
#include "support/tensor_golden.h"
#include "tasks/contrastive/engine/towers_build.h"

namespace lockstep::tasks {
namespace {

using ::lockstep::tests::expect_close;

constexpr int64_t kContext = 20, kEnginePixels = 32, kVocabulary = 101;

config::ContrastiveShape small_clip(bool quick_gelu, bool layer_scale = false) {
  config::ClipShape shape;
  shape.embed_dim = 24;
  shape.quick_gelu = quick_gelu;
  shape.vision.image_size = kEnginePixels;
  shape.vision.layers = 2;
  shape.vision.width = 64;
  shape.vision.head_width = 32;
  shape.vision.patch_size = 8;
  shape.text.context_length = kContext;
  shape.text.vocab_size = kVocabulary;
  shape.text.width = 64;
  shape.text.heads = 2;
  shape.text.layers = 2;
  if (layer_scale) shape.vision.layer_scale = shape.text.layer_scale = 0.3;
  return {.shape = shape};
}

/// Padded texts of these lengths, start and end included.
std::vector<int32_t> make_texts(const std::vector<int64_t>& lengths) {
  core::CounterRng rng(3);
  std::vector<int32_t> ids(lengths.size() * kContext, 0);
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int64_t t = 0; t + 1 < lengths[row]; ++t)
      ids[row * kContext + static_cast<size_t>(t)] = 1 + static_cast<int32_t>(rng.below(kVocabulary - 2));
    ids[row * kContext + static_cast<size_t>(lengths[row] - 1)] = kVocabulary - 1;
  }
  return ids;
}

at::Tensor as_tensor(std::span<const int32_t> ids) {
  return at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong).view({-1, kContext});
}

struct Towers {
  explicit Towers(const config::ContrastiveShape& shape, const char* precision_name, bool is_plain)
      : precision(precision_name, c10::DeviceType::CPU),
        network(
            build_towers(shape, {.precision = &precision, .pretrained = "", .seed = 5, .exact_shortcuts = !is_plain})),
        mover(at::kCPU, precision.input_type(), {0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}) {}
  train::Precision precision;
  std::unique_ptr<models::TwoTowers> network;
  train::BatchMover mover;
};

data::HostBatch make_batch(const std::vector<int64_t>& lengths) {
  core::CounterRng rng(9);
  data::HostBatch host;
  host.num_samples = std::ssize(lengths);
  host.image_pixels = kEnginePixels;
  host.context_length = kContext;
  host.image_BYXC.resize(lengths.size() * kEnginePixels * kEnginePixels * 3);
  for (uint8_t& byte : host.image_BYXC) byte = static_cast<uint8_t>(rng.below(256));
  host.text_BT = make_texts(lengths);
  return host;
}

class Engine : public ::testing::TestWithParam<std::tuple<const char*, bool, bool>> {};

TEST_P(Engine, EmbedsAsThePlainNetworkDoes) {
  const auto [precision, quick_gelu, layer_scale] = GetParam();
  const auto shape = small_clip(quick_gelu, layer_scale);
  const data::HostBatch host = make_batch({2, 20, 3, 3, 11, 2, 4});
  Towers plain(shape, "fp32", /*is_plain=*/true), measured(shape, precision, /*is_plain=*/false);
  plain.network->set_training(false);
  const models::Batch batch = plain.mover.to_device(host);
  const at::Tensor image = models::normalise_rows(plain.network->encode_image(batch.image_BCYX)).detach(),
                   text = models::normalise_rows(plain.network->encode_text(batch.text_BT)).detach();
  const EmbeddingEngine engine(*measured.network, measured.mover, measured.precision, Weights::kFixed);
  const double tolerance = std::string_view(precision) == "fp32" ? 1e-5 : 4e-2;  // features of random weights
  for (int call = 0; call < 2; ++call) {
    const auto features = engine.embed(host);
    EXPECT_EQ(features.other_BE.scalar_type(), at::kFloat);
    EXPECT_FALSE(features.other_BE.requires_grad());
    expect_close(features.other_BE, image, tolerance, "pictures");
    expect_close(features.text_BE, text, tolerance, "texts");
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Engine,
                         ::testing::Combine(::testing::Values("fp32", "pure_bf16", "amp_bf16", "bf16"),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(EmbeddingEngine, TextsDependOnNothingBesideThem) {
  Towers towers(small_clip(false), "fp32", false);
  const EmbeddingEngine engine(*towers.network, towers.mover, towers.precision, Weights::kFixed);
  const std::vector<int64_t> lengths = {2, 20, 3, 7};
  const auto ids = make_texts(lengths);
  const at::Tensor together = engine.texts(ids, kContext, 64), full = engine.texts(as_tensor(ids));
  expect_close(together, full, 1e-6, "grouped against one call of all columns");
  for (size_t row = 0; row < lengths.size(); ++row)
    expect_close(engine.texts(std::span(ids).subspan(row * kContext, kContext), kContext, 1),
                 together.narrow(0, static_cast<int64_t>(row), 1), 1e-6, "alone");
}

TEST(EmbeddingEngine, AnEmptyBatchHasNoFeaturesAndHarmsNothing) {
  Towers towers(small_clip(false), "fp32", false);
  const EmbeddingEngine engine(*towers.network, towers.mover, towers.precision, Weights::kFixed);
  const auto none = engine.embed(make_batch({}));
  EXPECT_EQ(none.other_BE.sizes(), (std::vector<int64_t>{0, 24}));
  EXPECT_EQ(none.text_BE.sizes(), (std::vector<int64_t>{0, 24}));
  EXPECT_EQ(engine.embed(make_batch({4})).text_BE.size(0), 1);
}

TEST(EmbeddingEngine, LeavesTheNetworkAsItWas) {
  Towers towers(small_clip(true), "fp32", false);
  const data::HostBatch host = make_batch({5, 6});
  const models::Batch batch = towers.mover.to_device(host);
  const auto gradient = [&] {
    for (auto& [name, parameter] : towers.network->named_parameters()) parameter->mutable_grad() = at::Tensor();
    towers.network->encode_text(batch.text_BT).square().sum().backward();
    for (auto& [name, parameter] : towers.network->named_parameters())
      if (name == "transformer.resblocks.0.mlp.c_fc.weight") return parameter->grad().clone();
    return at::Tensor();
  };
  const at::Tensor before = gradient();
  ASSERT_GT(before.abs().max().item<double>(), 0);
  {
    const EmbeddingEngine engine(*towers.network, towers.mover, towers.precision, Weights::kFixed);
    EXPECT_FALSE(towers.network->is_training());
    engine.embed(host);
    EXPECT_TRUE(at::equal(gradient(), before)) << "packed weights take no part where gradients are asked for";
  }
  EXPECT_TRUE(towers.network->is_training());
  EXPECT_TRUE(at::equal(gradient(), before));
}

TEST(EmbeddingEngine, ChangingWeightsAreReadAnew) {
  Towers towers(small_clip(false), "fp32", false);
  const EmbeddingEngine engine(*towers.network, towers.mover, towers.precision, Weights::kChanging);
  const auto ids = make_texts({6});
  const at::Tensor before = engine.texts(ids, kContext, 1);
  for (auto& [name, parameter] : towers.network->named_parameters())
    if (name == "transformer.resblocks.0.mlp.c_fc.weight") parameter->detach().mul_(3);
  EXPECT_FALSE(at::allclose(engine.texts(ids, kContext, 1), before));
}

TEST(EmbeddingEngine, FormsThatComeAgainAreReplayed) {
  Towers towers(small_clip(false), "amp_bf16", false);
  int64_t num_replayed = 0;
  const nn::CallRecorder recorder = [&](const nn::TensorCall& call, const std::vector<at::Tensor>&) -> nn::TensorCall {
    return [&num_replayed, call](const std::vector<at::Tensor>& inputs) {
      ++num_replayed;
      return call(inputs);
    };
  };
  const EmbeddingEngine plain(*towers.network, towers.mover, towers.precision, Weights::kFixed),
      engine(*towers.network, towers.mover, towers.precision, Weights::kFixed, recorder);
  const int64_t least_calls = nn::CaptureLimits().least_calls;
  for (int64_t i = 1; i <= least_calls + 1; ++i) {
    const data::HostBatch host = make_batch({4, 4, 4});
    const auto features = engine.embed(host), expected = plain.embed(host);
    EXPECT_TRUE(features.other_BE.equal(expected.other_BE));
    EXPECT_TRUE(features.text_BE.equal(expected.text_BE));
    EXPECT_EQ(engine.num_recorded(), i < least_calls ? 0 : 2) << "pictures and texts";
  }
  EXPECT_EQ(num_replayed, 2 * 2);
  EXPECT_EQ(plain.num_recorded(), 0);
  EXPECT_THROW(EmbeddingEngine(*towers.network, towers.mover, towers.precision, Weights::kChanging, recorder), Error);
}

}  // namespace
}  // namespace lockstep::tasks
