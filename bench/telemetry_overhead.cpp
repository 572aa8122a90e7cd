// What measuring costs a training run: the same short steps with and without phases, telemetry and record, in
// alternating blocks of one process.
//   lockstep launch --nproc-per-node 2 --program build/bench_telemetry_overhead -- --blocks N --block-steps N --out
//   RESULT.json
// Prints the paired ratio with its interval beside the time that the run spent inside telemetry by its own clock.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "cli/common/version.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/options.h"
#include "core/strings.h"
#include "hw/device.h"
#include "hw/ranks.h"
#include "models/contrastive_task.h"
#include "optim/adamw.h"
#include "parallel/grad_sync.h"
#include "stats/series.h"
#include "stats/statistics.h"
#include "tasks/contrastive/engine/contrastive_log.h"
#include "tasks/contrastive/engine/towers_build.h"
#include "train/interval_recorder.h"
#include "train/step_runner.h"
#include "train/telemetry.h"
#include "train/train_log.h"
#include "train/training.h"

namespace lockstep {
namespace {

struct BenchOptions {
  std::string model = "examples/demo/model.json", out;
  int64_t samples = 4, threads = 1, blocks = 60, block_steps = 25;
};

BenchOptions parse(const std::vector<std::string>& args) {
  BenchOptions options;
  core::OptionSet set("bench_telemetry_overhead", "Measures what measuring costs.");
  set.add("model", &options.model, {.help = "Model name or JSON file."});
  set.add("batch-size", &options.samples, {.help = "Samples of a step.", .min = 1});
  set.add("threads", &options.threads, {.help = "Compute threads.", .min = 1});
  set.add("blocks", &options.blocks, {.help = "Pairs of blocks.", .min = 4});
  set.add("block-steps", &options.block_steps, {.help = "Steps of a block.", .min = 1});
  set.add("out", &options.out, {.help = "Result file."});
  set.parse(args);
  return options;
}

/// One model, trained by either side in turn.
class Sides {
 public:
  Sides(const BenchOptions& options, const std::filesystem::path& folder)
      : precision_("fp32", at::kCPU), shape_(config::resolve_clip_shape(options.model)),
        world_(comm::World::join(hw::discover_ranks({}, hw::process_env()), {})), clock_(at::kCPU, world_.recorder()),
        telemetry_(world_.comm(), at::kCPU), record_(folder, {}),
        log_({.steps_per_epoch = 1 << 30,
              .samples_per_step = options.samples,
              .total_steps = 1 << 30,
              .log_every_n_steps = 100},
             tasks::make_contrastive_log_format(/*loss_horizon_samples=*/0), record_),
        intervals_(world_.comm(), std::vector<std::string>(static_cast<size_t>(world_.size()), "host"), at::kCPU,
                   world_.rank() == 0 ? &record_ : nullptr) {
    auto model = tasks::build_towers({shape_}, {.precision = &precision_, .pretrained = {}});
    sync_ = world_.size() > 1
                ? parallel::make_grad_sync_ddp(model->named_parameters(), world_.comm(), int64_t{25} << 20)
                : parallel::make_grad_sync_none(model->named_parameters());
    optimizer_ = std::make_unique<optim::AdamW>(
        train::optimizer_segments(sync_->partition(), config::clip_param_specs(shape_)), optim::AdamWConfig{});
    task_.emplace(std::move(model), world_.comm(),
                  models::ContrastiveTaskOptions{.loss = {.local_loss = true, .gather_with_grad = true}});
    train::StepRunnerParts parts{.task = *task_, .sync = *sync_, .precision = precision_};
    bare_ = train::make_plain_step(parts);
    parts.on_phase_end = [this](train::Phase phase) { clock_.mark(phase); };
    measured_ = train::make_plain_step(parts);
    batch_.image_BCYX =
        at::sin(at::arange(options.samples * 3 * shape_.vision.image_size * shape_.vision.image_size, at::kFloat))
            .view({options.samples, 3, shape_.vision.image_size, shape_.vision.image_size});
    batch_.text_BT = at::ones({options.samples, shape_.text.context_length}, at::kLong);
    batch_.text_BT.select(1, -1).fill_(shape_.text.vocab_size - 1);
    batch_.num_samples = options.samples;
  }

  void bare_step() { update(bare_->run(std::span(&batch_, 1), static_cast<uint64_t>(step_++))); }

