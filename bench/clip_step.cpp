// One CLIP training step on given weights and batches, with the classes the trainer uses; the other side of bench/peers/clip_step.py.
//   bench_clip_step --inputs FOLDER --model NAME --precision fp32|bf16 --threads N --steps N --lr X --beta1 X --beta2 X --eps X
// Prints {"step_ms": [...], "losses": [...], "peak_bytes": N}.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "core/json.h"
#include "core/options.h"
#include "core/safetensors.h"
#include "models/contrastive_task.h"
#include "models/weights.h"
#include "optim/adamw.h"
#include "optim/grad_norm.h"
#include "parallel/grad_sync.h"
#include "train/clip_build.h"
#include "train/step_runner.h"

namespace lockstep {
namespace {

struct BenchOptions {
  std::string inputs, model = "ViT-B-32", precision = "fp32";
  int64_t threads = 2, steps = 8;
  double lr = 5e-4, beta1 = 0.9, beta2 = 0.98, eps = 1e-6;
};

BenchOptions parse(const std::vector<std::string>& args) {
  BenchOptions options;
  core::OptionSet set("bench_clip_step", "Times CLIP training steps on given weights and batches.");
  set.add("inputs", &options.inputs, {.help = "Folder with weights.safetensors and batches.safetensors."});
  set.add("model", &options.model, {.help = "Model name or JSON file."});
  set.add("precision", &options.precision, {.help = "fp32, or bf16 autocast over fp32 weights.", .choices = {"fp32", "bf16"}});
  set.add("threads", &options.threads, {.help = "Compute threads.", .min = 1});
  set.add("steps", &options.steps, {.help = "Optimiser steps.", .min = 1});
  set.add("lr", &options.lr, {.help = "Learning rate."});
  set.add("beta1", &options.beta1, {.help = "AdamW beta1."});
  set.add("beta2", &options.beta2, {.help = "AdamW beta2."});
  set.add("eps", &options.eps, {.help = "AdamW epsilon."});
  set.parse(args);
  return options;
}

std::vector<models::Batch> read_batches(const std::string& path) {
  const auto file = models::read_weights(path);
  std::map<std::string, at::Tensor> tensors(file.tensors.begin(), file.tensors.end());
  std::vector<models::Batch> batches;
  for (int64_t index = 0; tensors.contains(fmt::format("image.{}", index)); ++index) {
    models::Batch batch;
    batch.image_BCYX = tensors.at(fmt::format("image.{}", index)).contiguous(at::MemoryFormat::ChannelsLast);
    batch.text_BT = tensors.at(fmt::format("text.{}", index)).to(at::kLong);
    batch.num_samples = batch.text_BT.size(0);
    batches.push_back(batch);
  }
  return batches;
}

std::vector<optim::Segment> segments_of(models::ClipModel& model) {
  std::vector<optim::Segment> segments;
  std::map<std::string, bool> decays;
  for (const auto& spec : model.param_specs()) decays[spec.name] = spec.weight_decay;
  for (const auto& [name, tensor] : model.named_parameters())
    segments.push_back({.name = name, .parameter = *tensor, .decays = decays.at(name), .gradient = {}});
  return segments;
}

core::Json run(const BenchOptions& options) {
  at::set_num_threads(static_cast<int>(options.threads));
  const train::Precision precision(options.precision == "bf16" ? "amp_bf16" : "fp32", at::kCPU);
  auto model = train::build_clip_model(spec::resolve_clip_shape(options.model),
                                       {.precision = &precision, .pretrained = options.inputs + "/weights.safetensors"});
  auto batches = read_batches(options.inputs + "/batches.safetensors");
  optim::AdamW optimizer(segments_of(*model), {.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.eps, .weight_decay = 0.2});
  const auto sync = parallel::make_grad_sync_none(model->named_parameters());
  comm::Comm one_rank;
  models::ContrastiveTask task(std::move(model), one_rank, {});
  const auto runner = train::make_plain_step({.task = task, .sync = *sync, .precision = precision});
  std::vector<double> step_ms, losses;
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto began = std::chrono::steady_clock::now();
    const auto outcome = runner->run(std::span(&batches[static_cast<size_t>(step) % batches.size()], 1), static_cast<uint64_t>(step));
    const auto gradients = optim::summarise_gradients(optimizer.gradients(), 0, {});
    optimizer.step(options.lr, gradients.grad_divisor, gradients.found_inf);
    task.after_step();
    for (const auto& [name, value] : outcome.scalars)
      if (name == "loss") losses.push_back(value.item<double>());
    step_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"step_ms", step_ms}, {"losses", losses}, {"peak_bytes", static_cast<int64_t>(usage.ru_maxrss) * 1024}};
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    const auto options = lockstep::parse({argv + 1, argv + argc});
    std::printf("%s\n", lockstep::run(options).dump().c_str());
    return 0;
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return static_cast<int>(error.code());
  }
}
