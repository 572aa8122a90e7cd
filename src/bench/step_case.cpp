#include "bench/step_case.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/device_peak.h"
#include "bench/find_batch.h"
#include "bench/gemm_peak.h"
#include "bench/process_memory.h"
#include "bench/sample_stats.h"
#include "bench/sample_timer.h"
#include "bench/step_subject.h"
#include "config/option_checks.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/strings.h"
#include "core/units.h"
#include "hw/machine_memory.h"
#include "nn/work_recorder.h"
#include "plan/batch_plan.h"
#include "stats/statistics.h"
#include "train/memory_fit.h"
#include "train/out_of_memory.h"

namespace lockstep::bench {
namespace {

std::unique_ptr<StepSubject> make_subject(const BenchContext& context) {
  switch (context.options.model_kind) {
    case commands::BenchModel::kContrastive: return make_contrastive_steps(context);
    case commands::BenchModel::kClassifier: return make_classifier_steps(context);
    case commands::BenchModel::kGpt: return make_gpt_steps(context);
  }
  LOCKSTEP_CHECK(false, "--model {}", context.options.train.model);
}

class StepCase final : public BenchCase {
 public:
  explicit StepCase(const BenchContext& context) : context_(context) {
    subject_ = make_subject(context_);
    forward_ = subject_->forward();
    batches_ = subject_->given_batches();
    plan_ = plan_of(batches_.empty() ? train_options().micro_batch_size : batches_[0].num_samples);
    if (!batches_.empty() && static_cast<int64_t>(batches_.size()) % plan_.num_micro_batches != 0)
      throw UsageError(fmt::format("bench: --accum-freq {} does not divide the {} batches of '{}'",
                                   plan_.num_micro_batches, batches_.size(), options().batches));
    if (options().mode == "list") return;
    peak_ = find_device_peak(options(), context_.device);
    if (options().find_multiple > 0) find_batch();
  }

  std::vector<core::Json> points() override {
    core::Json memory = core::Json::object();
    for (const auto& [part, bytes] : subject_->memory_parts(plan_)) memory[part] = bytes;
    core::Json point = {{"part", "step"},
                        {"model", train_options().model},
                        {"precision", train_options().precision},
                        {"micro_batch_size", plan_.micro_batch_size},
                        {"num_micro", plan_.num_micro_batches},
                        {"global_batch", plan_.global_batch},
                        {"grad_sync", train_options().grad_sync},
                        {"lr", *train_options().lr},
                        {"planned_memory_bytes", planned_bytes(plan_)},
                        {"memory_plan", memory}};
    point.update(subject_->facts());
    return {point};
  }

  std::vector<std::string> preamble() override {
    std::vector<std::string> lines = {
        fmt::format("lockstep bench step: {} on {}, {}, {} each", train_options().model,
                    core::counted(world().size(), "rank"), context_.device.str(),
                    core::counted(at::get_num_threads(), "thread")),
        fmt::format("{} parameters, {}FLOP a sample and forward pass, a training step counts three: {}",
                    core::format_count(subject_->num_parameters()), core::format_count(forward_.flops),
                    forward_.formula),
        peak_ ? fmt::format("peak of a device: {:.4g} TFLOP/s ({})", peak_->tflops, peak_->source)
              : "peak of a device: not known; --peak-from or --peak-tflops gives it",
        fmt::format(
            "warmup iters: {} iters: {}; step: median, each that of the slowest rank; batch: per rank; TFLOP/s: "
            "of a device",
            options().num_warmup, options().num_iterations)};
    for (const auto& probe : search_.probes)
      lines.push_back(fmt::format("batch {:>6}: {} (peak {}, planned {})", probe.samples,
                                  probe.fits ? "fits" : "does not fit: " + probe.reason,
                                  core::format_bytes(static_cast<double>(probe.peak_bytes)),
                                  core::format_bytes(planned_bytes(plan_of(probe.samples)))));
    lines.emplace_back();
    return lines;
  }

