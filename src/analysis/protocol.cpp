#include "analysis/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "record/measured_steps.h"
#include "stats/series_outliers.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {

struct Named {
  Protocol protocol;
  std::string_view name;
};
constexpr Named kProtocolNames[] = {{Protocol::kLockstep, "lockstep"},
                                    {Protocol::kClap, "clap"},
                                    {Protocol::kNemotron, "nemotron"},
                                    {Protocol::kEpicureVision, "epicure-vision"},
                                    {Protocol::kEpicureLanguage, "epicure-language"}};

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

/// Rows with a step time, in order.
std::vector<size_t> timed_rows(const record::StepColumns& steps) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < steps.size(); ++row)
    if (is_positive(record::value_or_nan(steps.step_ms, row))) rows.push_back(row);
  return rows;
}

std::vector<double> step_times(const record::StepColumns& steps, std::span<const size_t> rows) {
  std::vector<double> times;
  times.reserve(rows.size());
  for (const size_t row : rows) times.push_back(steps.step_ms[row]);
  return times;
}

/// Median of a column over the rows where it is known.
std::optional<double> median_of(const std::vector<double>& column, std::span<const size_t> rows) {
  std::vector<double> values;
  for (const size_t row : rows)
    if (const double value = record::value_or_nan(column, row); is_positive(value)) values.push_back(value);
  if (values.empty()) return std::nullopt;
  return stats::median(values);
}

/// Rows of a log in words: of what they are, where each is one ("steps") or one of several, else of how many each is
/// the mean.
struct RowsText {
  const record::StepColumns& steps;
  bool are_means = false;

  RowsText(const record::StepColumns& of, std::span<const size_t> rows)
      : steps(of), are_means(std::any_of(rows.begin(), rows.end(),
                                         [&](size_t row) { return record::num_steps_of(of, row) > 1; })) {}

  double num_steps(std::span<const size_t> rows) const {
    return std::accumulate(rows.begin(), rows.end(), 0.0,
                           [&](double sum, size_t row) { return sum + record::num_steps_of(steps, row); });
  }
  /// "190 steps", "19 steps (the log tells one in 10)", or "19 log lines (means over 10 steps each, 190 in all)".
  std::string full(std::span<const size_t> rows, const char* unit) const {
    if (rows.empty()) return fmt::format("0 {}", unit);
    if (!are_means) {
      std::vector<double> distances;
      for (const size_t row : rows) distances.push_back(record::steps_since_row_before(steps, row));
      const double distance = stats::median(distances);
      return fmt::format("{} {}{}", rows.size(), unit,
                         distance > 1 ? fmt::format(" (the log tells one in {:.0f})", distance) : "");
    }
    const auto count = [&](size_t a, size_t b) {
      return record::num_steps_of(steps, a) < record::num_steps_of(steps, b);
    };
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), count);
    const double from = record::num_steps_of(steps, *least), to = record::num_steps_of(steps, *most);
    return fmt::format(
        "{} log {} (means over {} {} each, {:.0f} in all)", rows.size(), rows.size() == 1 ? "line" : "lines",
        from == to ? fmt::format("{:.0f}", from) : fmt::format("{:.0f} to {:.0f}", from, to), unit, num_steps(rows));
  }
  /// "40", or "4 lines, 40 steps".
  std::string brief(std::span<const size_t> rows) const {
    return are_means
               ? fmt::format("{} {}, {:.0f} steps", rows.size(), rows.size() == 1 ? "line" : "lines", num_steps(rows))
               : fmt::format("{}", rows.size());
  }
};

/// Samples and tokens of a step over its time.
void set_rates(const record::StepColumns& steps, std::span<const size_t> rows, ProtocolResult& result) {
  if (const auto samples = median_of(steps.samples, rows)) result.samples_per_s = 1000 * *samples / *result.step_ms;
  if (const auto tokens = median_of(steps.tokens, rows)) result.tokens_per_s = 1000 * *tokens / *result.step_ms;
}

