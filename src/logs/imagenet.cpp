// Epoch: [0][ 10/626]  Time  0.412 ( 0.455)  Data  0.001 ( 0.030)  Loss 6.9012e+00 (6.9500e+00)  Acc@1   0.39 (  0.20)
// Acc@5 ...
//  * Acc@1 71.123 Acc@5 90.456
//
// The value is that of one step, the number in parentheses a mean since the start of the epoch. The value is taken:
// differences of a mean that is printed with three digits have an error of milliseconds per step. Where the printed
// steps do not represent the epoch, a problem says so. At the end of an epoch the mean times the number of its steps is
// their sum, which needs no times of day. The program's own batches count from 1, older versions of it
// count from 0. The program prints no times of day; a stamp in front is of what collected the lines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kImageNetMark = "Epoch: [";

class ImageNetParser : public LogParser {
 public:
  using LogParser::LogParser;

  static bool is_step_line(std::string_view line) {
    return core::starts_with(behind_time_stamp(line), kImageNetMark) && line.find("Time") != std::string_view::npos;
  }

  LineUse read(const LogLine& line) override {
    const std::string_view text = behind_time_stamp(line.text);
    if (core::starts_with(text, "*") && text.find("Acc@1") != std::string_view::npos)
      return read_result(text, line.time_s);
    if (!is_step_line(text)) {
      read_start(text);
      return LineUse::kOther;
    }
    std::string_view rest;
    const auto epoch = count_after(text, kImageNetMark, &rest);
    const auto batch = epoch ? count_after(rest, "][", &rest) : std::nullopt;
    const auto num_batches = batch ? count_after(rest, "/", &rest) : std::nullopt;
    constexpr int64_t kMaxEpoch = 1'000'000, kMaxBatches = 1'000'000'000;
    if (!num_batches || *epoch > kMaxEpoch || *num_batches == 0 || *num_batches > kMaxBatches || *batch > *num_batches)
      return LineUse::kRejected;
    if (*batch == 0) counts_from_ = 0;
    const auto time = ms_after(rest, "Time", kMsPerSecond);
    const auto mean = mean_after(rest, "Time");
    if (!time || !mean) return LineUse::kRejected;
    LogRow row{.step = *epoch * *num_batches + *batch - counts_from_,
               .num_steps = 1,
               .epoch = static_cast<int32_t>(*epoch),
               .step_ms = *time};
    row.data_wait_ms = ms_after(rest, "Data", kMsPerSecond).value_or(record::kUnknown);
    row.loss = number_after(rest, "Loss").value_or(record::kUnknown);
    if (const auto global_batch = known_batch()) row.samples = static_cast<double>(*global_batch);
    const LineUse use = add(line, row);
    if (use == LineUse::kUsed) epoch_batches_ = *num_batches;
    if (use == LineUse::kUsed) compare_with_mean(*epoch, *batch, *num_batches, *time, *mean * kMsPerSecond);
    return use;
  }

  void finish() override {
    if (setup().sample_unit == "samples") setup().sample_unit = "images";
    if (setup().task.empty()) setup().task = "resnet";
    close_epoch();
  }

 private:
  /// "=> creating model 'resnet50'"
  void read_start(std::string_view text) {
    constexpr std::string_view kModel = "model '";
    const size_t begin = text.find(kModel);
    if (!core::starts_with(text, "=> ") || begin == std::string_view::npos || !setup().model.empty()) return;
    const std::string_view name = text.substr(begin + kModel.size());
    setup().model = name.substr(0, name.find('\''));
  }

  static std::optional<double> mean_after(std::string_view text, std::string_view key) {
    std::string_view rest;
    if (!number_after(text, key, &rest)) return std::nullopt;
    const size_t open = rest.find_first_not_of(' ');
    if (open == std::string_view::npos || rest[open] != '(') return std::nullopt;
    return read_number(rest.substr(open + 1));
  }

  /// Watches whether the printed steps are like those between them. The first of an epoch waits for the loader and is
  /// left out of both sides.
  void compare_with_mean(int64_t epoch, int64_t batch, int64_t batches_in_epoch, double value_ms, double mean_ms) {
    if (epoch != epoch_ || batch < num_batches_) {
      close_epoch();
      epoch_ = epoch, num_values_ = 0, sum_ms_ = 0;
      first_ms_ = value_ms;
    } else {
      ++num_values_;
      sum_ms_ += value_ms;
    }
    num_batches_ = batch - counts_from_ + 1, mean_ms_ = mean_ms;
    batches_in_epoch_ = batches_in_epoch;
  }

