// Training steps of a GPT on given weights and token ids; the other side of bench/peers/gpt_step.py. --precision bf16
// is `train gpt --bf16`: 16-bit weights and products, gradients added up in fp32, fp32 copies for the update.
#include <ATen/ATen.h>

#include <cstdio>

#include "comm/mesh_groups.h"
#include "models/weights.h"
#include "nn/work_recorder.h"
#include "step_times.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::bench {
namespace {

tasks::GptOptions train_options(const StepOptions& options, const models::Batch& batch) {
  tasks::GptOptions out;
  core::OptionSet set = tasks::declare_gpt_options(out);
  std::vector<std::string> flags = {"--model",
                                    options.model,
                                    "--seq-length",
                                    std::to_string(batch.text_BT.size(1)),
                                    "--micro-batch-size",
                                    std::to_string(batch.num_samples),
                                    "--hidden-dropout",
                                    "0",
                                    "--attention-dropout",
                                    "0",
                                    "--train-iters",
                                    "1",
                                    "--lr",
                                    "1e-4",
                                    "--mock-data",
                                    "--device",
                                    options.device,
                                    "--load",
                                    options.weights(),
                                    "--make-vocab-size-divisible-by",
                                    "1"};
  if (options.precision == "bf16") flags.push_back("--bf16");
  set.parse(flags);
  tasks::fill_gpt_defaults(out, set);
  out.adam_beta1 = options.beta1, out.adam_beta2 = options.beta2, out.adam_eps = options.eps;
  return out;
}

std::vector<models::Batch> read_batches(const std::string& path) {
  std::vector<models::Batch> batches;
  for (const auto& [name, tensor] : models::read_weights(path).tensors) {
    const at::Tensor ids = tensor.to(at::kLong);
    models::Batch& batch = batches.emplace_back();
    batch.num_samples = ids.size(0);
    batch.text_BT = ids.narrow(1, 0, ids.size(1) - 1);
    batch.target_BT = ids.narrow(1, 1, ids.size(1) - 1);
  }
  return batches;
}

core::Json run(const StepOptions& options) {
  const at::Device device = set_up_device(options);
  auto batches = read_batches(options.inputs + "/batches.safetensors");
  const tasks::GptOptions gpt = train_options(options, batches.at(0));
  const plan::GptLayout layout = tasks::train_gpt_layout(gpt, 1);
  comm::Comm world;
  comm::MeshGroups groups = comm::make_mesh_groups(
      layout.mesh, world, [](const std::string&, const std::vector<int>&) { return comm::Comm(); });
  const auto recorder = nn::make_work_recorder("auto", device);
  train::Training training = tasks::build_gpt_training(gpt, layout, groups, device, {.recorder = recorder.get()});
  for (models::Batch& batch : batches) {
    batch.text_BT = batch.text_BT.to(device);
    batch.target_BT = batch.target_BT.to(device);
  }
  return time_steps(options, [&](int64_t step) {
    const auto outcome = training.runner->run(std::span(&batches[static_cast<size_t>(step) % batches.size()], 1),
                                              static_cast<uint64_t>(step));
    training.update(options.lr, 1.0);
    return outcome.scalars.at(0).second.item<double>();
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  return bench::run_program([&] {
    bench::StepOptions options{.model = "gpt2", .beta2 = 0.999, .eps = 1e-8};
    core::OptionSet set("bench gpt step", "Times training steps of a GPT on given weights.");
    bench::declare_step_options(set, options);
    const std::vector<std::string> args(argv + 1, argv + argc);
    set.parse(args);
    return bench::run(options);
  });
}