void apply_lockstep(const record::StepColumns& steps, const std::vector<size_t>& rows,
                    const stats::SeriesOptions& options, ProtocolResult& result) {
  const stats::SeriesSummary summary = stats::summarise_series(step_times(steps, rows), options);
  const auto used = std::span(rows).subspan(summary.num_warmup_steps);
  const RowsText text(steps, used);
  result.is_of_means = text.are_means;
  result.step_ms = summary.median_ms;
  if (!text.are_means) result.elbow = summary.elbow;
  result.num_rows = used.size();
  set_rates(steps, used, result);
  result.sentence = fmt::format("median of {} after a warm-up of {}", text.full(used, "steps"),
                                text.brief(std::span(rows).first(summary.num_warmup_steps)));
}

/// The program's own rate of a row, or samples over time where it printed none.
double row_rate(const record::StepColumns& steps, size_t row) {
  const double logged = record::value_or_nan(steps.logged_samples_per_s, row);
  return is_positive(logged) ? logged : 1000 * record::value_or_nan(steps.samples, row) / steps.step_ms[row];
}

void apply_clap(const record::StepColumns& steps, ProtocolResult& result) {
  std::vector<double> rates;
  std::vector<size_t> rows;
  bool is_logged = true;
  for (size_t row = 0; row < steps.size(); ++row) {
    const double rate = is_positive(record::value_or_nan(steps.step_ms, row)) ||
                                is_positive(record::value_or_nan(steps.logged_samples_per_s, row))
                            ? row_rate(steps, row)
                            : 0;
    if (!is_positive(rate)) continue;
    rates.push_back(rate);
    rows.push_back(row);
    is_logged = is_logged && is_positive(record::value_or_nan(steps.logged_samples_per_s, row));
  }
  if (rates.size() < 2) {
    result.sentence = "needs at least two log lines with a rate";
    return;
  }
  const auto used = std::span(rates).subspan(1);
  result.samples_per_s = stats::mean(used);
  result.num_rows = used.size();
  if (const auto samples = median_of(steps.samples, rows)) result.step_ms = 1000 * *samples / *result.samples_per_s;
  result.sentence = fmt::format(
      "arithmetic mean of the {} rates of {} log lines, the first line left out (the source names its log parser but "
      "not how it averages; a mean of rates overstates throughput)",
      is_logged ? "printed" : "computed", used.size());
}

void apply_nemotron(const record::StepColumns& steps, const std::vector<size_t>& rows, ProtocolResult& result) {
  const size_t last = rows.back();
  result.step_ms = steps.step_ms[last];
  result.num_rows = 1;
  set_rates(steps, std::span(&last, 1), result);
  result.is_of_means = record::num_steps_of(steps, last) > 1;
  const std::string what = result.is_of_means
                               ? fmt::format(
                                     "mean time of the {:.0f} steps of the last log line (up to step {}), where the "
                                     "recipe takes that of the last step,",
                                     record::num_steps_of(steps, last), steps.step[last])
                               : fmt::format("time of the last logged step ({}), as the recipe does", steps.step[last]);
  result.sentence = fmt::format("{} because the first ones fluctuate; one sample, no spread", what);
}

