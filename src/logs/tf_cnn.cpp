// 100     images/sec: 1500.3 +/- 4.2 (jitter = 21.0)      7.123
// total images/sec: 1500.12
//
// The rate is a mean over all steps since the warm-up, so the steps between two lines took batch x (k2 / rate2 - k1 /
// rate1). The batch stands at the top ("Batch size:  256 global") or must be given. It is that of all workers, as the
// total is, while a step's rate is that of the worker that prints it: with Horovod each device is one. Steps count from
// 1. The program prints no times of day; a stamp in front is of what collected the lines.
// The rate has one decimal: far from the start the totals of two neighbouring lines differ by less than rounding. Lines
// are then taken together until they tell the time between them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kTfCnnMark = "images/sec:";

class TfCnnParser : public LogParser {
 public:
  using LogParser::LogParser;

  static bool is_own_line(std::string_view line) {
    return line.find(kTfCnnMark) != std::string_view::npos &&
           (line.find("+/-") != std::string_view::npos || is_total(behind_time_stamp(line)));
  }

  static bool is_total(std::string_view text) { return core::starts_with(text, "total"); }

  LineUse read(const LogLine& line) override {
    const std::string_view text = behind_time_stamp(line.text);
    if (!is_own_line(text)) {
      if (core::starts_with(text, "Model:")) note_start(line);
      read_header(text);
      return LineUse::kOther;
    }
    if (is_total(text)) {
      total_rate_ = number_after(text, kTfCnnMark);
      return LineUse::kOther;
    }
    const auto step = read_number(text);
    const auto rate = number_after(text, kTfCnnMark);
    constexpr double kMaxStep = 1e12;
    if (!step || *step < 1 || *step > kMaxStep || *step != static_cast<double>(static_cast<int64_t>(*step)) || !rate ||
        *rate <= 0)
      return LineUse::kRejected;
    if (!known_batch()) {
      builder_.count_problem("a line was left out: without the global batch (--meta) a rate is no step time");
      return LineUse::kOther;
    }
    const auto batch = static_cast<double>(*known_batch());
    Progress& progress = progress_[line.rank.value_or(-1)];
    if (*step < progress.seen_step) end_progress(progress);  // a new start
    progress.seen_step = *step;
    const double rounding = kHalfDigit / *rate, total_s = *step * batch / *rate;
    const Moment now = {.step = *step, .total_s = total_s, .error_s = total_s * rounding};
    const bool is_next = *step > progress.last.step;  // else the line of another rank
    const bool is_passed =
        is_next && now.error_s + progress.last.error_s >
                       std::max(kMaxError, kSlowFactor * rounding) * (total_s - progress.last.total_s);
    if (is_next && !is_passed) progress.before = progress.last;
    const double num_steps = *step - progress.before.step;
    LogRow row{.step = static_cast<int64_t>(*step) - 1, .samples = batch, .samples_per_s = *rate};
    row.first_num_steps = static_cast<int32_t>(std::min(*step, 1e9));
    row.step_ms = (total_s - progress.before.total_s) / num_steps * kMsPerSecond;
    row.loss = loss_of(text);
    if (!(row.step_ms > 0)) return LineUse::kRejected;
    const Waiting waiting = {.row = row, .rank = line.rank, .time_s = line.time_s};
    rounding_ = rounding;
    if (is_passed) {
      progress.passed = waiting;
      if (line.time_s) builder_.run().line_times.emplace_back(row.step, *line.time_s);
      return LineUse::kUsed;
    }
    if (std::exchange(progress.passed, std::nullopt))
      longest_row_ = std::max(longest_row_, static_cast<int64_t>(num_steps));
    progress.last = now;
    progress.last_row = waiting_.size();
    waiting_.push_back(waiting);
    return LineUse::kUsed;
  }

  void finish() override {
    close_start();
    if (setup().sample_unit == "samples") setup().sample_unit = "images";
    builder_.run().rounding_of_sums = rounding_;
    if (rounding_ > kMaxError)
      builder_.run().problems.push_back(
          fmt::format("the rate is printed with one decimal: step times are known to {:.1f} % only", 100 * rounding_));
  }

 private:
  /// Of the printed rate; of the time that a row tells; and how many times the former are allowed where rates are slow.
  static constexpr double kHalfDigit = 0.05, kMaxError = 0.01, kSlowFactor = 4;

  /// A measurement whose rate is of one worker.
  struct Waiting {
    LogRow row{};
    std::optional<int> rank{};
    std::optional<double> time_s{};
  };

  struct Moment {
    double step = 0, total_s = 0;
    double error_s = 0;  // by the digits of the rate
  };
  struct Progress {
    Moment before{}, last{};          // the lines that rows end with
    double seen_step = 0;             // of any line
    size_t last_row = 0;              // index of waiting_
    std::optional<Waiting> passed{};  // the last line since then: it tells all steps since `before`
  };

  /// The last row ends with the last line.
  void end_progress(Progress& progress) {
    if (progress.passed && progress.last.step > 0) waiting_[progress.last_row] = *progress.passed;
    progress = {};
  }

