// [titan] 2026-06-01 10:11:12,345 - root - INFO - step: 10  loss: 7.1032  grad_norm: 1.9  memory: 41.2GiB(52%)  tps:
// 5,410  tflops: 281.3  mfu: 28.4%
//
// tps counts tokens per second and device. The first line covers one step, the others all since the line before. Steps
// count from 1. A step time is not printed: it follows from tps where batch, sequence length and devices are known (the
// program prints them at its start), else from the time stamps. Behind "validate step: 10  loss: ... tps: ..." the rate
// is counted anew.
//
// Model llama3 8B size: 8,030,261,248 total parameters
// CUDA capacity: NVIDIA H100 80GB HBM3 with 79.18GiB memory
// Peak FLOPS used for computing MFU: 9.890e+14
// Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1, etp=1
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kValidation = "validate step:";

class TorchTitanParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.find(kValidation) != std::string_view::npos) return read_validation(line);
    if (!is_step_line(line.text)) {
      if (is_start_line(line.text)) note_start(line);
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

  void finish() override {
    const bool has_length = setup().sequence_length.has_value();
    close_start();
    if (!has_length) return;
    if (setup().task.empty()) setup().task = "gpt";
    if (setup().sample_unit == "samples") setup().sample_unit = "sequences";
  }

  static bool is_step_line(std::string_view line) {
    return line.find(kValidation) == std::string_view::npos && line.find("step:") != std::string_view::npos &&
           line.find("loss:") != std::string_view::npos &&
           (line.find(" tps:") != std::string_view::npos || line.find(" wps:") != std::string_view::npos);
  }

 private:
  static bool is_start_line(std::string_view text) {
    for (const std::string_view mark : {"device mesh with ", "Trainer is initialized", "total parameters", "GiB memory",
                                        "Peak FLOPS used for computing MFU"})
      if (text.find(mark) != std::string_view::npos) return true;
    return false;
  }

  void close_start() override {
    const auto size = [&](std::string_view axis) {
      const auto found = mesh_.find(axis);
      return found == mesh_.end() ? int64_t{1} : found->second;
    };
    if (setup().layout.empty() && !mesh_.empty()) {
      setup().layout = fmt::format("dp={}", size("dp") * size("dp_replicate") * size("dp_shard"));
      for (const std::string_view axis : {"tp", "pp", "cp"})
        if (size(axis) > 1) setup().layout += fmt::format(" {}={}", axis, size(axis));
    }
    mesh_.clear(), is_peak_known_ = true, last_step_ = -1, last_time_s_.reset();
  }

  void set_time(const LogLine& line, double tokens_per_s_and_device, LogRow& row) {
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
    const auto has = [&](std::string_view words) { return text.find(words) != std::string_view::npos; };
    if (has("Trainer is initialized") || has("Training starts at step")) {  // older versions say the second
      const auto take = [&](std::string_view key, std::optional<int64_t>& place) {
        if (const auto count = count_after(text, key); count && *count > 0 && !place) place = count;
      };
      take("global batch size", setup().global_batch), take("sequence length", setup().sequence_length),
          take("accumulation steps", setup().accum), take("gradient_accumulation_steps", setup().accum);
    }
    if (const size_t at = text.find("device mesh with "); at != std::string_view::npos && mesh_.empty())
      read_mesh(text.substr(at));
    const auto take_text = [&](std::string_view from, std::string_view to, std::string& place) {
      const size_t end = text.find(to), begin = text.substr(0, std::min(end, text.size())).rfind(from);
      if (end != std::string_view::npos && begin != std::string_view::npos && place.empty())
        place = core::trim(text.substr(begin + from.size(), end - begin - from.size()));
    };
    if (text.find("total parameters") != std::string_view::npos) take_text("Model ", " size: ", setup().model);
    if (text.find("GiB memory") != std::string_view::npos) take_text(" capacity: ", " with ", setup().device);
    // For devices that it does not know it takes the peak of another one.
    if (text.find("Peak flops undefined") != std::string_view::npos) is_peak_known_ = false;
    constexpr double kTera = 1e12;
    if (const auto peak = number_after(text, "Peak FLOPS used for computing MFU");
        peak && *peak > 0 && is_peak_known_) {
      setup().peak_tflops_per_device = *peak / kTera;
      setup().peak_source = "the one that torchtitan computes its MFU with";
    }
  }

  LineUse read_validation(const LogLine& line) {
    const auto step = count_after(line.text, kValidation);
    const auto loss = number_after(line.text, "loss:");
    if (!step || !loss) return LineUse::kRejected;
    builder_.run().results.push_back(
        {.attempt = 1, .step = *step, .name = "val", .metrics = {{"loss", *loss}}, .ended_s = line.time_s});
    if (*step - 1 == last_step_) last_time_s_ = line.time_s;
    return LineUse::kUsed;
  }

  /// "device mesh with ['dp_shard', 'tp'], [4, 2]" or, newer, "device mesh with parallelism: pp=1, dp_shard=8, tp=1".
  void read_mesh(std::string_view text) {
    std::map<std::string, int64_t, std::less<>> mesh;
    if (const size_t second = text.find("], ["); second != std::string_view::npos) {
      const size_t first = text.find('[');
      const auto names = core::split(text.substr(first + 1, second - first - 1), ","),
                 sizes = core::split(text.substr(second + 4, text.find(']', second + 4) - second - 4), ",");
      for (size_t at = 0; at < std::min(names.size(), sizes.size()); ++at)
        mesh[core::replace_all(std::string(core::trim(names[at])), "'", "")] = positive_count(sizes[at]).value_or(0);
    } else {
      for (const std::string& part : core::split(text.substr(text.find(':') + 1), ","))
        if (const size_t equals = part.find('='); equals != std::string::npos)
          mesh[std::string(core::trim(part.substr(0, equals)))] = positive_count(part.substr(equals + 1)).value_or(0);
    }
    int64_t devices = 1;
    constexpr int64_t kMaxDevices = 10'000'000;
    for (const auto& [axis, size] : mesh) {
      if (axis == "ep" || axis == "etp") continue;  // over the devices of the other axes
      if (size == 0 || size > kMaxDevices || devices > kMaxDevices) return;
      devices *= size;
    }
    if (mesh.empty()) return;
    mesh_ = std::move(mesh);
    if (!setup().devices) setup().devices = devices;
  }

  std::map<std::string, int64_t, std::less<>> mesh_{};  // by axis
  bool is_peak_known_ = true;
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