  std::vector<TableColumn> columns() override {
    return {{.key = "model", .title = "model", .is_in_table = false},
            {.key = "precision", .title = "type", .width = 11},
            {.key = "micro_batch_size", .title = "batch", .width = 5},
            {.key = "num_micro", .title = "accum", .width = 5},
            {.key = "global_batch", .title = "global", .is_in_table = false},
            {.key = "step_ms", .title = "step", .unit = "ms", .width = 7},
            {.key = "p90_ms", .title = "p90", .is_in_table = false},
            {.key = "samples_per_s", .title = "rate", .unit = "samples/s", .width = 11},
            {.key = "tflops_per_s_per_device", .title = "rate", .unit = "TFLOP/s", .width = 9, .decimals = 4},
            {.key = "mfu_percent", .title = "MFU", .unit = "%", .width = 6},
            {.key = "mfu_measured_peak_percent", .title = "of gemm", .is_in_table = false},
            {.key = "peak_gbytes", .title = "peak", .unit = "GB", .width = 5},
            {.key = "planned_gbytes", .title = "plan", .unit = "GB", .width = 5},
            {.key = "wrong", .title = "#wrong", .width = 6}};
  }

  int64_t verify(core::Json& row) override {
    build();
    int64_t wrong = 0;
    constexpr int kNumSteps = 2;
    for (int step = 0; step < kNumSteps; ++step) {
      const auto report = one_step();
      std::vector<double> losses;
      for (const auto& text : world().gather_strings(core::Json(report.loss.item<double>()).dump())) {  // sync: a check
        const auto loss = core::parse_json(text, "loss of a rank");  // null: not finite
        losses.push_back(loss.is_null() ? std::nan("") : loss.get<double>());
      }
      for (const double loss : losses)
        wrong += !(std::isfinite(loss) && loss == losses[0]);                 // the loss is that of the global batch
      const double loss = losses[0], norm = report.grad_norm.item<double>();  // sync: as above
      const bool has_overflown = training_->scaler != nullptr && !std::isfinite(norm);  // no update, a smaller scale
      wrong += !has_overflown && !(std::isfinite(norm) && (norm > 0 || loss == 0));
    }
    wrong += count_other_parameters();
    row["wrong"] = wrong;
    return wrong;
  }

  void time(core::Json& row) override {
    build();
    const auto samples_us = combine_ranks(
        world(), time_samples(context_.device, options().num_warmup, options().num_iterations, [&] { one_step(); }),
        "max");
    add_times(row, samples_us);
    std::vector<double> losses;
    for (const auto& loss : losses_) losses.push_back(loss.item<double>());  // sync: after the timing
    row["losses"] = losses;  // of all steps since the first, those of the check and the warm-up among them
    int64_t peak = 0;
    for (const auto& text : world().gather_strings(std::to_string(peak_memory_bytes(context_.device))))
      peak = std::max(peak, core::parse_int(text).value());
    row["peak_memory_bytes"] = peak;
    row["peak_gbytes"] = static_cast<double>(peak) / 1e9;
    if (row.contains("sequence_length"))
      row["tokens_per_s"] = row["samples_per_s"].get<double>() * row["sequence_length"].get<double>();
    row["planned_gbytes"] = row["planned_memory_bytes"].get<double>() / 1e9;
    if (options().skips_products) return;
    add_share_of_products(row);  // their memory is not in the above
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) override {
    std::vector<SummaryItem> items = search_summary();
    if (rows.at(0).contains("mfu_measured_peak_percent")) {
      const double share = rows[0]["mfu_measured_peak_percent"], limit = rows[0]["measured_peak_tflops_per_device"];
      items.push_back({.key = "mfu_measured_peak_percent",
                       .label = "Of matrix products",
                       .value = share,
                       .text = fmt::format("{:.1f} % of {:.4g} TFLOP/s ({}, {} the steps)", share, limit,
                                           product_type(train_options().precision, context_.device),
                                           context_.device.is_cpu() ? "between" : "behind")});
    }
    constexpr double kAll = 100;
    if (rows.at(0).value("mfu_percent", 0.0) > kAll)
      items.push_back({.key = "warning",
                       .label = "Warning",
                       .value = "more than 100 % of the peak: it is not this device's at this precision and thread "
                                "count, or was measured on a busy machine"});
    return items;
  }

 private:
  struct StepReport {
    at::Tensor loss, grad_norm;
  };

  const commands::BenchOptions& options() const { return context_.options; }
  const tasks::ContrastiveOptions& train_options() const { return context_.options.train; }
  comm::Comm& world() const { return context_.world; }

