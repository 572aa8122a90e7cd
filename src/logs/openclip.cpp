// Train Epoch: 0 [ 40960/3200000 (1%)] Data (t): 0.031 Batch (t): 1.204, 3401.9/s, 106.31/s/gpu LR: 0.000012 Logit
// Scale: 14.286 Loss: 8.3 (8.4)
//
// `Data (t)` and `Batch (t)` are means since the line before, the two rates are those of the last step only. So the
// times are used and the rates kept as what was printed. The counter in brackets is steps x global batch; of an epoch
// the first line stands for one step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/files.h"
#include "core/strings.h"
#include "logs/merged.h"
#include "logs/option_dumps.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kOpenClipMark = "Train Epoch:", kEvalMark = "Eval Epoch:";

struct TrainLine {
  int64_t samples = 0, samples_per_epoch = 0;  // seen in this epoch, and of it
  int64_t batch = 0;                           // global batch by the options, 0: they do not tell
  size_t start = 0;                            // that it is of
  LogRow row{};                                // without steps and samples
  std::optional<int> rank{};
  std::optional<double> time_s{};
};

bool read_train_line(const LogLine& line, TrainLine& out) {
  std::string_view rest;
  const auto epoch = count_after(line.text, kOpenClipMark, &rest);
  const auto samples = epoch ? count_after(rest, "[", &rest) : std::nullopt;
  const auto total = samples ? count_after(rest, "/", &rest) : std::nullopt;
  const auto batch_ms = total ? ms_after(rest, "Batch (t)", 1000) : std::nullopt;
  constexpr int64_t kMaxEpoch = 1'000'000'000;
  if (!batch_ms || *samples == 0 || *epoch > kMaxEpoch || !(*batch_ms > 0)) return false;
  out.samples = *samples, out.samples_per_epoch = *total;
  out.rank = line.rank, out.time_s = line.time_s;
  out.row.epoch = static_cast<int32_t>(*epoch);
  out.row.step_ms = *batch_ms;
  out.row.data_wait_ms = ms_after(rest, "Data (t)", 1000).value_or(record::kUnknown);
  std::string_view behind_time;
  number_after(rest, "Batch (t)", &behind_time);
  std::string_view behind_rate;
  if (core::starts_with(behind_time, ",")) {
    if (const auto rate = read_number(behind_time.substr(1), &behind_rate);
        rate && core::starts_with(behind_rate, "/s"))
      out.row.samples_per_s = *rate;
  }
  out.row.loss = number_after(rest, " Loss").value_or(record::kUnknown);
  return true;
}

/// Devices: how often the rate of one goes into the rate of all.
std::optional<int64_t> devices_of(std::string_view line) {
  std::string_view behind;
  number_after(line, "Batch (t)", &behind);
  if (!core::starts_with(behind, ",")) return std::nullopt;
  const auto total = read_number(behind.substr(1), &behind);
  const size_t comma = behind.find(',');
  if (!total || comma == std::string_view::npos) return std::nullopt;
  std::string_view unit;
  const auto each = read_number(behind.substr(comma + 1), &unit);
  if (!each || *each <= 0 || !core::starts_with(unit, "/s/")) return std::nullopt;
  const double ratio = *total / *each, whole = std::round(ratio);
  constexpr double kPrintedDigits = 2e-2, kMaxDevices = 1e7;
  if (whole < 1 || whole > kMaxDevices || std::abs(ratio - whole) > kPrintedDigits * whole) return std::nullopt;
  return static_cast<int64_t>(whole);
}

class OpenClipParser : public LogParser {
 public:
  explicit OpenClipParser(LogBuilder& builder) : LogParser(builder) {
    const auto& source = builder.run().source;
    if (source.filename() != "out.log") return;  // OpenCLIP leaves its options beside the log
    std::error_code failure;
    if (const auto params = source.parent_path() / "params.txt"; std::filesystem::is_regular_file(params, failure))
      for (const std::string& line : core::split(core::read_file(params), "\n")) {
        read_option(line);
        if (const auto option = read_colon_option(line)) beside_[std::string(option->name)] = option->value;
      }
  }

