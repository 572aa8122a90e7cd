#include "contrastive_step.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/json.h"
#include "models/contrastive_task.h"
#include "models/weights.h"
#include "optim/adamw.h"
#include "parallel/grad_sync.h"
#include "train/step_runner.h"
#include "train/training.h"

namespace lockstep::bench {
namespace {

std::vector<models::Batch> read_batches(
    const std::string& path, const std::function<models::Batch(const std::map<std::string, at::Tensor>&)>& read_batch) {
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

core::Json run(const StepOptions& options, StepNetwork network, const train::Precision& precision,
               std::vector<models::Batch> batches) {
  const auto sync = parallel::make_grad_sync_none(network.towers->named_parameters());
  const auto optimizer = std::make_unique<optim::AdamW>(
      train::optimizer_segments(sync->partition(), network.specs),
      optim::AdamWConfig{.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.eps, .weight_decay = 0.2});
  comm::Comm one_rank;
  models::ContrastiveTask task(std::move(network.towers), one_rank, {});
  const auto runner = train::make_plain_step({.task = task, .sync = *sync, .precision = precision});
  return time_steps(options, [&](int64_t step) {
    const auto outcome =
        runner->run(std::span(&batches[static_cast<size_t>(step) % batches.size()], 1), static_cast<uint64_t>(step));
    train::update_parameters(*sync, *optimizer, nullptr, options.lr, 0);
    const auto loss = std::find_if(outcome.scalars.begin(), outcome.scalars.end(),
                                   [](const auto& scalar) { return scalar.first == "loss"; });
    return loss->second.item<double>();
  });
}

}  // namespace

int step_main(int argc, char** argv, const StepOptions& defaults,
              const std::function<StepNetwork(const StepOptions&, at::Device, const train::Precision&)>& build,
              const std::function<models::Batch(const std::map<std::string, at::Tensor>&)>& read_batch) {
  return run_program([&] {
    StepOptions options = defaults;
    core::OptionSet set("bench step", "Times contrastive training steps on given weights and batches.");
    declare_step_options(set, options);
    const std::vector<std::string> args(argv + 1, argv + argc);
    set.parse(args);
    const at::Device device = set_up_device(options);
    train::Precision precision(options.precision == "bf16" ? "amp_bf16" : "fp32", device.type());
    precision.cast_weights_at_once();
    auto batches = read_batches(options.inputs + "/batches.safetensors", read_batch);
    for (models::Batch& batch : batches)  // texts stay on the host, which packs them by their lengths
      if (batch.audio_BS.defined()) batch.audio_BS = batch.audio_BS.to(device);
    return run(options, build(options, device, precision), precision, std::move(batches));
  });
}

}  // namespace lockstep::bench
