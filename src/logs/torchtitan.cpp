// [titan] 2026-06-01 10:11:12,345 - root - INFO - step: 10  loss: 7.1032  grad_norm: 1.9  memory: 41.2GiB(52%)  tps:
// 5,410  tflops: 281.3  mfu: 28.4%
//
// tps counts tokens per second and device. The first line covers one step, the others all since the line before. Steps
// count from 1. A step time is not printed: it follows from tps where batch, sequence length and devices are known (the
// program prints them at its start), else from the time stamps.
#include <cmath>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

class TorchTitanParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (!is_step_line(line.text)) {
      read_start(line.text);
      return LineUse::kOther;
    }
    const auto step = count_after(line.text, "step:");
    const auto rate = number_after(line.text, line.text.find(" tps:") != std::string_view::npos ? " tps:" : " wps:");
    if (!step || *step == 0 || !rate || *rate <= 0) return LineUse::kRejected;
    LogRow row{.step = *step - 1, .first_num_steps = 1};
    row.loss = number_after(line.text, "loss:").value_or(record::kUnknown);
    row.tflops_per_device = number_after(line.text, "tflops:").value_or(record::kUnknown);
    set_time(line, *rate, row);
    if (std::isnan(row.step_ms)) return LineUse::kOther;
    return add(line, row);
  }

  static bool is_step_line(std::string_view line) {
    return line.find("step:") != std::string_view::npos && line.find("loss:") != std::string_view::npos &&
           (line.find(" tps:") != std::string_view::npos || line.find(" wps:") != std::string_view::npos);
  }

 private:
  void set_time(const LogLine& line, double tokens_per_s_and_device, LogRow& row) {
    constexpr double kMsPerSecond = 1000;
    const auto previous_step = std::exchange(last_step_, row.step);
    const auto previous_time = std::exchange(last_time_s_, line.time_s);
    const auto batch = known_batch(), length = known(&record::RunSetup::sequence_length),
               devices = known(&record::RunSetup::devices);
    if (batch && length && devices) {
      row.samples = static_cast<double>(*batch);
      row.tokens = row.samples * static_cast<double>(*length);
      row.step_ms = row.tokens / static_cast<double>(*devices) / tokens_per_s_and_device * kMsPerSecond;
    } else if (previous_time && line.time_s && row.step > previous_step && *line.time_s > *previous_time) {
      row.step_ms = (*line.time_s - *previous_time) * kMsPerSecond / static_cast<double>(row.step - previous_step);
      builder_.count_problem(
          "batch, sequence length or devices are unknown: step times are differences of time stamps");
    } else {
      builder_.count_problem(
          "a line was left out: without batch, sequence length and devices (--meta) the first step has no time");
    }
  }

  void read_start(std::string_view text) {
    if (text.find("Trainer is initialized") != std::string_view::npos) {
      const auto take = [&](std::string_view key, std::optional<int64_t>& place) {
        if (const auto count = count_after(text, key); count && *count > 0 && !place) place = count;
      };
      take("global batch size", setup().global_batch), take("sequence length", setup().sequence_length),
          take("accumulation steps", setup().accum);
      builder_.start_attempt();
    }
    if (const size_t at = text.find("device mesh with ["); at != std::string_view::npos && !setup().devices)
      read_mesh(text.substr(at));
  }

  /// "device mesh with ['dp_shard', 'tp'], [4, 2]"
  void read_mesh(std::string_view text) {
    const size_t second = text.find("], [");
    if (second == std::string_view::npos) return;
    int64_t devices = 1;
    constexpr int64_t kMaxDevices = 10'000'000;
    for (const std::string& part : core::split(text.substr(second + 4, text.find(']', second + 4) - second - 4), ",")) {
      const auto size = positive_count(part);
      if (!size || *size > kMaxDevices || devices > kMaxDevices) return;
      devices *= *size;
    }
    setup().devices = devices;
  }

  int64_t last_step_ = -1;
  std::optional<double> last_time_s_{};
};

/// Behind a number the next name comes; only the TFLOP/s may end the line.
bool torchtitan_line_is_torn(std::string_view line) {
  if (!TorchTitanParser::is_step_line(line)) return false;
  return !is_number_closed(line, "step:", {"loss:"}) ||
         !is_number_closed(line, "loss:", {"grad_norm:", "global_", "memory:", "tps:", "wps:"}) ||
         !are_numbers_closed(line, {" tps:", " wps:"}, {"tflops:", "mfu:"}) ||
         !is_number_closed(line, "tflops:", {"mfu:", kLineEnd});
}

}  // namespace

LogReader torchtitan_reader() {
  return {.is_own_line = TorchTitanParser::is_step_line,
          .shape = {.begin = "step:", .keys = {"step:", "memory:", "tflops:", "mfu:"}, .end = "%"},
          .is_torn = torchtitan_line_is_torn,
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<TorchTitanParser>(builder);
          }};
}

}  // namespace lockstep::logs