  /// How many workers the batch is of; nothing where nobody can tell.
  std::optional<int64_t> num_workers() const {
    if (total_rate_ && !waiting_.empty()) {  // two means of one run
      const double ratio = *total_rate_ / waiting_.back().row.samples_per_s, whole = std::round(ratio);
      constexpr double kAgreed = 0.2, kMostWorkers = 1e6;
      if (whole >= 1 && whole <= kMostWorkers && std::abs(ratio - whole) < kAgreed * whole)
        return static_cast<int64_t>(whole);
    }
    if (!printed_batch_ || !device_batch_ || *printed_batch_ % *device_batch_ != 0) return std::nullopt;
    const int64_t num_devices = *printed_batch_ / *device_batch_;
    if (num_devices == 1 || variables_ == "horovod") return num_devices;
    if (num_worker_devices_ > 0 && num_devices % num_worker_devices_ == 0) return num_devices / num_worker_devices_;
    return std::nullopt;
  }

  void close_start() override {
    for (auto& [rank, progress] : progress_) end_progress(progress);
    const auto workers = num_workers();
    for (Waiting& waiting : waiting_) {
      if (!workers) {
        builder_.count_problem(
            "a line was left out: its rate is that of one worker, and the log does not tell of how many workers the "
            "batch is (it lacks the line `total images/sec`, and the lines `Variables:`, `Devices:` and `Batch size:` "
            "of its start)");
        continue;
      }
      const auto count = static_cast<double>(*workers);
      waiting.row.step_ms /= count;
      waiting.row.samples_per_s *= count;
      builder_.add({.text = {}, .rank = waiting.rank, .time_s = waiting.time_s}, waiting.row);
    }
    if (workers && *workers > 1)
      builder_.run().problems.push_back(fmt::format(
          "each step's rate is that of one of {} workers: step times are those of the whole batch", *workers));
    if (longest_row_ > 1)
      builder_.run().problems.push_back(fmt::format(
          "the rate is a mean since the start, with one decimal: it tells only the means of up to {} steps, "
          "which hide single slow ones",
          std::exchange(longest_row_, 1)));
    waiting_.clear();
    progress_.clear();
    total_rate_.reset(), printed_batch_.reset(), device_batch_.reset();
    variables_.clear(), num_worker_devices_ = 0;
  }

  static double loss_of(std::string_view line) {
    const size_t jitter = line.rfind(')');
    if (jitter == std::string_view::npos) return record::kUnknown;
    return read_number(line.substr(jitter + 1)).value_or(record::kUnknown);
  }

  void read_header(std::string_view text) {
    const auto take_text = [&](std::string_view key, std::string& place) {
      if (core::starts_with(text, key) && place.empty()) place = core::trim(text.substr(key.size()));
    };
    take_text("Model:", setup().model);
    if (core::starts_with(text, "Batch size:") && text.find("global") != std::string_view::npos &&
        !setup().global_batch) {
      const auto batch = count_after(text, "Batch size");
      if (batch && *batch > 0) setup().global_batch = printed_batch_ = batch;
    }
    if (core::ends_with(text, "per device") && !setup().samples_per_device) {
      const auto batch = read_number(text);
      if (batch && *batch >= 1 && *batch < 1e9)
        setup().samples_per_device = device_batch_ = static_cast<int64_t>(*batch);
    }
    take_text("Variables:", variables_);
    if (core::starts_with(text, "Devices:"))  // of a worker; with Horovod of all
      num_worker_devices_ = static_cast<int64_t>(core::split(text, ",").size());
    if (core::starts_with(text, "Data:") || core::starts_with(text, "Dataset:"))
      if (!setup().is_synthetic) setup().is_synthetic = text.find("synthetic") != std::string_view::npos;
  }

  std::map<int, Progress> progress_{};  // by rank; -1: lines without a label
  std::vector<Waiting> waiting_{};      // of the present start
  int64_t longest_row_ = 1;             // steps, where rounding made it longer than from line to line
  double rounding_ = 0;                 // of the last rate
  std::optional<double> total_rate_{};
  std::optional<int64_t> printed_batch_{}, device_batch_{};
  std::string variables_{};
  int64_t num_worker_devices_ = 0;
};

bool tf_cnn_line_is_torn(std::string_view line) {
  std::string_view rest;
  line = behind_time_stamp(line);
  if (line.find(kTfCnnMark) == std::string_view::npos || TfCnnParser::is_total(line) || !read_number(line, &rest))
    return false;
  return !core::starts_with(core::trim(rest), kTfCnnMark) || !is_number_closed(line, kTfCnnMark, {"+/-"});
}

}  // namespace

LogReader tf_cnn_reader() {
  return {
      .is_own_line = TfCnnParser::is_own_line,
      .shape = {.begin = {}, .keys = {kTfCnnMark, "jitter ="}, .end = ")"},
      .is_torn = tf_cnn_line_is_torn,
      .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> { return std::make_unique<TfCnnParser>(builder); }};
}

}  // namespace lockstep::logs