  /// As Trainer does it.
  void measured_step() {
    clock_.mark(train::Phase::kTelemetry);
    clock_.mark(train::Phase::kDataWait);
    clock_.mark(train::Phase::kH2d);
    const auto outcome = measured_->run(std::span(&batch_, 1), static_cast<uint64_t>(step_));
    const auto gradients = update(outcome);
    clock_.mark(train::Phase::kOptimizer);
    train::StepSample sample{
        .step = step_++, .samples_seen = 0, .lr = 1e-4, .phases = clock_.finish_step(), .scalars = outcome.scalars};
    sample.scalars.emplace_back("grad_norm", gradients.norm);
    sample.scalars.emplace_back("found_inf", gradients.found_inf);
    telemetry_.push(std::move(sample));
    for (const auto& values : telemetry_.take(2)) {
      telemetry_ms_.push_back(values.phases[train::Phase::kTelemetry]);
      step_ms_.push_back(values.phases.sum());
      if (rank() == 0) log_.add(values);
    }
    if (step_ % 100 == 0) intervals_.record({.step = step_, .num_steps = 100, .step_ms = 1, .phases = {}});
  }
  void begin_measured_block() { clock_.restart(); }
  int rank() { return world_.comm().rank(); }
  int num_ranks() { return world_.comm().size(); }

  std::vector<double> telemetry_ms_, step_ms_;

 private:
  optim::GradSummary update(const train::StepOutcome&) {
    return train::update_parameters(*sync_, *optimizer_, nullptr, 1e-4, 0);
  }

  train::Precision precision_;
  config::ClipShape shape_;
  comm::World world_;
  train::PhaseClock clock_;
  train::Telemetry telemetry_;
  record::RunRecord record_;
  train::TrainLog log_;
  train::IntervalRecorder intervals_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<parallel::GradSync> sync_;
  std::optional<models::ContrastiveTask> task_;
  std::unique_ptr<train::StepRunner> bare_, measured_;
  models::Batch batch_;
  int64_t step_ = 0;
};

core::Json run(const BenchOptions& options) {
  at::set_num_threads(static_cast<int>(options.threads));
  const core::TempDir folder;
  Sides sides(options, folder.path() / "run");
  using Clock = std::chrono::steady_clock;
  const auto block = [&](auto&& step) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < options.block_steps; ++i) step();
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count() /
           static_cast<double>(options.block_steps);
  };
  std::vector<double> with, without;
  for (int64_t i = -1; i < options.blocks; ++i) {  // the first pair warms up
    double with_ms = 0, without_ms = 0;
    const auto measured = [&] {
      sides.begin_measured_block();
      with_ms = block([&] { sides.measured_step(); });
    };
    if (i % 2 == 0) measured();
    without_ms = block([&] { sides.bare_step(); });
    if (i % 2 != 0) measured();
    if (i < 0)
      sides.telemetry_ms_.clear(), sides.step_ms_.clear();
    else
      with.push_back(with_ms), without.push_back(without_ms);
  }
  const auto comparison = stats::compare_samples(with, without, true);
  if (sides.rank() != 0) return {};
  core::Json result{{"hardware", hw::cpu_name()},
                    {"ranks", sides.num_ranks()},
                    {"model", options.model},
                    {"samples_per_step", options.samples},
                    {"threads", options.threads},
                    {"steps_per_side", options.blocks * options.block_steps},
                    {"median_step_ms_without", stats::median(without)},
                    {"median_step_ms_with", stats::median(with)},
                    {"ratio_with_over_without", comparison.ratio},
                    {"time_inside_telemetry_ms", stats::median(sides.telemetry_ms_)},
                    {"share_inside_telemetry", stats::mean(sides.telemetry_ms_) / stats::mean(sides.step_ms_)},
                    {"block_step_ms_with", with},
                    {"block_step_ms_without", without}};
  if (comparison.interval) result["ratio_95"] = {comparison.interval->low, comparison.interval->high};
  return result;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> args(argv + 1, argv + argc);
    const auto options = lockstep::parse(args);
    lockstep::core::Json result = lockstep::run(options);
    if (result.is_null()) return 0;  // rank 0 speaks
    const auto version = lockstep::cli::version_info();
    result["versions"] = {{"lockstep", version.version}, {"commit", version.commit}, {"libtorch", version.libtorch}};
    result["command"] =
        fmt::format("lockstep launch --nproc-per-node {} --program build/bench_telemetry_overhead -- {}",
                    result.at("ranks").get<int>(), lockstep::core::join(args, " "));
    if (!options.out.empty()) std::ofstream(options.out) << result.dump(1) << "\n";
    for (const char* key : {"block_step_ms_with", "block_step_ms_without"}) result.erase(key);
    std::printf("%s\n", result.dump(1).c_str());
    return 0;
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return static_cast<int>(error.code());
  }
}