  std::vector<SummaryItem> search_summary() const {
    if (search_.probes.empty()) return {};
    core::Json probes = core::Json::array();
    for (const auto& probe : search_.probes)
      probes.push_back({{"samples", probe.samples},
                        {"fits", probe.fits},
                        {"peak_memory_bytes", probe.peak_bytes},
                        {"planned_memory_bytes", planned_bytes(plan_of(probe.samples))},
                        {"reason", probe.reason}});
    const bool is_cut = search_.best >= context_.options.find_most;
    return {{.key = "largest_batch",
             .label = is_cut ? "Largest batch allowed by --find-most fits" : "Largest batch that fits",
             .value = search_.best},
            {.key = "memory_limit_bytes",
             .label = "Memory limit",
             .value = limit_bytes_,
             .text = limit_bytes_ > 0 ? core::format_bytes(static_cast<double>(limit_bytes_)) : "the device"},
            {.key = "probes", .label = "Attempts", .value = probes, .text = std::to_string(search_.probes.size())}};
  }

  plan::BatchPlan plan_of(int64_t micro_batch_size) const {
    return plan::make_batch_plan(
        world().size(), {.micro_batch_size = micro_batch_size, .num_micro_batches = train_options().accum_freq});
  }

  /// Ranks whose parameters are not those of the first one after the same updates. Collective.
  int64_t count_other_parameters() {
    training_->sync->wait_params();
    const c10::NoGradGuard no_grad;
    double sum = 0;
    for (const auto& parameter : training_->task->network().named_parameters())
      sum += parameter.tensor->sum(at::kDouble).item<double>();  // sync: a check
    const auto sums = world().gather_strings(fmt::format("{}", sum));
    return std::count_if(sums.begin(), sums.end(), [&](const std::string& of_rank) { return of_rank != sums[0]; });
  }

  double planned_bytes(const plan::BatchPlan& plan) const {
    const auto parts = subject_->memory_parts(plan);
    return std::accumulate(parts.begin(), parts.end(), 0.0,
                           [](double sum, const auto& part) { return sum + part.second; });
  }

  void build() {
    if (training_ != nullptr) return;
    train::check_memory_fits(
        {.model = train_options().model,
         .bytes_of_ranks = std::vector<double>(static_cast<size_t>(world().size()), planned_bytes(plan_)),
         .parts_of_fullest = subject_->memory_parts(plan_),
         .hint = "lower --batch-size, or let --find-batch multiple=8 find the largest",
         .shown_by = "--mode list"},
        world(), context_.device);
    try {
      if (world().size() == 1) recorder_ = nn::make_work_recorder(train_options().cuda_graphs, context_.device);
      training_ = &subject_->build(plan_, recorder_.get());
      const auto seed = static_cast<uint64_t>(train_options().seed), rank = static_cast<uint64_t>(world().rank());
      for (auto micro = static_cast<int64_t>(batches_.size()); micro < plan_.num_micro_batches; ++micro)
        batches_.push_back(
            subject_->make_batch(plan_.micro_batch_size, core::stream_key({seed, rank, static_cast<uint64_t>(micro)})));
    } catch (const std::exception& error) {
      if (train::is_out_of_memory(error)) throw_out_of_memory();
      throw;
    }
  }

  StepReport one_step() {
    const auto count = static_cast<size_t>(plan_.num_micro_batches);
    const std::span<models::Batch> micro_batches =
        std::span(batches_).subspan(static_cast<size_t>(num_steps_) * count % batches_.size(), count);
    try {
      const auto outcome = training_->runner->run(micro_batches, static_cast<uint64_t>(num_steps_++));
      const auto gradients = training_->update(*train_options().lr, train_options().grad_clip_norm.value_or(0));
      for (const auto& [name, value] : outcome.scalars)
        if (name == "loss") losses_.push_back(value);
      return {.loss = losses_.back(), .grad_norm = gradients.norm};
    } catch (const std::exception& error) {
      if (train::is_out_of_memory(error)) throw_out_of_memory();
      throw;
    }
  }

  [[noreturn]] void throw_out_of_memory() const {
    throw EnvironmentError(
        fmt::format("bench: out of memory on {} with {} samples", context_.device.str(), plan_.micro_batch_size),
        "lower --batch-size, or let --find-batch multiple=8 find the largest");
  }

