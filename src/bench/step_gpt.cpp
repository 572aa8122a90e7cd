#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include "bench/step_subject.h"
#include "comm/mesh_groups.h"
#include "config/gpt_shape.h"
#include "core/error.h"
#include "tasks/gpt/engine/gpt_fit.h"
#include "tasks/gpt/engine/gpt_training.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::bench {
namespace {

class GptSteps final : public StepSubject {
 public:
  explicit GptSteps(const BenchContext& context) : context_(context), shape_(tasks::gpt_shape_of(options_of({}))) {}

  double num_parameters() const override { return static_cast<double>(config::gpt_cost(shape_).parameters); }

  config::FlopCount forward() const override {
    return config::gpt_forward(config::gpt_dims(shape_), config::AttentionCount::kCausal);
  }

  std::vector<std::pair<std::string, double>> memory_parts(const plan::BatchPlan& plan) const override {
    const tasks::GptOptions options = options_of(plan);
    return tasks::planned_gpt_memory(options, tasks::train_gpt_layout(options, plan.num_data_ranks), context_.device)
        .parts_of_fullest;
  }

  core::Json facts() const override { return {{"sequence_length", shape_.sequence}}; }

  models::Batch make_batch(int64_t num_samples, uint64_t seed) const override {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor ids = at::randint(0, shape_.vocab, {num_samples, shape_.sequence + 1}, generator,
                                       at::TensorOptions().dtype(at::kLong))
                               .to(context_.device);
    models::Batch batch;
    batch.num_samples = num_samples;
    batch.text_BT = ids.narrow(1, 0, shape_.sequence).contiguous();
    batch.target_BT = ids.narrow(1, 1, shape_.sequence).contiguous();
    return batch;
  }

  train::Training& build(const plan::BatchPlan& plan, nn::WorkRecorder* recorder) override {
    const tasks::GptOptions options = options_of(plan);
    const plan::GptLayout layout = tasks::train_gpt_layout(options, plan.num_data_ranks);
    LOCKSTEP_CHECK(context_.processes != nullptr || plan.num_data_ranks == 1, "{} ranks", plan.num_data_ranks);
    groups_.emplace(comm::make_mesh_groups(
        layout.mesh, context_.world, [&](const std::string& axis, const std::vector<int>& ranks) {
          return context_.processes ? context_.processes->group(axis, ranks) : comm::Comm();
        }));
    return training_.emplace(
        tasks::build_gpt_training(options, layout, *groups_, context_.device, {.recorder = recorder}));
  }

 private:
  /// What `train gpt` would be given.
  tasks::GptOptions options_of(const plan::BatchPlan& plan) const {
    const tasks::ContrastiveOptions& bench = context_.options.train;
    std::vector<std::string> flags = {"--mock-data", "--train-iters=1"};
    const auto add = [&](const char* flag, const auto& value) { flags.push_back(fmt::format("--{}={}", flag, value)); };
    add("model", bench.model);
    add("micro-batch-size", plan.micro_batch_size);
    add("global-batch-size", plan.global_batch);
    add("device", context_.device.is_cpu() ? "cpu" : "cuda");
    add("precision", bench.precision == "fp32" ? "fp32" : bench.precision == "fp16_master" ? "fp16" : "bf16");
    add("seed", bench.seed);
    add("lr", *bench.lr);
    add("weight-decay", bench.wd);
    add("adam-beta1", *bench.beta1);
    add("adam-beta2", *bench.beta2);
    add("adam-eps", *bench.eps);
    // Where a loss scale ends in most runs: from Megatron's first one the first dozen steps would have no update.
    if (bench.precision == "fp16_master") add("initial-loss-scale", 65536);
    if (context_.options.sequence_length) add("seq-length", *context_.options.sequence_length);
    if (bench.grad_sync == "zero1") flags.emplace_back("--use-distributed-optimizer");
    if (bench.fp32_gradients) flags.emplace_back("--accumulate-allreduce-grads-in-fp32");
    if (bench.grad_checkpointing)
      for (const char* flag :
           {"--recompute-granularity=full", "--recompute-method=uniform", "--recompute-num-layers=1"})
        flags.emplace_back(flag);
    tasks::GptOptions options;
    core::OptionSet set = tasks::declare_gpt_options(options);
    set.parse(flags);
    tasks::fill_gpt_defaults(options, set);
    return options;
  }

  const BenchContext& context_;
  config::GptShape shape_;
  std::optional<comm::MeshGroups> groups_;
  std::optional<tasks::GptTraining> training_;  // works with the groups
};

}  // namespace

std::unique_ptr<StepSubject> make_gpt_steps(const BenchContext& context) { return std::make_unique<GptSteps>(context); }

}  // namespace lockstep::bench