  void close_epoch() {
    keep_sum();
    compare_epoch();
  }

  /// The time of all steps of the epoch that ends: of those up to its last line from the mean, or from their own values
  /// where each is told, and of the few behind it as long as those before, but for the first. Nothing where the last
  /// digit of the mean is worth more than 1 %, or the epoch broke off.
  void keep_sum() {
    constexpr double kLeastMean_ms = 50, kMostUntold = 0.1;
    const auto num_told = static_cast<double>(num_batches_);
    const auto num_untold = static_cast<double>(batches_in_epoch_ - num_batches_);
    const bool are_all_printed = num_values_ + 1 == num_batches_;
    if (num_batches_ < 2 || num_untold < 0 || num_untold > kMostUntold * static_cast<double>(batches_in_epoch_)) return;
    if (!are_all_printed && mean_ms_ < kLeastMean_ms) return;
    const double told_ms = are_all_printed ? first_ms_ + sum_ms_ : mean_ms_ * num_told;
    const double untold_ms = std::max(0.0, num_untold * (told_ms - first_ms_) / (num_told - 1));
    builder_.run().epoch_sums[static_cast<int32_t>(epoch_)] = {.seconds = (told_ms + untold_ms) / kMsPerSecond,
                                                               .num_steps = batches_in_epoch_};
  }

  void compare_epoch() {
    constexpr int64_t kEnough = 10;
    constexpr double kFar = 0.1;
    if (num_values_ < kEnough || num_batches_ <= num_values_) return;  // the second: lines that repeat a batch
    const auto num_batches = static_cast<double>(num_batches_);
    const double printed_ms = sum_ms_ / static_cast<double>(num_values_),
                 all_ms = (mean_ms_ * num_batches - first_ms_) / (num_batches - 1);
    if (std::abs(printed_ms - all_ms) > kFar * printed_ms)
      builder_.count_problem(
          fmt::format("epoch {}: the printed steps take {:.1f} ms on average, all steps of the epoch {:.1f} ms: the "
                      "steps between the lines differ",
                      epoch_, printed_ms, all_ms));
  }

  LineUse read_result(std::string_view text, std::optional<double> time_s) {
    record::ResultRecord result{.attempt = 1, .step = 0, .name = "val", .ended_s = time_s};
    if (epoch_ >= 0) result.epoch = epoch_;
    if (builder_.has_rows()) result.step = (epoch_ + 1) * epoch_batches_;
    for (const std::string_view key : {"Acc@1", "Acc@5"})
      if (const auto percent = number_after(text, key))
        result.metrics.emplace_back(key == "Acc@1" ? "top1_pct" : "top5_pct", *percent);
    if (result.metrics.empty()) return LineUse::kRejected;
    builder_.run().results.push_back(std::move(result));
    return LineUse::kUsed;
  }

  int64_t counts_from_ = 1;
  int64_t epoch_batches_ = 0;
  int64_t epoch_ = -1, num_batches_ = 0, num_values_ = 0;  // batches done, and values printed behind the first
  int64_t batches_in_epoch_ = 0;
  double first_ms_ = 0, sum_ms_ = 0, mean_ms_ = 0;
};

/// Each value has its mean behind it: "Time  0.412 ( 0.455)".
bool imagenet_line_is_torn(std::string_view line) {
  if (!ImageNetParser::is_step_line(line)) return false;
  const size_t brackets = line.find("]["), slash = line.find('/');
  if (!is_number_closed(line, kImageNetMark, {"]["}) || brackets == std::string_view::npos ||
      slash == std::string_view::npos)
    return true;
  if (!is_number_closed(line.substr(brackets), "][", {"/"}) || !is_number_closed(line.substr(slash), "/", {"]"}))
    return true;
  for (const std::string_view key : {"Time", "Data", "Loss"}) {
    std::string_view rest;
    if (!number_after(line, key, &rest)) continue;
    rest = core::trim(rest);
    if (!core::starts_with(rest, "(") || !is_number_closed(rest, "(", {")"})) return true;
  }
  return false;
}

}  // namespace

LogReader imagenet_reader() {
  return {.is_own_line = ImageNetParser::is_step_line,
          .shape = {.begin = kImageNetMark, .keys = {kImageNetMark, "Data", "Acc@5"}, .end = ")"},
          .is_torn = imagenet_line_is_torn,
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<ImageNetParser>(builder);
          }};
}

}  // namespace lockstep::logs