  LineUse read(const LogLine& line) override {
    if (line.text.find(kOpenClipMark) != std::string_view::npos) {
      TrainLine read;
      if (!read_train_line(line, read)) return LineUse::kRejected;
      read.batch = starts_.back().batch();
      read.start = starts_.size() - 1;
      starts_.back().is_measured = true;
      lines_.push_back(read);
      dumps_.count_line();
      if (!starts_.back().devices) starts_.back().devices = devices_of(line.text);
      return LineUse::kUsed;
    }
    if (const size_t at = line.text.find(kEvalMark); at != std::string_view::npos)
      return read_result(line.text.substr(at), line.time_s);
    if (core::ends_with(line.text, "Params:")) {
      if (starts_.back().is_measured) starts_.emplace_back();
      starts_.back().batch_size = starts_.back().world_size = starts_.back().accum = 0;
      dumps_.begin();
    }
    constexpr std::string_view kOption = "|   ";  // behind the logger's own prefix, "2026-01-31,12:00:00 | INFO |"
    if (const size_t at = line.text.find(kOption); at != std::string_view::npos) {
      read_option(line.text.substr(at + 1));
      if (const auto option = read_colon_option(line.text.substr(at + 1))) dumps_.add(option->name, option->value);
    }
    return LineUse::kOther;
  }

  void finish() override {
    const int64_t counted = inferred_batch(counted_batch());
    size_t start = 0;
    for (size_t at = 0; at < lines_.size(); ++at) {
      const TrainLine& line = lines_[at];
      if (const size_t before = std::exchange(start, line.start); at > 0 && before != start) {
        complete_setup(before, lines_[at - 1].batch > 0 ? lines_[at - 1].batch : counted);
        builder_.begin_start();
      }
      const bool fits = line.batch > 0 && line.samples % line.batch == 0;
      if (line.batch > 0 && !fits)
        builder_.count_problem("the sample count of a line is no multiple of the batch that the options tell");
      add_step(line, fits ? line.batch : counted);
    }
    for (auto& [num_lines, result] : results_) {
      result.step = num_lines == 0 ? 0 : steps_done_[num_lines - 1];
      builder_.run().results.push_back(std::move(result));
    }
    builder_.run().options = dumps_.measured();
    if (builder_.run().options.empty()) builder_.run().options = std::move(beside_);
    if (lines_.empty()) return;
    const int64_t batch = lines_.back().batch > 0 ? lines_.back().batch : counted;
    if (lines_.back().batch == 0 && is_batch_by_rate_)
      builder_.count_problem(
          fmt::format("the global batch, {}, was inferred from the printed rates and Batch (t): the sample counts of "
                      "the lines, all multiples of {}, contradict them; --fact global_batch=N tells it",
                      batch, counted_batch()));
    else if (lines_.back().batch == 0)
      builder_.count_problem(
          fmt::format("the global batch, {}, was inferred from the sample counts of the lines", batch));
    complete_setup(start, batch);
  }

 private:
  /// What the options of a start tell; 0: they do not.
  struct Start {
    int64_t batch_size = 0, world_size = 0, accum = 0;
    std::string model{}, precision{};
    std::optional<bool> is_synthetic{};
    std::optional<int64_t> devices{};
    bool is_measured = false;

    int64_t batch() const {
      constexpr double kMaxBatch = 1e15;
      const double batch = static_cast<double>(batch_size) * static_cast<double>(world_size) *
                           static_cast<double>(std::max<int64_t>(accum, 1));
      return batch > kMaxBatch ? 0 : static_cast<int64_t>(batch);
    }
  };

  void complete_setup(size_t start, int64_t batch) {
    const Start& told = starts_[start];
    if (!setup().devices) setup().devices = told.devices;
    if (setup().model.empty()) setup().model = told.model;
    if (setup().precision.empty()) setup().precision = told.precision;
    if (!setup().is_synthetic) setup().is_synthetic = told.is_synthetic;
    if (!setup().global_batch) setup().global_batch = batch;
    if (!setup().accum && told.accum > 0) setup().accum = told.accum;
    const auto devices = known(&record::RunSetup::devices);
    if (!setup().samples_per_device && devices && batch % *devices == 0) setup().samples_per_device = batch / *devices;
  }