  void add_times(core::Json& row, std::vector<double> samples) const {
    for (double& sample : samples) sample /= 1e3;
    const auto statistics = statistics_of(samples);
    const double step_s = statistics["median"].get<double>() / 1e3;
    const double rate = static_cast<double>(plan_.global_batch) / step_s;
    const double tflops = rate * config::kTrainingPasses * forward_.flops / 1e12 / world().size();
    row["step_ms"] = statistics["median"];
    row["p90_ms"] = statistics["p90"];
    row["samples_per_s"] = rate;
    row["tflops_per_s_per_device"] = tflops;
    row["forward_flops_per_sample"] = forward_.flops;
    row["flops_formula"] = forward_.formula;
    if (peak_) {
      row["mfu_percent"] = 100 * tflops / peak_->tflops;
      row["peak_tflops_per_device"] = peak_->tflops;
      row["peak_source"] = peak_->source;
    }
    row["statistics_ms"] = statistics;
    row["samples_ms"] = samples;
  }

  /// What steps reach of the rate of matrix products. Other programs and other machines on the same processor change a
  /// CPU's rate within seconds, so there a step is compared with the products right before and behind it; on an
  /// accelerator the steps above must not wait for the host in between.
  void add_share_of_products(core::Json& row) {
    const at::ScalarType type = scalar_type_of(product_type(train_options().precision, context_.device));
    SquareProducts products(world(), context_.device, type);
    double rate = products.highest_tflops(), share = row["tflops_per_s_per_device"].get<double>() / rate;
    if (context_.device.is_cpu()) {
      constexpr int64_t kMostSteps = 10;
      const double tflop = row["tflops_per_s_per_device"].get<double>() * row["step_ms"].get<double>() / 1e3;
      std::vector<double> rates = {products.tflops_now()}, shares, between_ms;
      for (int64_t step = 0; step < std::min(options().num_iterations, kMostSteps); ++step) {
        const double step_s =
            combine_ranks(world(), time_samples(context_.device, 0, 1, [&] { one_step(); }), "max")[0] / 1e6;
        rates.push_back(products.tflops_now());
        between_ms.push_back(1e3 * step_s);
        shares.push_back(tflop / step_s / ((rates[rates.size() - 2] + rates.back()) / 2));
      }
      rate = stats::median(rates);
      share = stats::median(shares);
      row["steps_between_products_ms"] = between_ms;
      row["products_tflops"] = rates;
    }
    row["measured_peak_tflops_per_device"] = rate;
    row["mfu_measured_peak_percent"] = 100 * share;
  }

  void find_batch() {
    if (world().size() > 1)
      throw UsageError("bench: --find-batch works on one rank",
                       "leave the launcher away; the batch that fits is per device");
    limit_bytes_ = options().memory_limit.empty() ? 0 : config::parse_bytes(options().memory_limit, "--memory-limit");
    if (limit_bytes_ == 0 && context_.device.is_cpu()) limit_bytes_ = hw::available_memory_bytes();
    search_ = find_largest_batch(options().find_multiple, options().find_most, [&](int64_t samples) {
      std::vector<std::string> args = context_.command;
      args.erase(args.begin());
      for (const char* word : {"--find-batch", "", "--output", "", "--no-csv", "--json", "--mode", "time", "-w", "1",
                               "-n", "1", "--skip-products", "--batch-size"})
        args.emplace_back(word);  // the last of a repeated flag counts; products would be memory beside the step
      args.push_back(std::to_string(samples));
      BatchProbe probe = probe_in_child(args, samples, {.memory_bytes = limit_bytes_});
      core::show_progress(
          fmt::format("--find-batch: {} {}", core::counted(samples, "sample"), probe.fits ? "fit" : "do not fit"));
      return probe;
    });
    core::end_progress();
    if (search_.best == 0)
      throw EnvironmentError(
          fmt::format("bench: not even {} samples fit: {}", options().find_multiple, search_.probes.front().reason),
          "try a smaller multiple, --grad-checkpointing or a narrower --precision");
    plan_ = plan_of(search_.best);
  }

  BenchContext context_;
  std::unique_ptr<StepSubject> subject_;
  config::FlopCount forward_;
  plan::BatchPlan plan_;
  std::optional<DevicePeak> peak_;
  BatchSearch search_;
  int64_t limit_bytes_ = 0;
  std::unique_ptr<nn::WorkRecorder> recorder_;  // of the training's steps
  train::Training* training_ = nullptr;         // the subject's, once it is built
  std::vector<models::Batch> batches_;
  std::vector<at::Tensor> losses_;
  int64_t num_steps_ = 0;
};

}  // namespace

std::unique_ptr<BenchCase> make_step_case(const BenchContext& context) { return std::make_unique<StepCase>(context); }

}  // namespace lockstep::bench
