// Exported models against Hugging Face's classes: run by ref/compare_gpt_export.py, which exports and computes there.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "infer/gpt_source.h"
#include "support/tensor_golden.h"

namespace lockstep::infer {
namespace {

/// One "measured: logits ERROR" line: our model of the run, against what transformers made of the exported folder.
TEST(GptExport, LogitsEqualHuggingFace) {
  const char* path = std::getenv("LOCKSTEP_EXPORTED_GPT");
  if (path == nullptr) GTEST_SKIP() << "run by ref/compare_gpt_export.py";
  const c10::NoGradGuard no_grad;
  at::set_num_threads(1);
  const auto golden = tests::load_golden(path);
  config::GenerateOptions options;
  options.pretrained = tests::golden_metadata(path, "run");
  const auto model = load_gpt(find_gpt(options), at::TensorOptions(at::kFloat));
  models::Batch batch;
  batch.text_BT = golden.at("input/ids");
  batch.num_samples = batch.text_BT.size(0);
  const at::Tensor logits_BTV =
      model->logits(model->forward({}, batch)).narrow(2, 0, model->shape().vocab).transpose(0, 1);
  tests::expect_close(logits_BTV, golden.at("output/logits"), 1e-4, "logits");
  std::cout << fmt::format("measured: logits {:.3g}\n",
                           tests::relative_difference(logits_BTV, golden.at("output/logits")));
}

}  // namespace
}  // namespace lockstep::infer