  void add_step(const TrainLine& line, int64_t batch) {
    const int64_t steps_per_epoch = std::max<int64_t>(
        1,
        static_cast<int64_t>(std::llround(static_cast<double>(line.samples_per_epoch) / static_cast<double>(batch))));
    const int64_t in_epoch = line.samples / batch;
    const double last_step =
        static_cast<double>(line.row.epoch) * static_cast<double>(steps_per_epoch) + static_cast<double>(in_epoch) - 1;
    constexpr double kMaxStep = 1e14;
    steps_done_.push_back(static_cast<int64_t>(std::clamp(last_step + 1, 0.0, kMaxStep)));
    if (last_step < 0 || last_step > kMaxStep)
      return builder_.count_problem("a line counts more steps than any run has");
    LogRow row = line.row;
    if (starts_[line.start].accum > 1) {
      row.data_wait_ms = record::kUnknown;
      builder_.count_problem("with accum_freq above 1 `Data (t)` contains compute: it is not used");
    }
    row.step = static_cast<int64_t>(last_step);
    row.first_num_steps = 1;
    if (in_epoch == 1) row.num_steps = 1;  // the means begin anew with each epoch
    row.samples = static_cast<double>(batch);
    row.samples_seen = (last_step + 1) * static_cast<double>(batch);
    builder_.add({.text = {}, .rank = line.rank, .time_s = line.time_s}, row);
  }

  /// The largest batch that all sample counts are multiples of.
  int64_t counted_batch() const {
    int64_t batch = 0;
    for (const TrainLine& line : lines_)
      if (line.batch == 0 || line.samples % line.batch != 0) batch = std::gcd(batch, line.samples);
    return std::max<int64_t>(batch, 1);
  }

  /// The batch as the user gave it, or the counted one where the printed rates times Batch (t) agree with it, else the
  /// divisor of the counted one next to them.
  int64_t inferred_batch(int64_t counted) {
    if (const auto given = known_batch()) return *given;
    std::vector<double> printed;
    for (const TrainLine& line : lines_)
      if (line.batch == 0 && line.row.samples_per_s > 0)
        printed.push_back(line.row.samples_per_s * line.row.step_ms / 1000);
    if (printed.empty()) return counted;
    const auto middle = printed.begin() + static_cast<std::ptrdiff_t>(printed.size() / 2);
    std::nth_element(printed.begin(), middle, printed.end());
    const auto ratio_to = [&](int64_t batch) { return std::abs(std::log(static_cast<double>(batch) / *middle)); };
    // The rate is that of one step and the time a mean, so they differ by some per cent; a wrong count is off by a
    // whole factor.
    constexpr double kFar = 1.5, kNear = 1.05, kMaxBatch = 1e12;
    if (ratio_to(counted) < std::log(kFar) || *middle < 1 || *middle > kMaxBatch) return counted;
    if (static_cast<double>(counted) < *middle) {  // no batch that the counts are no multiples of
      builder_.count_problem(
          fmt::format("the printed rates and Batch (t) tell a global batch of {:.0f}, the sample counts of the lines "
                      "{}, which was taken; --fact global_batch=N tells it",
                      *middle, counted));
      return counted;
    }
    is_batch_by_rate_ = true;
    int64_t best = std::llround(*middle);
    double nearest = std::log(kNear);
    const auto first = static_cast<int64_t>(*middle / kNear),
               last = std::min(static_cast<int64_t>(*middle * kNear), first + 1'000'000);
    for (int64_t batch = std::max<int64_t>(first, 1); batch <= last; ++batch)
      if (counted % batch == 0 && ratio_to(batch) < nearest) best = batch, nearest = ratio_to(batch);
    return best;
  }

  /// "Eval Epoch: 1 clip_val_loss: 2.66\timagenet-zeroshot-val-top1: 0.1234"; progress lines ("[512 / 1000]") say
  /// nothing final.
  LineUse read_result(std::string_view text, std::optional<double> time_s) {
    std::string_view rest;
    const auto epoch = count_after(text, kEvalMark, &rest);
    if (!epoch || core::starts_with(core::trim(rest), "[")) return LineUse::kOther;
    record::ResultRecord result{.attempt = 1, .epoch = epoch, .name = "val", .ended_s = time_s};
    for (const std::string& part : core::split(rest, "\t")) {
      const size_t colon = part.rfind(": ");
      if (colon == std::string::npos) continue;
      if (const auto value = read_number(std::string_view(part).substr(colon + 1)))
        result.metrics.emplace_back(core::trim(part.substr(0, colon)), *value);
    }
    if (result.metrics.empty()) return LineUse::kRejected;
    results_.emplace_back(lines_.size(), std::move(result));
    return LineUse::kUsed;
  }

