#include "bench/op_case.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/gemm_peak.h"
#include "bench/op_kernels.h"
#include "bench/sample_stats.h"
#include "bench/sample_timer.h"
#include "config/option_checks.h"
#include "core/counted.h"
#include "core/strings.h"

namespace lockstep::bench {
namespace {

class OpCase final : public BenchCase {
 public:
  explicit OpCase(const BenchContext& context) : context_(context) {
    for (const std::string& precision : options().precisions)
      for (const OpShape& shape : all_shapes(scalar_type_of(precision)))
        if (std::count(options().ops.begin(), options().ops.end(), op_name(shape.kind)) > 0)
          runs_.push_back({shape, precision});
    std::stable_sort(runs_.begin(), runs_.end(),
                     [](const Run& a, const Run& b) { return a.shape.kind < b.shape.kind; });
  }

  std::vector<core::Json> points() override {
    std::vector<core::Json> out;
    for (size_t i = 0; i < runs_.size(); ++i)
      out.push_back({{"part", op_name(runs_[i].shape.kind)},
                     {"index", i},
                     {"label", runs_[i].shape.label},
                     {"shape", runs_[i].shape.text()},
                     {"precision", runs_[i].precision}});
    return out;
  }

  std::vector<std::string> preamble() override {
    return {fmt::format("lockstep bench op: {} at the same time on {}, {} each",
                        core::counted(context_.world.size(), "rank"), context_.device.str(),
                        core::counted(at::get_num_threads(), "thread")),
            fmt::format("warmup iters: {} iters: {}; time: median of the iterations, each that of the slowest rank; "
                        "rates of one rank",
                        options().num_warmup, options().num_iterations),
            "shapes: gemm m x n x k, attention batch x heads x tokens x width, norms rows x width", ""};
  }

  std::vector<TableColumn> columns() override {
    return {{.key = "part", .title = "op", .is_in_table = false},
            {.key = "label", .title = "of", .width = 19},
            {.key = "shape", .title = "shape", .width = 15},
            {.key = "precision", .title = "type", .width = 5},
            {.key = "time_us", .title = "time", .unit = "us", .width = 10},
            {.key = "p90_us", .title = "p90", .is_in_table = false},
            {.key = "tflops_per_s", .title = "rate", .unit = "TFLOP/s", .width = 10, .decimals = 4},
            {.key = "gbytes_per_s", .title = "rate", .unit = "GB/s", .width = 8},
            {.key = "wrong", .title = "#wrong", .width = 6}};
  }

  int64_t verify(core::Json& row) override {
    const c10::NoGradGuard no_grad;
    const at::Tensor wrong =
        at::full({1}, kernel_of(row).count_wrong(), at::TensorOptions(context_.device).dtype(at::kLong));
    context_.world.all_reduce(wrong).wait();
    row["wrong"] = wrong.item<int64_t>();  // sync: a check, nothing is timed
    return row["wrong"];
  }

  void time(core::Json& row) override {
    const c10::NoGradGuard no_grad;
    const auto& run = runs_[row["index"].get<size_t>()];
    OpKernel& kernel = kernel_of(row);
    context_.world.barrier();
    const auto samples_us = combine_ranks(
        context_.world,
        time_samples(context_.device, options().num_warmup, options().num_iterations, [&] { kernel.run(); }), "max");
    const auto statistics = statistics_of(samples_us);
    const double us = statistics["median"];
    row["time_us"] = us;
    row["p90_us"] = statistics["p90"];
    if (run.shape.flops() > 0) row["tflops_per_s"] = run.shape.flops() / us / 1e6;
    const double bytes = run.shape.bytes(static_cast<int64_t>(c10::elementSize(scalar_type_of(run.precision))));
    if (bytes > 0) row["gbytes_per_s"] = bytes / us / 1e3;
    row["statistics_us"] = statistics;
    row["samples_us"] = samples_us;
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) override {
    const auto best = [&](const char* part, const char* key) {
      std::map<std::string, double> of_precision;
      for (const auto& row : rows)
        if (row["part"] == part && row.contains(key)) {
          double& value = of_precision[row["precision"]];
          value = std::max(value, row[key].get<double>());
        }
      return of_precision;
    };
    std::vector<SummaryItem> items;
    const auto add = [&](const char* key, const char* label, const std::map<std::string, double>& values,
                         const char* unit) {
      std::vector<std::string> texts;
      for (const auto& [precision, value] : values)
        texts.push_back(fmt::format("{} {:.4g} {}", precision, value, unit));
      if (!values.empty())
        items.push_back({.key = key, .label = label, .value = values, .text = core::join(texts, ", ")});
    };
    add("measured_peak_tflops", "Measured peak", best("gemm", "tflops_per_s"), "TFLOP/s");
    add("measured_memory_gbytes_per_s", "Measured memory rate", best("triad", "gbytes_per_s"), "GB/s");
    return items;
  }

 private:
  struct Run {
    OpShape shape;
    std::string precision;
  };

  std::vector<OpShape> all_shapes(at::ScalarType type) const {
    const auto& o = options();
    std::vector<OpShape> shapes = square_gemms(o.min_dim, o.max_dim, o.step_factor);
    if (!o.op_model.empty()) {
      for (const OpShape& shape : model_ops(config::resolve_clip_shape(o.op_model), o.op_batch))
        shapes.push_back(shape);
    } else {
      shapes.push_back({OpKind::kAttention, "64 wide", {o.op_batch, 8, 256, 64}});
      for (const OpKind norm : {OpKind::kLayerNorm, OpKind::kSumNorm, OpKind::kNormBackward})
        shapes.push_back({norm, "1024 wide", {o.op_batch * 256, 1024}});
    }
    const auto bytes = config::parse_bytes(o.array_bytes, "--array-bytes");
    const int64_t elements = std::max<int64_t>(1, bytes / static_cast<int64_t>(c10::elementSize(type)));
    shapes.push_back({OpKind::kCopy, "", {elements}});
    shapes.push_back({OpKind::kTriad, "", {elements}});
    return shapes;
  }

  /// The kernel of the row; the check and the timing share it.
  OpKernel& kernel_of(const core::Json& row) {
    const auto index = row["index"].get<size_t>();
    if (!kernel_ || index != kernel_index_) {
      kernel_.reset();  // its memory first
      kernel_ = make_op_kernel(runs_[index].shape, scalar_type_of(runs_[index].precision), context_.device);
      kernel_index_ = index;
    }
    return *kernel_;
  }

  const commands::BenchOptions& options() const { return context_.options; }

  BenchContext context_;
  std::vector<Run> runs_;
  std::unique_ptr<OpKernel> kernel_;
  size_t kernel_index_ = 0;
};

}  // namespace

std::unique_ptr<BenchCase> make_op_case(const BenchContext& context) { return std::make_unique<OpCase>(context); }

}  // namespace lockstep::bench
