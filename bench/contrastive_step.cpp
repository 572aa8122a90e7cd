#include "contrastive_step.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "core/error.h"
#include "core/json.h"
#include "core/options.h"
#include "models/contrastive_task.h"
#include "models/weights.h"
#include "parallel/grad_sync.h"
#include "train/step_runner.h"
#include "train/training.h"

namespace lockstep::bench {
namespace {

StepOptions parse(const std::vector<std::string>& args, const StepOptions& defaults) {
  StepOptions options = defaults;
  core::OptionSet set("bench step", "Times contrastive training steps on given weights and batches.");
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

std::vector<models::Batch> read_batches(const std::string& path,
                                        const std::function<models::Batch(const std::map<std::string, at::Tensor>&)>& read_batch) {
  const auto file = models::read_weights(path);
  std::map<std::string, std::map<std::string, at::Tensor>> by_index;
  for (const auto& [name, tensor] : file.tensors) {
    const size_t dot = name.rfind('.');
    by_index[name.substr(dot + 1)][name.substr(0, dot)] = tensor;
  }
  std::vector<models::Batch> batches;
  for (const auto& [index, tensors] : by_index) batches.push_back(read_batch(tensors));
  return batches;
}

/// Processor time of all threads so far.
double process_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

core::Json run(const StepOptions& options, StepNetwork network, const train::Precision& precision, std::vector<models::Batch> batches) {
  const auto sync = parallel::make_grad_sync_none(network.towers->named_parameters());
  const auto optimizer = train::build_optimizer({.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.eps, .weight_decay = 0.2},
                                                sync->holding(), network.specs);
  comm::Comm one_rank;
  models::ContrastiveTask task(std::move(network.towers), one_rank, {});
  const auto runner = train::make_plain_step({.task = task, .sync = *sync, .precision = precision});
  std::vector<double> step_ms, cpu_ms, losses;
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu_began = process_ms();
    const auto outcome = runner->run(std::span(&batches[static_cast<size_t>(step) % batches.size()], 1), static_cast<uint64_t>(step));
    train::update_parameters(*sync, *optimizer, nullptr, options.lr, 0);
    for (const auto& [name, value] : outcome.scalars)
      if (name == "loss") losses.push_back(value.item<double>());
    step_ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    cpu_ms.push_back(process_ms() - cpu_began);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"step_ms", step_ms}, {"cpu_ms", cpu_ms}, {"losses", losses}, {"peak_bytes", static_cast<int64_t>(usage.ru_maxrss) * 1024}};
}

}  // namespace

int step_main(int argc, char** argv, const StepOptions& defaults,
              const std::function<StepNetwork(const StepOptions&, const train::Precision&)>& build,
              const std::function<models::Batch(const std::map<std::string, at::Tensor>&)>& read_batch) {
  try {
    const auto options = parse({argv + 1, argv + argc}, defaults);
    at::set_num_threads(static_cast<int>(options.threads));
    const train::Precision precision(options.precision == "bf16" ? "amp_bf16" : "fp32", at::kCPU);
    auto batches = read_batches(options.inputs + "/batches.safetensors", read_batch);
    std::printf("%s\n", run(options, build(options, precision), precision, std::move(batches)).dump().c_str());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return static_cast<int>(error.code());
  }
}

}  // namespace lockstep::bench
