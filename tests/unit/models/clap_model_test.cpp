#include "models/clap/clap_model.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include <cstdlib>
#include <iostream>
#include <set>

#include "clap_golden.h"
#include "models/contrastive_task.h"

namespace lockstep::models {
namespace {

using tests::expect_close;
using tests::load_golden;
using tests::relative_difference;
using tests::TensorMap;

// Against the golden files (fp32, other orders of sums). The reference spectrum is computed in float64 there, ours in
// float32.
constexpr double kClapTolerance = 1e-5, kClapGradientTolerance = 5e-5;

struct ClapPass {
  at::Tensor audio, text, logits, loss;
};

ClapPass run_clap(ClapModel& model, const at::Tensor& wave, const at::Tensor& text) {
  ClapPass pass{normalise_rows(model.encode_audio(wave)), normalise_rows(model.encode_text(text)), {}, {}};
  pass.logits = model.logit_scale().exp() * pass.audio.mm(pass.text.t());
  const at::Tensor labels = at::arange(wave.size(0));
  pass.loss = (at::cross_entropy_loss(pass.logits, labels) + at::cross_entropy_loss(pass.logits.t(), labels)) / 2;
  return pass;
}

at::Tensor wave_of(const TensorMap& golden) { return golden.at("input/wave").to(at::kFloat); }

class ClapGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(ClapGolden, ParametersAndBuffersAreThoseListed) {
  ClapModel model(golden_clap_shape(GetParam()), {});
  std::vector<std::string> trained, held;
  std::set<std::string> kept, listed;
  for (const config::ParamSpec& spec : model.param_specs())
    (spec.is_buffer ? (void)listed.insert(spec.name) : trained.push_back(spec.name));
  for (const auto& [name, tensor] : model.named_parameters()) held.push_back(name);
  for (const auto& [name, tensor] : model.named_buffers()) kept.insert(name);
  EXPECT_EQ(held, trained);
  EXPECT_EQ(kept, listed);
  std::map<std::string, at::Tensor> values;
  for (const auto& [name, tensor] : named_values(model)) values.emplace(name, tensor);
  for (const config::ParamSpec& spec : model.param_specs())
    EXPECT_EQ(values.at(spec.name).sizes(), at::IntArrayRef(spec.shape)) << spec.name;
}

TEST_P(ClapGolden, LogMelEqualsHuggingFace) {
  const TensorMap golden = load_golden(clap_file(GetParam()));
  const LogMel log_mel(golden_clap_shape(GetParam()).audio, at::kCPU);
  expect_close(log_mel(wave_of(golden)).transpose(1, 2), golden.at("output/log_mel"), 1e-4, "log mel");
}

TEST_P(ClapGolden, EvaluationEqualsHuggingFace) {
  const TensorMap golden = load_golden(clap_file(GetParam()));
  auto model = golden_clap_model(golden_clap_shape(GetParam()), golden);
  model->set_training(false);
  const at::NoGradGuard no_gradients;
  const ClapPass pass = run_clap(*model, wave_of(golden), golden.at("input/text"));
  expect_close(pass.text, golden.at("output/eval_text"), kClapTolerance, "text");
  expect_close(pass.audio, golden.at("output/eval_audio"), kClapTolerance, "audio");
  expect_close(pass.logits, golden.at("output/eval_logits"), kClapTolerance, "logits");
}

void expect_training_equals_hugging_face(const std::string& case_name, const ClapModelOptions& options) {
  const TensorMap golden = load_golden(clap_file(case_name));
  const config::ClapShape shape = golden_clap_shape(case_name);
  auto model = golden_clap_model(shape, golden, options);
  const ClapPass pass = run_clap(*model, wave_of(golden), golden.at("input/text"));
  expect_close(pass.audio, golden.at("output/train_audio"), kClapTolerance, "audio");
  expect_close(pass.text, golden.at("output/train_text"), kClapTolerance, "text");
  expect_close(pass.logits, golden.at("output/logits"), kClapTolerance, "logits");
  expect_close(pass.loss, golden.at("output/loss"), kClapTolerance, "loss");
  pass.loss.backward();
  const WeightFile gradients = to_laion_names(golden_weights(golden, "grad/"), shape);
  std::map<std::string, at::Tensor> expected(gradients.tensors.begin(), gradients.tensors.end());
  size_t num_compared = 0;
  for (auto& [name, parameter] : model->named_parameters()) {
    // Keys shift all scores of a query alike, so the gradient of their bias is rounding noise: no reference.
    if (name.ends_with("key.bias")) continue;
    ASSERT_TRUE(expected.contains(name)) << name;
    at::Tensor got = parameter->grad(), want = expected.at(name);
    if (name.ends_with("qkv.bias")) {
      const int64_t width = got.size(0) / 3;
      got = at::cat({got.narrow(0, 0, width), got.narrow(0, 2 * width, width)});
      want = at::cat({want.narrow(0, 0, width), want.narrow(0, 2 * width, width)});
    }
    expect_close(got, want, kClapGradientTolerance, name);
    ++num_compared;
  }
  EXPECT_GT(num_compared, 60u);
  const WeightFile after = to_laion_names(golden_weights(golden, "after/"), shape);
  for (const auto& [name, value] : after.tensors)
    for (auto& [own, buffer] : model->named_buffers())
      if (own == name) expect_close(*buffer, value, kClapTolerance, name);
  EXPECT_EQ(after.tensors.size(), 3u);
}

TEST_P(ClapGolden, TrainingEqualsHuggingFace) { expect_training_equals_hugging_face(GetParam(), {}); }
TEST_P(ClapGolden, TrainingWithCheckpointingEqualsHuggingFace) {
  expect_training_equals_hugging_face(GetParam(), {.grad_checkpointing = true});
}
TEST_P(ClapGolden, TrainingWithoutShortcutsEqualsHuggingFace) {
  expect_training_equals_hugging_face(GetParam(), {.exact_shortcuts = false});
}

INSTANTIATE_TEST_SUITE_P(Models, ClapGolden, ::testing::Values("clap_full", "clap_short"),
                         [](const auto& entry) { return std::string(entry.param); });

/// The shape of a golden file with all random dropping on.
config::ClapShape dropping_shape(const std::string& golden) {
  config::ClapShape shape = golden_clap_shape(golden);
  shape.audio.drop_path = 0.4;
  shape.audio.spec_augment = true;
  shape.text.dropout = 0.2;
  shape.text.attention_dropout = 0.2;
  return shape;
}

TEST(ClapModel, DrawsAreAFunctionOfTheContext) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  auto model = golden_clap_model(dropping_shape("clap_full"), golden);
  const auto features = [&](uint64_t key) {
    model->set_context({.random_key = key, .updates_statistics = false});
    return at::cat({model->encode_audio(wave_of(golden)), model->encode_text(golden.at("input/text"))});
  };
  const at::Tensor first = features(5);
  EXPECT_TRUE(features(5).equal(first));
  const at::Tensor other = features(6);
  EXPECT_TRUE((other - first).abs().amax(1).gt(1e-4).all().item<bool>()) << "some sample drew the same";
  model->set_training(false);
  EXPECT_TRUE(features(5).equal(features(6)));
  auto plain = golden_clap_model(golden_clap_shape("clap_full"), golden);
  plain->set_training(false);
  EXPECT_TRUE(
      features(5).equal(at::cat({plain->encode_audio(wave_of(golden)), plain->encode_text(golden.at("input/text"))})));
}

TEST(ClapModel, CheckpointingIsBitExactWithDropping) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  std::vector<std::unique_ptr<ClapModel>> models;
  for (const bool checkpointing : {false, true}) {
    models.push_back(golden_clap_model(dropping_shape("clap_full"), golden, {.grad_checkpointing = checkpointing}));
    models.back()->set_context({.random_key = 9});
    run_clap(*models.back(), wave_of(golden), golden.at("input/text")).loss.backward();
  }
  const auto a = models[0]->named_parameters(), b = models[1]->named_parameters();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].tensor->grad().equal(b[i].tensor->grad())) << a[i].name;
}