void apply_epicure_vision(const record::StepColumns& steps, const std::vector<size_t>& rows, ProtocolResult& result) {
  constexpr size_t kEpoch = 4, kEpochs = 5;
  std::set<int32_t> epochs;
  for (const size_t row : rows)
    if (row < steps.epoch.size() && steps.epoch[row] >= 0) epochs.insert(steps.epoch[row]);
  if (epochs.size() < kEpoch) {
    result.sentence = fmt::format("needs the fourth of five epochs, the run has {}", epochs.size());
    return;
  }
  const int32_t epoch = *std::next(epochs.begin(), kEpoch - 1);
  std::vector<size_t> used;
  double total_ms = 0;
  for (const size_t row : rows) {
    if (row >= steps.epoch.size() || steps.epoch[row] != epoch) continue;
    used.push_back(row);
    total_ms += steps.step_ms[row] * record::steps_since_row_before(steps, row);
  }
  const RowsText text(steps, used);
  const char* const row_word = text.are_means ? "log lines" : "batches";
  if (used.size() < 3) {
    result.sentence = fmt::format("needs three {} in the fourth epoch, it has {}", row_word, used.size());
    return;
  }
  used.erase(used.begin());
  used.pop_back();
  std::vector<double> times = step_times(steps, used), rates;
  for (const size_t row : used)
    if (const double rate = 1000 * record::value_or_nan(steps.samples, row) / steps.step_ms[row]; is_positive(rate))
      rates.push_back(rate);
  std::sort(times.begin(), times.end());
  result.step_ms = stats::percentile_of_sorted(times, 50);
  if (!text.are_means) result.elbow = stats::find_elbow(times);
  result.is_of_means = text.are_means;
  result.epoch_train_s = total_ms / 1000;
  result.num_rows = used.size();
  if (!rates.empty()) result.samples_per_s = stats::median(rates);
  const std::string ends =
      text.are_means
          ? "its first and last line dropped where the source drops a batch at either end; means over several batches "
            "have no elbow"
          : fmt::format("its first and last batch dropped; the elbow lies at {:.0f} %{}", 100 * *result.elbow,
                        *result.elbow < 0.5 ? ", so the median itself is slowed down" : "");
  result.sentence = fmt::format(
      "median over {} of the fourth epoch{}, {}", text.full(used, "batches"),
      epochs.size() < kEpochs ? fmt::format(" (the source runs five, this run {})", epochs.size()) : "", ends);
}

void apply_epicure_language(const record::StepColumns& steps, const std::vector<size_t>& rows,
                            const stats::SeriesOptions& options, ProtocolResult& result) {
  const stats::SeriesSummary summary = stats::summarise_series(step_times(steps, rows), options);
  const auto stable = std::span(rows).subspan(summary.num_warmup_steps);
  result.tflops_per_device = median_of(steps.logged_tflops_per_device, stable);
  if (!result.tflops_per_device) {
    result.sentence = "needs TFLOP/s per GPU in the log (Megatron prints them with --log-throughput)";
    return;
  }
  const RowsText text(steps, stable);
  result.is_of_means = text.are_means;
  result.step_ms = summary.median_ms;
  result.num_rows = stable.size();
  set_rates(steps, stable, result);
  result.sentence = fmt::format(
      "median of the TFLOP/s per GPU that the program logged in {}, once the throughput had become stable ({} left "
      "out); how it counts FLOPs is its own",
      text.full(stable, "steps"), text.brief(std::span(rows).first(summary.num_warmup_steps)));
}

}  // namespace

std::string_view protocol_name(Protocol protocol) {
  const auto found = std::find_if(std::begin(kProtocolNames), std::end(kProtocolNames),
                                  [&](const Named& entry) { return entry.protocol == protocol; });
  LOCKSTEP_CHECK(found != std::end(kProtocolNames), "protocol={}", static_cast<int>(protocol));
  return found->name;
}

Protocol parse_protocol(std::string_view name) {
  std::vector<std::string> known;
  for (const Named& entry : kProtocolNames) {
    if (entry.name == name) return entry.protocol;
    known.emplace_back(entry.name);
  }
  throw UsageError(fmt::format("unknown protocol '{}', expected {}", name, core::join_or(known)));
}

ProtocolResult apply_protocol(Protocol protocol, const record::StepColumns& steps,
                              const stats::SeriesOptions& options) {
  ProtocolResult result{.protocol = protocol};
  if (protocol == Protocol::kClap) {  // rates are enough
    apply_clap(steps, result);
    return result;
  }
  const std::vector<size_t> rows = timed_rows(steps);
  if (rows.empty()) {
    result.sentence = "needs step times, the record has none";
    return result;
  }
  switch (protocol) {
    case Protocol::kLockstep: apply_lockstep(steps, rows, options, result); break;
    case Protocol::kNemotron: apply_nemotron(steps, rows, result); break;
    case Protocol::kEpicureVision: apply_epicure_vision(steps, rows, result); break;
    case Protocol::kEpicureLanguage: apply_epicure_language(steps, rows, options, result); break;
    case Protocol::kClap: break;
  }
  return result;
}

}  // namespace lockstep::analysis