  void read_option(std::string_view text) {
    const auto take = [&](std::string_view name, int64_t& place) {
      if (const auto value = option_in_dump(text, name)) place = positive_count(*value).value_or(place);
    };
    Start& start = starts_.back();
    take("batch_size", start.batch_size), take("world_size", start.world_size), take("accum_freq", start.accum);
    if (start.world_size > 0 && !start.devices) start.devices = start.world_size;
    if (const auto value = option_in_dump(text, "model"); value && start.model.empty()) start.model = *value;
    if (const auto value = option_in_dump(text, "precision"); value && start.precision.empty())
      start.precision = *value;
    if (const auto value = option_in_dump(text, "dataset_type"); value && !start.is_synthetic)
      start.is_synthetic = core::starts_with(*value, "synthetic");
  }

  std::vector<TrainLine> lines_{};
  std::vector<int64_t> steps_done_{};                               // after each of them
  std::vector<std::pair<size_t, record::ResultRecord>> results_{};  // with the number of training lines before
  std::vector<Start> starts_ = std::vector<Start>(1);
  OptionDumps dumps_{};
  std::map<std::string, std::string> beside_{};  // options of params.txt
  bool is_batch_by_rate_ = false;
};

/// "0 [ 40960/3200000 (1%)]": the counters of a line.
bool are_counters_closed(std::string_view line) {
  const size_t bracket = line.find('['), slash = line.find('/');
  return is_number_closed(line, kOpenClipMark, {"["}) && bracket < slash && slash != std::string_view::npos &&
         is_number_closed(line.substr(bracket), "[", {"/"}) && is_number_closed(line.substr(slash), "/", {"("});
}

/// Losses come last; before version 2.0 they came first and the logit scale last.
bool has_end(std::string_view behind_time) {
  const size_t loss = behind_time.find(" Loss:");
  return loss == std::string_view::npos ? behind_time.find("Logit Scale:") != std::string_view::npos
                                        : behind_time.find(')', loss) != std::string_view::npos;
}

bool openclip_line_is_torn(std::string_view line) {
  const size_t begin = line.find(kOpenClipMark);
  if (begin == std::string_view::npos) return false;
  line = line.substr(begin);
  std::string_view behind_time, behind_rate;
  if (!number_after(line, "Batch (t)", &behind_time)) return false;
  const bool has_rate = core::starts_with(behind_time, ",");
  if (has_rate && !(read_number(behind_time.substr(1), &behind_rate) && core::starts_with(behind_rate, "/s")))
    return true;
  return !are_counters_closed(line) || !is_number_closed(line, "Data (t)", {"Batch (t)"}) ||
         !is_number_closed(line, "Batch (t)", {",", "LR:"}) || !is_number_closed(line, " Loss", {"("}) ||
         !has_end(behind_time);
}

}  // namespace

LogReader openclip_reader() {
  return {.is_own_line =
              [](std::string_view line) {
                return line.find(kOpenClipMark) != std::string_view::npos &&
                       line.find("Batch (t):") != std::string_view::npos;
              },
          .shape = {.begin = kOpenClipMark, .keys = {kOpenClipMark, "Data (t):", "Batch (t):", " Loss:"}, .end = ")"},
          .is_torn = openclip_line_is_torn,
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<OpenClipParser>(builder);
          },
          .dialect = {.task = "clip",
                      .identity = {"rank", "local-rank", "distributed", "no-set-device-rank", "log-path", "log-level",
                                   "checkpoint-path", "save-logs", "url", "port", "copy-codebase", "remote-sync"},
                      .identity_prefixes = {"wandb", "tensorboard"},
                      .schedule = {"momentum"}}};
}

}  // namespace lockstep::logs