TEST(ClapModel, CachePassLeavesRunningStatisticsAlone) {
  const TensorMap golden = load_golden(clap_file("clap_short"));
  auto model = golden_clap_model(golden_clap_shape("clap_short"), golden);
  const auto statistics = [&] {
    std::vector<at::Tensor> copies;
    for (const auto& [name, buffer] : model->named_buffers())
      if (name.find("bn0.running") != std::string::npos) copies.push_back(buffer->clone());
    return at::cat(copies);
  };
  const at::Tensor before = statistics();
  model->set_context({.updates_statistics = false});
  const at::Tensor quiet = model->encode_audio(wave_of(golden));
  EXPECT_TRUE(statistics().equal(before));
  model->set_context({.updates_statistics = true});
  EXPECT_TRUE(model->encode_audio(wave_of(golden)).equal(quiet));
  EXPECT_FALSE(statistics().equal(before));
}

/// As --precision bf16 and pure_bf16 hold the parameters.
void to_bfloat16(ClapModel& model, bool keeps_some_fp32) {
  std::map<std::string, bool> keeps_fp32;
  for (const auto& spec : model.param_specs()) keeps_fp32[spec.name] = spec.keeps_fp32;
  auto entries = model.named_parameters();
  for (const auto& buffer : model.named_buffers()) entries.push_back(buffer);
  for (const auto& [name, tensor] : entries)
    if (tensor->is_floating_point() && !(keeps_some_fp32 && keeps_fp32.at(name)))
      *tensor = tensor->detach().to(at::kBFloat16).requires_grad_(tensor->requires_grad());
}

