#include "bench/latency_case.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <map>

#include "bench/latency_subject.h"
#include "bench/sample_stats.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/strings.h"
#include "stats/statistics.h"

namespace lockstep::bench {
namespace {

constexpr size_t kLeastSamples = 10;  // also when --seconds is over

double process_cpu_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// Times of the stages of all calls; the median of each goes into the row.
class StageTimes {
 public:
  void add(const StageClock& clock) {
    std::map<std::string, double> of_call;
    for (const auto& [stage, ms] : clock.stages()) of_call[stage] += ms;
    for (const auto& [stage, ms] : of_call) samples_[stage].push_back(ms);
  }
  core::Json medians() const {
    core::Json out = core::Json::object();
    for (const auto& [stage, samples] : samples_) out[stage] = stats::median(samples);
    return out;
  }

 private:
  std::map<std::string, std::vector<double>> samples_;
};

std::unique_ptr<LatencySubject> make_subject(const BenchContext& context) {
  switch (context.options.model_kind) {
    case commands::BenchModel::kContrastive: return make_contrastive_subject(context);
    case commands::BenchModel::kClassifier: return make_classifier_subject(context);
    case commands::BenchModel::kGpt: return make_gpt_subject(context);
  }
  LOCKSTEP_CHECK(false, "--model {}", context.options.train.model);
}

/// Those of `asked` that the model has; all of them unknown to it: UsageError. None asked for: its first.
std::vector<std::string> known_of(const char* flag, const std::vector<std::string>& asked,
                                  const std::vector<std::string>& has, const std::string& model) {
  if (asked.empty()) return {has.front()};
  for (const std::string& name : asked)
    if (std::count(has.begin(), has.end(), name) == 0)
      throw UsageError(
          fmt::format("bench: {} {} is nothing that '{}' has, expected {}", flag, name, model, core::join_or(has)));
  return asked;
}

class LatencyCase final : public BenchCase {
 public:
  explicit LatencyCase(const BenchContext& context) : context_(context), subject_(make_subject(context)) {
    const auto& o = options();
    commands::check_bench_ranks(o, context_.world.size());
    for (const std::string& precision : o.precisions)
      for (const std::string& from : known_of("--from", o.latency_from, subject_->froms(), o.train.model))
        for (const std::string& tower : known_of("--towers", o.latency_towers, subject_->towers(), o.train.model))
          for (const int64_t batch : o.latency_batches) points_.push_back({from, precision, tower, batch});
  }

  std::vector<core::Json> points() override {
    std::vector<core::Json> rows;
    for (size_t i = 0; i < points_.size(); ++i) {
      const LatencyPoint& point = points_[i];
      rows.push_back({{"part", fmt::format("{} from {}, {}", point.tower, point.from, point.precision)},
                      {"index", i},
                      {"model", options().train.model},
                      {"precision", point.precision},
                      {"from", point.from},
                      {"tower", point.tower},
                      {"batch", point.batch}});
    }
    return rows;
  }

  std::vector<std::string> preamble() override {
    const auto& o = options();
    return {
        fmt::format("lockstep bench latency: {} on {}, {}", o.train.model, context_.device.str(),
                    core::counted(at::get_num_threads(), "thread")),
        fmt::format("warmup iters: {} iters: up to {}, or {:g} s and {}; from an input on the host to the result on "
                    "the host, one call after the other",
                    o.num_warmup, o.num_iterations, o.latency_seconds,
                    std::min<int64_t>(o.num_iterations, kLeastSamples)),
        is_gpt()
            ? fmt::format("a call: {} tokens behind a prompt of {}; first: until the first of them; tokens/s: of the "
                          "others; intervals, processor time and cold start: --json",
                          o.new_tokens, o.text_tokens)
            : "ready: decode, resize and tokenise; move: to numbers on the device; rest of the stages, intervals, "
              "processor time and cold start: --json",
        ""};
  }

  std::vector<TableColumn> columns() override {
    const bool has_towers = !is_gpt();  // a GPT has the time to its first token instead
    return {{.key = "model", .title = "model", .is_in_table = false},
            {.key = "precision", .title = "type", .is_in_table = false},
            {.key = "from", .title = "from", .is_in_table = false},
            {.key = "tower", .title = "tower", .is_in_table = false},
            {.key = "batch", .title = "batch", .width = 5},
            {.key = "p50_ms", .title = "p50", .unit = "ms", .width = 8},
            {.key = "p50_low_ms", .title = "low", .is_in_table = false},
            {.key = "p50_high_ms", .title = "high", .is_in_table = false},
            {.key = "p90_ms", .title = "p90", .unit = "ms", .width = 8},
            {.key = "p99_ms", .title = "p99", .unit = "ms", .width = 8},
            {.key = "per_s", .title = "rate", .unit = "1/s", .width = 8},
            {.key = "ready_ms", .title = "ready", .unit = "ms", .width = 6, .is_in_table = has_towers},
            {.key = "move_ms", .title = "move", .unit = "ms", .width = 6, .is_in_table = has_towers},
            {.key = "image_ms", .title = "image", .unit = "ms", .width = 7, .is_in_table = has_towers},
            {.key = "text_ms", .title = "text", .unit = "ms", .width = 7, .is_in_table = has_towers},
            {.key = "first_token_ms", .title = "first", .unit = "ms", .width = 9, .is_in_table = !has_towers},
            {.key = "tokens_per_s", .title = "tokens/s", .width = 9, .is_in_table = !has_towers},
            {.key = "cpu_ms", .title = "processor", .is_in_table = false},
            {.key = "load_ms", .title = "load", .is_in_table = false},
            {.key = "first_ms", .title = "first", .is_in_table = false},
            {.key = "wrong", .title = "#wrong", .width = 6}};
  }

