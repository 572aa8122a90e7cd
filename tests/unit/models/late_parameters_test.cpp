// Modules that declare themselves units read no parameter before about_to_run(): until then it holds NaN here.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "clap_golden.h"
#include "models/gpt/gpt_task.h"
#include "nn/init.h"
#include "support/clip_golden.h"

namespace lockstep::models {
namespace {

using ::lockstep::tests::load_golden;
using ::lockstep::tests::TensorMap;

/// Parameters whose names hold one of `parts`.
size_t count_named(nn::Module& network, const std::vector<std::string>& parts) {
  size_t count = 0;
  for (const auto& [name, tensor] : network.named_parameters())
    count += std::any_of(parts.begin(), parts.end(),
                         [&](const std::string& part) { return name.find(part) != std::string::npos; })
                 ? 1
                 : 0;
  return count;
}

/// What `forward` gives, and all gradients of its sum.
at::Tensor run_pass(nn::Module& network, const std::function<at::Tensor()>& forward) {
  for (const auto& [name, tensor] : network.named_parameters()) tensor->mutable_grad() = at::Tensor();
  const at::Tensor out = forward();
  torch::autograd::backward({out.sum()}, {});
  std::vector<at::Tensor> all = {out.detach().flatten()};
  for (const auto& [name, tensor] : network.named_parameters())
    if (tensor->grad().defined()) all.push_back(tensor->grad().flatten());
  return at::cat(all);
}

/// `forward` and its gradients are the same when the units' `num_late` parameters arrive only when they are asked for.
void expect_no_early_reads(nn::Module& network, size_t num_late, const std::function<at::Tensor()>& forward) {
  const at::Tensor want = run_pass(network, forward);
  size_t found = 0;
  std::vector<int> num_asked(network.units().size(), 0);
  for (size_t i = 0; i < num_asked.size(); ++i) {
    nn::Module* unit = network.units()[i];
    std::vector<std::pair<at::Tensor, at::Tensor>> late;
    const c10::NoGradGuard no_grad;
    for (const auto& [name, tensor] : unit->named_parameters()) {
      late.emplace_back(*tensor, tensor->clone());
      tensor->fill_(std::numeric_limits<double>::quiet_NaN());
    }
    found += late.size();
    unit->set_before_run([late, &asked = num_asked[i]] {
      const c10::NoGradGuard inner;
      if (asked++ == 0)
        for (auto [parameter, value] : late) parameter.copy_(value);
    });
  }
  const at::Tensor got = run_pass(network, forward);
  EXPECT_TRUE(want.isfinite().all().item<bool>());
  EXPECT_TRUE(got.equal(want));
  for (size_t i = 0; i < num_asked.size(); ++i) EXPECT_GE(num_asked[i], 1) << "unit " << i;
  EXPECT_EQ(found, num_late);
}

class LateClip : public ::testing::TestWithParam<const char*> {};

TEST_P(LateClip, FeaturesAreTheSame) {
  const std::string golden = GetParam();
  for (const bool has_shortcuts : {false, true}) {
    const TensorMap tensors = load_golden(tests::file_of(golden));
    ClipModelOptions options;
    options.exact_shortcuts = has_shortcuts;
    const auto model = tests::golden_model(golden, tensors, options);
    const at::Tensor image = tensors.at("input/image").to(at::kFloat), text = tensors.at("input/text");
    expect_no_early_reads(*model, count_named(*model, {"resblocks.", "visual.layer"}), [&] {
      return at::cat({model->encode_image(image), model->encode_text(text)});
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Models, LateClip, ::testing::Values("vit", "vit_one_block", "resnet"),
                         [](const auto& entry) { return std::string(entry.param); });

TEST(LateClap, FeaturesAreTheSame) {
  const TensorMap tensors = load_golden(clap_file("clap_full"));
  const auto model = golden_clap_model(golden_clap_shape("clap_full"), tensors);
  expect_no_early_reads(*model, count_named(*model, {".blocks.", "encoder.layer."}), [&] {
    return at::cat(
        {model->encode_audio(tensors.at("input/wave").to(at::kFloat)), model->encode_text(tensors.at("input/text"))});
  });
}

TEST(LateGpt, LossAndLogitsAreTheSame) {
  for (const bool is_tied : {true, false}) {
    for (const config::GptRecompute recompute : {config::GptRecompute::kNone, config::GptRecompute::kUniform}) {
      config::GptShape shape{.name = "small",
                             .layers = 3,
                             .hidden = 24,
                             .heads = 4,
                             .query_groups = 2,
                             .head_width = 6,
                             .ffn = 40,
                             .vocab = 61};
      shape.sequence = shape.max_positions = 12;
      shape.is_head_tied = is_tied;
      std::vector<std::unique_ptr<GptModel>> chunks;
      for (const config::GptPart& part : {config::GptPart{0, 2, true, false}, config::GptPart{2, 1, false, true}}) {
        chunks.push_back(
            std::make_unique<GptModel>(shape, part, nn::ShardCtx{}, GptModelOptions{.recompute = recompute}));
        nn::initialize(*chunks.back(), chunks.back()->param_specs(), 5);
      }
      GptTask task(std::move(chunks));
      task.network().set_training(false);
      Batch batch;
      batch.text_BT = at::arange(24).mul(7).remainder(shape.vocab).view({2, 12});
      batch.target_BT = at::arange(24).mul(5).remainder(shape.vocab).view({2, 12});
      batch.num_samples = 2;
      const size_t num_late = count_named(task.network(), {"layers.", "final_norm."}) +
                              1;  // and the head, which is a table of its own on the second stage
      expect_no_early_reads(task.network(), num_late, [&] {
        const Outputs outputs = task.forward(batch);
        const at::Tensor hidden = task.chunk(1).forward(task.chunk(0).forward({}, batch), batch);
        return at::cat({outputs.token_loss_BT.flatten(), task.chunk(1).logits(hidden).flatten()});
      });
    }
  }
}

}  // namespace
}  // namespace lockstep::models