// bf16 carries 8 bits; the towers round a few dozen times in a row.
TEST(ClapModel, LowPrecisionFollowsFullPrecision) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  for (const bool pure : {false, true}) {
    SCOPED_TRACE(pure ? "pure_bf16" : "bf16");
    auto model = golden_clap_model(golden_clap_shape("clap_full"), golden);
    to_bfloat16(*model, /*keeps_some_fp32=*/!pure);
    model->set_training(false);
    const at::NoGradGuard no_gradients;
    expect_close(normalise_rows(model->encode_audio(wave_of(golden))), golden.at("output/eval_audio"), 0.1, "audio");
    expect_close(normalise_rows(model->encode_text(golden.at("input/text"))), golden.at("output/eval_text"), 0.1,
                 "text");
  }
}

TEST(ClapModel, TheSpectrumStaysInFp32UnderAutocast) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  const LogMel log_mel(golden_clap_shape("clap_full").audio, at::kCPU);
  const at::Tensor plain = log_mel(wave_of(golden));
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor under = log_mel(wave_of(golden));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_TRUE(under.equal(plain));
}

TEST(ClapModel, TheTaskTakesAudioAndRefusesImages) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  comm::Comm one_rank;
  ContrastiveTask task(golden_clap_model(golden_clap_shape("clap_full"), golden), one_rank, {});
  Batch batch;
  batch.audio_BS = wave_of(golden);
  batch.text_BT = golden.at("input/text");
  batch.num_samples = batch.text_BT.size(0);
  const Outputs outputs = task.forward(batch);
  expect_close(outputs.image_BE, golden.at("output/train_audio"), kClapTolerance, "audio");
  expect_close(task.loss(outputs).loss, golden.at("output/loss"), kClapTolerance, "loss");
  batch.image_BCYX = batch.audio_BS;
  batch.audio_BS = at::Tensor();
  EXPECT_THROW(task.forward(batch), DataError);
}

TEST(ClapModel, UnfitClipsAndTextsAreRefused) {
  const TensorMap golden = load_golden(clap_file("clap_full"));
  auto model = golden_clap_model(golden_clap_shape("clap_full"), golden);
  EXPECT_THROW(model->encode_audio(at::zeros({2, 100})), DataError);
  EXPECT_THROW(model->encode_audio(at::zeros({2, 5000})), DataError);
  EXPECT_THROW(model->encode_text(at::ones({2, 8}, at::kLong)), DataError);
  EXPECT_THROW(model->encode_text(at::full({2, 19}, 7, at::kLong)), DataError);
  EXPECT_NO_THROW(model->encode_text(at::full({2, 18}, 7, at::kLong)));
}

/// Relative errors of a file of big weights that ref/compare_big_clap.py made, one "measured: NAME ERROR" line each.
TEST(ClapModel, BigModelEqualsHuggingFace) {
  const char* path = std::getenv("LOCKSTEP_BIG_CLAP");
  if (path == nullptr) GTEST_SKIP() << "run by ref/compare_big_clap.py";
  const TensorMap golden = load_golden(path);
  const config::ClapShape shape = golden_clap_shape(path);
  auto model = golden_clap_model(shape, golden);
  const auto report = [](const std::string& what, const at::Tensor& actual, const at::Tensor& expected,
                         double tolerance) {
    expect_close(actual, expected, tolerance, what);
    std::cout << fmt::format("measured: {} {:.3g}\n", what, relative_difference(actual, expected));
  };
  report("log_mel", LogMel(shape.audio, at::kCPU)(wave_of(golden)).transpose(1, 2), golden.at("output/log_mel"), 1e-4);
  const ClapPass pass = run_clap(*model, wave_of(golden), golden.at("input/text"));
  pass.loss.backward();
  report("audio_features", pass.audio, golden.at("output/train_audio"), 1e-4);
  report("text_features", pass.text, golden.at("output/train_text"), 1e-4);
  report("logits", pass.logits, golden.at("output/logits"), 1e-4);
  report("loss", pass.loss, golden.at("output/loss"), 1e-4);
  const WeightFile gradients = to_laion_names(golden_weights(golden, "grad/"), shape);
  std::map<std::string, at::Tensor> by_name(gradients.tensors.begin(), gradients.tensors.end());
  std::vector<at::Tensor> actual, expected;
  for (auto& [name, parameter] : model->named_parameters()) {
    actual.push_back(parameter->grad().flatten());
    expected.push_back(by_name.at(name).flatten());
  }
  report("gradients", at::cat(actual), at::cat(expected), 1e-3);
}

}  // namespace
}  // namespace lockstep::models