  int64_t verify(core::Json& row) override {
    prepare(row);
    const int64_t wrong = subject_->count_wrong();
    row["wrong"] = wrong;
    return wrong;
  }

  void time(core::Json& row) override {
    prepare(row);
    for (int64_t i = 0; i < options().num_warmup; ++i) subject_->run(nullptr);
    const bool can_mark = context_.device.is_cpu();  // marks cost nothing there: one pass tells both
    StageTimes stages;
    std::vector<double> samples_ms, cpu_ms;
    const auto begin = core::Clock::now();
    const double limit_ms = options().latency_seconds * 1e3;
    while (std::ssize(samples_ms) < options().num_iterations &&
           (samples_ms.size() < kLeastSamples || core::ms_since(begin) < limit_ms)) {
      StageClock clock(context_.device);
      const double cpu_before = process_cpu_ms();
      const auto start = core::Clock::now();
      subject_->run(can_mark ? &clock : nullptr);
      samples_ms.push_back(core::ms_since(start));
      cpu_ms.push_back(process_cpu_ms() - cpu_before);
      if (can_mark) stages.add(clock);
    }
    for (size_t i = 0; !can_mark && i < kLeastSamples; ++i) {
      StageClock clock(context_.device);
      subject_->run(&clock);
      stages.add(clock);
    }
    row.update(subject_->facts());
    add_times(row, samples_ms, stages.medians());
    row["cpu_ms"] = stats::median(cpu_ms);
    row["samples_ms"] = samples_ms;
  }

  std::vector<SummaryItem> summary(const std::vector<core::Json>& rows) override {
    double best = 0;
    for (const auto& row : rows)
      if (const double p50 = row.value("p50_ms", 0.0); best == 0 || p50 < best) best = p50;
    if (best == 0) return {};
    return {{.key = "least_p50_ms", .label = "Least p50", .value = best, .text = fmt::format("{:.2f} ms", best)}};
  }

 private:
  const commands::BenchOptions& options() const { return context_.options; }
  bool is_gpt() const { return options().model_kind == commands::BenchModel::kGpt; }

  /// Once per row: loading and the first call are the cold start.
  void prepare(core::Json& row) {
    const auto index = row["index"].get<size_t>();
    if (prepared_ == index) return;
    auto begin = core::Clock::now();
    const bool has_loaded = subject_->prepare(points_[index]);
    row["load_ms"] = has_loaded ? core::Json(core::ms_since(begin)) : core::Json();  // weights of the point before
    begin = core::Clock::now();
    subject_->run(nullptr);
    row["first_ms"] = core::ms_since(begin);
    prepared_ = index;
  }

  void add_times(core::Json& row, const std::vector<double>& samples_ms, const core::Json& stages) const {
    const double batch = row["batch"].get<double>();
    const core::Json statistics = statistics_of(samples_ms);
    for (const auto& [key, statistic] :
         {std::pair("p50", "median"), std::pair("p90", "p90"), std::pair("p99", "p99")}) {
      if (statistics.contains(statistic)) row[fmt::format("{}_ms", key)] = statistics[statistic];
      const std::string interval = fmt::format("{}_95", statistic);
      if (!statistics.contains(interval)) continue;
      row[fmt::format("{}_low_ms", key)] = statistics[interval]["low"];
      row[fmt::format("{}_high_ms", key)] = statistics[interval]["high"];
    }
    row["statistics_ms"] = statistics;
    row["per_s"] = 1e3 * batch / row["p50_ms"].get<double>();
    row["stages_ms"] = stages;
    const auto of = [&](const char* stage) { return stages.value(stage, 0.0); };
    row["ready_ms"] = of("decode") + of("resize") + of("tokenise");
    row["move_ms"] = of("transfer");
    for (const char* tower : {"image", "text"})
      if (stages.contains(tower)) row[fmt::format("{}_ms", tower)] = of(tower);
    if (!is_gpt()) return;
    row["first_token_ms"] = of("first_token");
    row["text_ms"] = of("first_token");
    row["tokens_per_s"] = 1e3 * batch * row["next_tokens"].get<double>() / of("next_tokens");
  }

  BenchContext context_;
  std::unique_ptr<LatencySubject> subject_;
  std::vector<LatencyPoint> points_;
  std::optional<size_t> prepared_;
};

}  // namespace

std::unique_ptr<BenchCase> make_latency_case(const BenchContext& context) {
  return std::make_unique<LatencyCase>(context);
}

}  // namespace lockstep::bench
