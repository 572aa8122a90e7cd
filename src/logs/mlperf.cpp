// :::MLLOG {"namespace": "", "time_ms": 1717236672345, "event_type": "POINT_IN_TIME", "key": "tracked_stats",
//           "value": {"throughput": 1234.5, "train_step_time": 0.83, "loss": 7.1}, "metadata": {"step": 100}}
//
// Step times stand in tracked_stats under three spellings. Where there are none, blocks give them: time between start
// and stop over the steps in between, counted by metadata (samples_count, step) and the global batch; else epochs, as
// events of their own or counted by blocks (epoch_count), without the evaluations inside, by train_samples over the
// global batch.
// The step of metadata may be the samples so far: it is where every one is a multiple of the global batch and the steps
// would have taken far longer than the clock allows.
// `throughput` may count launches instead of finished steps: kept, not used. Whether a step time is the mean since the
// line before or that of the last step differs between submissions: the clock tells.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

using core::Json;
constexpr std::string_view kMlperfMark = ":::MLLOG";

std::optional<double> number_in(const Json& object, std::initializer_list<const char*> keys) {
  if (!object.is_object()) return std::nullopt;
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
  }
  return std::nullopt;
}

std::optional<int64_t> count_in(const Json& object, std::initializer_list<const char*> keys) {
  const auto number = number_in(object, keys);
  constexpr double kMaxCount = 1e14;
  if (!number || *number < 0 || *number > kMaxCount) return std::nullopt;
  return static_cast<int64_t>(*number);
}

class MlperfParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    const size_t at = line.text.find(kMlperfMark);
    if (at == std::string_view::npos) return LineUse::kOther;
    Json event;
    try {
      event = core::parse_json(core::trim(line.text.substr(at + kMlperfMark.size())), "MLLOG");
    } catch (const DataError&) {
      return LineUse::kRejected;
    }
    if (!event.is_object() || !event.contains("key") || !event["key"].is_string()) return LineUse::kRejected;
    LogLine stamped = line;
    if (const auto time_ms = number_in(event, {"time_ms"}); time_ms && *time_ms > 0)
      stamped.time_s = *time_ms / kMsPerSecond;
    return read_event(stamped, event["key"].get<std::string>(), event.contains("value") ? event["value"] : Json(),
                      event.contains("metadata") ? event["metadata"] : Json());
  }

  void finish() override { add_start(); }

 private:
  /// Gives the builder the rows of one start.
  void add_start() {
    const int64_t samples_per_count = are_counts_samples() ? known_batch().value_or(1) : 1;
    const bool are_samples = are_times_of_last_steps(samples_per_count);
    for (Stats& stats : stats_) {
      if (samples_per_count > 1) stats.row.step = stats.row.step / samples_per_count - 1;
      if (are_samples) stats.row.num_steps = 1;
      if (stats.is_start) builder_.start_attempt();
      builder_.add({.text = {}, .rank = stats.rank, .time_s = stats.time_s}, stats.row);
    }
    if (stats_.empty())  // no program that measures steps itself: the blocks between evaluations do
      for (const Block& block : blocks_) builder_.add({.text = {}, .rank = {}, .time_s = block.time_s}, block.row);
    if (stats_.empty() && blocks_.empty()) add_epochs();
    stats_.clear();
    blocks_.clear();
    epochs_.clear();
    block_epochs_.clear();
    has_evaluations_ = false;
  }

  /// Training time of one epoch or several.
  struct Epochs {
    double count = 1, seconds = 0, stop_s = 0;
  };

  /// Rows of whole epochs, where the log tells their samples and the batch; else what it lacks.
  void add_epochs() {
    const std::vector<Epochs>& epochs = epochs_.empty() ? block_epochs_ : epochs_;
    if (epochs.empty()) {
      if (has_evaluations_)
        builder_.count_problem(
            "it tells evaluations, and neither steps (tracked_stats), blocks with their samples nor epochs "
            "(epoch_start, epoch_stop): the time of training cannot be told");
      return;
    }
    const auto batch = known_batch();
    if (!train_samples_ || !batch) {
      builder_.count_problem(fmt::format(
          "it tells the times of {} epochs and not {}: without it there is no step time and no throughput",
          epochs.size(),
          train_samples_ ? "the batch of all devices (global_batch_size; --global-batch gives it)"
          : batch        ? "the samples of an epoch (train_samples)"
                         : "the samples of an epoch (train_samples) and the batch of all devices (global_batch_size)"));
      return;
    }
    const double per_epoch = *train_samples_ / static_cast<double>(*batch);
    double num_done = 0;
    for (const Epochs& one : epochs) {
      const double before = std::round(num_done);
      num_done += one.count * per_epoch;
      constexpr double kMostSteps = 1e9;
      const double num_steps = std::round(num_done) - before;
      if (num_steps < 1 || num_steps > kMostSteps) continue;
      LogRow row{.step = static_cast<int64_t>(before + num_steps) - 1, .num_steps = static_cast<int32_t>(num_steps)};
      row.step_ms = one.seconds * kMsPerSecond / (one.count * per_epoch);
      row.samples = static_cast<double>(*batch);
      builder_.add({.text = {}, .rank = {}, .time_s = one.stop_s}, row);
    }
  }

  /// Is it what a program logs when it starts, behind measurements of the same rank?
  bool is_restart(const LogLine& line, const std::string& key, const Json& value) {
    if (!measured_ranks_.contains(line.rank.value_or(-1))) return false;
    const auto batch = setup().global_batch;
    return key == "submission_benchmark" || key == "cache_clear" || key == "init_start" ||
           (key == "global_batch_size" && batch && value.is_number() &&
            value.get<double>() != static_cast<double>(*batch));
  }

  /// What follows is of a new start, perhaps on other devices.
  void begin_start() {
    add_start();
    before_ = setup();
    builder_.begin_start();
    builder_.run().state.clear(), builder_.run().message.clear();
    measured_ranks_.clear();
    block_start_ = {};
    epoch_start_s_.reset(), eval_start_s_.reset();
    block_num_epochs_ = evaluated_s_ = 0;
    is_start_ = false;
  }

  /// At the first measurement of a start: one that tells neither devices nor batch has those of the start before.
  void begin_measurements(const LogLine& line) {
    if (measured_ranks_.insert(line.rank.value_or(-1)).second && !setup().devices && !setup().global_batch)
      setup() = before_;
  }

  struct Block {
    LogRow row{};
    double time_s = 0;
  };

  LineUse read_event(const LogLine& line, const std::string& key, const Json& value, const Json& metadata) {
    if (is_restart(line, key, value)) begin_start();
    if (key == "tracked_stats") return read_stats(line, value, metadata);
    if (key == "block_start" || key == "block_stop") return read_block(line, key == "block_stop", metadata);
    if (key == "epoch_start" || key == "epoch_stop") return read_epoch(line, key == "epoch_stop");
    if (key == "run_start" && line.time_s) is_start_ = true;
    if (key == "eval_start") eval_start_s_ = line.time_s;
    if (key == "eval_stop") {
      has_evaluations_ = true;
      if (const auto start = std::exchange(eval_start_s_, {}); start && line.time_s && *line.time_s > *start)
        evaluated_s_ += *line.time_s - *start;
    }
    if (key == "train_samples" && !train_samples_ && value.is_number() && value.get<double>() >= 1 &&
        value.get<double>() < 1e15)
      train_samples_ = value.get<double>();
    if (key == "run_stop") read_end(metadata);
    if (key == "eval_accuracy" || key == "eval_error" || key == "eval_loss")
      read_evaluation(line, key, value, metadata);
    if (auto& results = builder_.run().results; key == "eval_stop" && !results.empty())
      results.back().ended_s = line.time_s;
    const auto take = [&](const char* name, std::optional<int64_t>& place) {
      if (key == name && !place && value.is_number() && value.get<double>() >= 1 && value.get<double>() < 1e15)
        place = static_cast<int64_t>(value.get<double>());
    };
    take("global_batch_size", setup().global_batch), take("max_sequence_length", setup().sequence_length),
        take("gradient_accumulation_steps", setup().accum);
    take("number_of_nodes", setup().nodes), take("number_of_ranks", setup().devices);
    if (key == "submission_benchmark" && value.is_string() && setup().model.empty())
      setup().model = value.get<std::string>();
    if (key == "submission_platform" && value.is_string() && setup().system.empty())
      setup().system = without_count(value.get<std::string>());
    return LineUse::kUsed;
  }

  /// "2xDGX H100" is two of a machine, which runs on four have as well.
  static std::string without_count(const std::string& platform) {
    const size_t digits = platform.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string::npos || platform[digits] != 'x') return platform;
    return std::string(core::trim(std::string_view(platform).substr(digits + 1)));
  }

  LineUse read_stats(const LogLine& line, const Json& value, const Json& metadata) {
    const auto stated = number_in(value, {"train_step_timing in s"}),
               seconds = number_in(value, {"train_step_time", "train_step_timing", "train_step_timing in s"});
    if (!seconds) return LineUse::kUsed;
    begin_measurements(line);
    if (!stated) builder_.run().is_unit_guessed = true;
    const auto step = step_of(metadata, value);
    constexpr int64_t kMaxStep = int64_t{1} << 48;
    if (!step || *step > kMaxStep || !(*seconds > 0)) return LineUse::kRejected;
    LogRow row{.step = *step, .step_ms = *seconds * kMsPerSecond};
    row.samples_per_s = number_in(value, {"throughput"}).value_or(record::kUnknown);
    row.loss = number_in(value, {"loss", "train_loss", "reduced_train_loss"}).value_or(record::kUnknown);
    if (const auto batch = known_batch()) row.samples = static_cast<double>(*batch);
    stats_.push_back(
        {.row = row, .rank = line.rank, .time_s = line.time_s, .is_start = std::exchange(is_start_, false)});
    return LineUse::kUsed;
  }

  /// Do the steps of tracked_stats count samples?
  bool are_counts_samples() const {
    const int64_t batch = known_batch().value_or(1);
    if (batch < 2 || std::any_of(stats_.begin(), stats_.end(), [&](const Stats& stats) {
          return stats.row.step == 0 || stats.row.step % batch != 0;
        }))
      return false;
    std::vector<double> needed;  // seconds that the counted steps need, over those that the clock tells
    for (size_t at = 1; at < stats_.size(); ++at) {
      const Stats &stats = stats_[at], &before = stats_[at - 1];
      if (stats.time_s && before.time_s && *stats.time_s > *before.time_s && stats.row.step > before.row.step)
        needed.push_back(static_cast<double>(stats.row.step - before.row.step) * stats.row.step_ms / kMsPerSecond /
                         (*stats.time_s - *before.time_s));
    }
    if (needed.empty()) return false;
    const auto middle = needed.begin() + static_cast<std::ptrdiff_t>(needed.size() / 2);
    std::nth_element(needed.begin(), middle, needed.end());
    return *middle > std::sqrt(static_cast<double>(batch));
  }

  /// Is a time of several steps that of the last one? A mean agrees with the clock better than the line before does.
  bool are_times_of_last_steps(int64_t samples_per_count) const {
    std::vector<double> own, other;  // by which shares the clock's mean differs from these
    for (size_t at = 1; at < stats_.size(); ++at) {
      const Stats &stats = stats_[at], &before = stats_[at - 1];
      const int64_t num_steps = (stats.row.step - before.row.step) / samples_per_count;
      if (num_steps < 2 || stats.is_start || stats.rank != before.rank || !stats.time_s || !before.time_s) continue;
      const double mean_ms = (*stats.time_s - *before.time_s) * kMsPerSecond / static_cast<double>(num_steps);
      own.push_back(std::abs(mean_ms / stats.row.step_ms - 1)),
          other.push_back(std::abs(mean_ms / before.row.step_ms - 1));
    }
    constexpr size_t kEnough = 8;
    if (own.size() < kEnough) return false;
    const auto low = static_cast<std::ptrdiff_t>(own.size() / 4);  // many of the others may hold evaluations
    std::nth_element(own.begin(), own.begin() + low, own.end());
    std::nth_element(other.begin(), other.begin() + low, other.end());
    constexpr double kBetter = 0.5, kAlike = 1e-3, kUnlike = 0.5;  // the last: a clock that is not of these steps
    const double least = own[static_cast<size_t>(low)], least_other = other[static_cast<size_t>(low)];
    return least_other > kAlike && least < kUnlike && least > kBetter * least_other;
  }

  std::optional<int64_t> step_of(const Json& metadata, const Json& value) const {
    for (const Json* place : {&metadata, &value})
      if (const auto step = count_in(*place, {"step", "step_num", "iteration", "iter_num"})) return step;
    const auto samples = count_in(metadata, {"samples_count"});
    if (samples && known_batch() && *samples >= *known_batch()) return *samples / *known_batch() - 1;
    return std::nullopt;
  }

  LineUse read_block(const LogLine& line, bool is_stop, const Json& metadata) {
    begin_measurements(line);
    const auto samples = count_in(metadata, {"samples_count", "first_sample"});
    const int64_t batch = known_batch().value_or(0);
    const auto step = count_in(metadata, {"step", "iteration"});
    const auto done = step ? step : samples && batch > 0 ? std::optional(*samples / batch) : std::nullopt;
    if (!line.time_s) return LineUse::kRejected;
    if (!is_stop) {
      block_start_ = {done, *line.time_s};
      block_num_epochs_ = number_in(metadata, {"epoch_count"}).value_or(0);
      evaluated_s_ = 0;
      return LineUse::kUsed;
    }
    const auto start = std::exchange(block_start_, {});
    if (const double count = std::exchange(block_num_epochs_, 0); count > 0)
      keep_epochs({count, *line.time_s - start.second - evaluated_s_, *line.time_s}, block_epochs_);
    if (!start.first || !done || *done <= *start.first || *line.time_s <= start.second)
      return LineUse::kUsed;  // tells nothing about steps
    const int64_t num_steps = std::min<int64_t>(*done - *start.first, 1'000'000'000);
    Block block{.row = {.step = *done - 1, .num_steps = static_cast<int32_t>(num_steps)}, .time_s = *line.time_s};
    block.row.step_ms = (*line.time_s - start.second) * kMsPerSecond / static_cast<double>(num_steps);
    if (batch > 0) block.row.samples = static_cast<double>(batch);
    blocks_.push_back(block);
    return LineUse::kUsed;
  }

  /// Evaluations inside an epoch are not training.
  LineUse read_epoch(const LogLine& line, bool is_stop) {
    if (is_stop) begin_measurements(line);
    if (!line.time_s) return LineUse::kRejected;
    if (!is_stop) {
      epoch_start_s_ = line.time_s;
      evaluated_s_ = 0;
    } else if (const auto start = std::exchange(epoch_start_s_, {})) {
      keep_epochs({1, *line.time_s - *start - evaluated_s_, *line.time_s}, epochs_);
    }
    return LineUse::kUsed;
  }

  static void keep_epochs(const Epochs& one, std::vector<Epochs>& all) {
    constexpr double kMostEpochs = 1e6;
    if (one.seconds > 0 && one.count <= kMostEpochs) all.push_back(one);
  }

  void read_end(const Json& metadata) {
    const auto found = metadata.is_object() ? metadata.find("status") : metadata.end();
    if (!metadata.is_object() || found == metadata.end() || !found->is_string()) return;
    const std::string status = found->get<std::string>();
    builder_.run().state = status == "success" ? "finished" : "failed";
    if (status != "success") builder_.run().message = fmt::format("run_stop says '{}'", status);
  }

  void read_evaluation(const LogLine& line, const std::string& key, const Json& value, const Json& metadata) {
    if (!value.is_number() || !std::isfinite(value.get<double>())) return;
    const auto step = step_of(metadata, Json());
    builder_.run().results.push_back({.attempt = 1,
                                      .step = step.value_or(0),
                                      .name = "val",
                                      .metrics = {{key, value.get<double>()}},
                                      .ended_s = line.time_s});
  }

  struct Stats {
    LogRow row{};
    std::optional<int> rank{};
    std::optional<double> time_s{};
    bool is_start = false;
  };

  std::vector<Stats> stats_{};
  std::set<int> measured_ranks_{};  // of the present start; -1: lines without a rank
  record::RunSetup before_{};       // of the start before
  bool is_start_ = false;
  std::vector<Block> blocks_{};
  std::pair<std::optional<int64_t>, double> block_start_{};  // steps done and time
  std::vector<Epochs> epochs_{}, block_epochs_{};            // by events of their own, and by blocks
  std::optional<double> train_samples_{}, epoch_start_s_{}, eval_start_s_{};
  double evaluated_s_ = 0, block_num_epochs_ = 0;  // since the start of the epoch or block, and of it
  bool has_evaluations_ = false;
};

}  // namespace

LogReader mlperf_reader() {
  return {.is_own_line = [](std::string_view line) { return line.find(kMlperfMark) != std::string_view::npos; },
          .shape = {.begin = kMlperfMark, .keys = {kMlperfMark}, .end = "}"},
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<MlperfParser>(builder);
          }};
}

}  // namespace lockstep::logs
