// [Rank 0] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=120.5, CurrSamplesPerSec=121.9,
// MemAllocated=1.2GB, MaxMemAllocated=3.4GB comm op: all_reduce | time (ms): 1.23 | msg size: 25.0 MB | algbw (Gbps):
// 170.5 | busbw (Gbps): 298.4
//
// CurrSamplesPerSec is the last step's rate; RunningAvg is a mean since step 2 and hides what changes. So a line stands
// for one step, of the batch over the current rate, though it is printed every steps_per_print steps only. The batch
// must be known (the program prints "train_batch_size"). Steps count from 1. The bandwidths of the comms logger are not
// used: they were wrong in some versions; size and time are kept.
//
// [2026-01-31 12:00:00,000] [INFO] [config.py:1000:print]   zero_optimization_stage ...... 2
//
// Dots fill a name up to 29 characters; longer ones have none.
#include <cmath>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kRate = "CurrSamplesPerSec", kComm = "comm op:";

class DeepSpeedParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.find(kComm) != std::string_view::npos) return read_collective(line.text);
    if (line.text.find(kRate) != std::string_view::npos) return read_step(line);
    if (is_option_of_start(line.text)) note_start(line);
    read_option(line.text);
    return LineUse::kOther;
  }

  void finish() override {
    close_start();
    for (auto& [key, total] : totals_) builder_.run().collectives.push_back(std::move(total));
  }

 private:
  void close_start() override {
    if (!setup().samples_per_device && micro_batch_ && setup().accum)
      setup().samples_per_device = *micro_batch_ * *setup().accum;
    if (setup().precision.empty() && (is_bf16_ || is_fp16_))
      setup().precision = is_bf16_.value_or(false) ? "bf16" : is_fp16_.value_or(false) ? "fp16" : "fp32";
    micro_batch_.reset(), is_bf16_.reset(), is_fp16_.reset();
  }

  /// One of the configuration that tells a size.
  static bool is_option_of_start(std::string_view text) {
    if (text.find("train_micro_batch_size_per_gpu") != std::string_view::npos) return true;
    for (const std::string_view name : {"train_batch_size", "world_size", "gradient_accumulation_steps",
                                        "zero_optimization_stage", "bfloat16_enabled", "fp16_enabled"})
      if (option_in_dump(text, name)) return true;
    return false;
  }

  /// A line of the configuration that is printed at the start.
  void read_option(std::string_view text) {
    const auto take = [&](std::string_view name, std::optional<int64_t>& place) {
      if (const auto value = option_in_dump(text, name); value && !place) place = positive_count(*value);
    };
    take("train_batch_size", setup().global_batch), take("world_size", setup().devices),
        take("gradient_accumulation_steps", setup().accum);
    constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
    if (const size_t at = text.find(kMicroBatch); at != std::string_view::npos && !micro_batch_)
      micro_batch_ = positive_count(text.substr(at + kMicroBatch.size()));
    const auto take_switch = [&](std::string_view name, std::optional<bool>& place) {
      if (const auto value = option_in_dump(text, name)) place = *value == "True";
    };
    take_switch("bfloat16_enabled", is_bf16_), take_switch("fp16_enabled", is_fp16_);
    if (const auto stage = option_in_dump(text, "zero_optimization_stage"))
      if (const auto number = core::parse_int(*stage)) setup().tags["zero_stage"] = std::to_string(*number);
  }

  LineUse read_step(const LogLine& line) {
    const auto step = count_after(line.text, "global_step=");
    const auto rate = number_after(line.text, kRate);
    if (!step || *step == 0 || !rate || *rate <= 0) return LineUse::kRejected;
    if (!known_batch()) {
      builder_.count_problem("a line was left out: without the global batch (--meta) a rate is no step time");
      return LineUse::kOther;
    }
    const auto batch = static_cast<double>(*known_batch());
    LogRow row{.step = *step - 1,
               .num_steps = 1,
               .step_ms = batch / *rate * kMsPerSecond,
               .samples = batch,
               .samples_per_s = *rate};
    constexpr int64_t kMaxEpoch = 1'000'000'000;
    if (const auto epoch = count_after(line.text, "epoch="); epoch && *epoch < kMaxEpoch)
      row.epoch = static_cast<int32_t>(*epoch);
    return add(line, row);
  }

  LineUse read_collective(std::string_view text) {
    std::string_view behind_size;
    const auto time = ms_after(text, "| time", 1);
    const auto size = number_after(text, "msg size", &behind_size);
    const std::string_view kind = text.substr(text.find(kComm) + kComm.size());
    const size_t kind_end = kind.find('|');
    if (!time || !size || *size < 0 || kind_end == std::string_view::npos) return LineUse::kRejected;
    record::CollectiveTotal total{.kind = std::string(core::trim(kind.substr(0, kind_end))),
                                  .axis = "world",
                                  .bytes = *size * unit_of(behind_size),
                                  .count = 1,
                                  .time_ms = *time};
    if (total.kind.empty() || !std::isfinite(total.bytes)) return LineUse::kRejected;
    total.group_size =
        static_cast<int>(std::min<int64_t>(known(&record::RunSetup::devices).value_or(1), 1'000'000'000));
    const auto [place, is_new] = totals_.try_emplace({total.kind, total.bytes}, total);
    if (!is_new) {
      ++place->second.count;
      place->second.time_ms += *time;
    }
    return LineUse::kUsed;
  }

  /// Bytes of "KB", "MB", "GB": powers of 1024 here.
  static double unit_of(std::string_view text) {
    constexpr double kKibi = 1024;
    text = core::trim(text);
    if (text.empty()) return 1;
    switch (text.front()) {
      case 'K': return kKibi;
      case 'M': return kKibi * kKibi;
      case 'G': return kKibi * kKibi * kKibi;
      default: return 1;
    }
  }

  std::map<std::pair<std::string, double>, record::CollectiveTotal> totals_{};
  std::optional<int64_t> micro_batch_{};
  std::optional<bool> is_bf16_{}, is_fp16_{};
};

bool deepspeed_line_is_torn(std::string_view line) {
  if (line.find(kComm) != std::string_view::npos)
    return !is_number_closed(line, "time (ms)", {"|"}) || !is_number_closed(line, "msg size", {"B", "KB", "MB", "GB"});
  return !is_number_closed(line, "global_step=", {","}) || !is_number_closed(line, kRate, {","});
}

}  // namespace

LogReader deepspeed_reader() {
  return {.is_own_line =
              [](std::string_view line) {
                return line.find(kRate) != std::string_view::npos || line.find(kComm) != std::string_view::npos;
              },
          .shape = {.begin = "epoch=", .keys = {"epoch=", "global_step=", kRate, "MaxMemAllocated="}, .end = "B"},
          .is_torn = deepspeed_line_is_torn,
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<DeepSpeedParser>(builder);
          }};
}

}  // namespace lockstep::logs
