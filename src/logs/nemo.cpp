// Epoch 0: :  50%|#####     | 50/100 [03:59<03:59, reduced_train_loss=7.310, global_step=49.00,
// consumed_samples=12800.0, train_step_timing in s=3.590] Training epoch 0, iteration 9/99 | lr: 0.0003 |
// global_batch_size: 128 | global_step: 9 | reduced_train_loss: 11.03 | train_step_timing in s: 4.51 |
// consumed_samples: 1280
//
// A bar tells the timing of one step (the last). It is drawn again and again: of lines with one step the slowest
// counts. A line holds means since the line before, of consumed_samples too; its batch is given. global_step is from 0.
//
// All distributed processes registered. Starting with 8 processes
//   num_nodes: 2                             of the configuration, before the first step
#include <fmt/format.h>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/option_dumps.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kNemoMark = "train_step_timing", kNemoLine = "poch ",
                           kProcesses = "processes registered. Starting with ";

/// "50/100 [": steps done, of a bar that names no global_step.
std::optional<int64_t> steps_of_bar(std::string_view line) {
  const size_t bar = line.find("| ");
  if (bar == std::string_view::npos) return std::nullopt;
  std::string_view rest;
  const auto done = count_after(line.substr(bar), "| ", &rest);
  return done && core::starts_with(rest, "/") ? done : std::nullopt;
}

class NemoParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.find(kNemoMark) == std::string_view::npos) {
      if (line.text.find(kProcesses) != std::string_view::npos && builder_.is_restart(line))
        note_start(line), is_measuring_ = false;
      if (!is_measuring_) read_start(line.text);
      return LineUse::kOther;
    }
    double unit_ms = 0;
    const auto time = ms_after(line.text, kNemoMark, kMsPerSecond, &unit_ms);
    auto step = count_after(line.text, "global_step");
    if (!step) step = count_after(line.text, "iteration ");
    if (!step)
      if (const auto done = steps_of_bar(line.text)) step = *done - 1;
    if (!time || !step || *step < 0) return LineUse::kRejected;
    const bool is_mean = line.text.find(", iteration ") != std::string_view::npos;
    LogRow row{.step = *step, .num_steps = is_mean ? 0 : 1, .step_ms = *time, .unit_ms = unit_ms};
    constexpr int64_t kMaxEpoch = 1'000'000'000;
    if (const auto epoch = count_after(line.text, kNemoLine); epoch && *epoch < kMaxEpoch)
      row.epoch = static_cast<int32_t>(*epoch);
    row.loss = number_after(line.text, "reduced_train_loss").value_or(record::kUnknown);
    if (!is_mean) row.samples_seen = number_after(line.text, "consumed_samples").value_or(record::kUnknown);
    row.tflops_per_device = number_after(line.text, "TFLOPS_per_GPU").value_or(record::kUnknown);
    learn_batch(line.text, row);
    if (const auto batch = known_batch()) row.samples = static_cast<double>(*batch);
    is_measuring_ = true;
    return add(line, row);
  }

  void finish() override { close_start(); }

 private:
  void close_start() override {
    const auto devices = known(&record::RunSetup::devices);
    const int64_t split = tensor_ * pipeline_ * context_;
    if (tensor_ > 0 && pipeline_ > 0 && setup().layout.empty())
      setup().layout = fmt::format("{}tp={} pp={}{}",
                                   devices && *devices % split == 0 ? fmt::format("dp={} ", *devices / split) : "",
                                   tensor_, pipeline_, context_ > 1 ? fmt::format(" cp={}", context_) : "");
    if (tensor_ > 0 && setup().sequence_length) {  // a language model's configuration
      if (setup().task.empty()) setup().task = "gpt";
      if (setup().sample_unit == "samples") setup().sample_unit = "sequences";
    }
    const int64_t per_pass = devices && split > 0 ? micro_batch_ * (*devices / split) : 0;
    if (const auto batch = known_batch(); !setup().accum && batch && per_pass > 0 && *batch % per_pass == 0)
      setup().accum = *batch / per_pass;
    micro_batch_ = tensor_ = pipeline_ = 0, context_ = 1;
  }

  /// What Lightning says before the first step, and the configuration that NeMo prints.
  void read_start(std::string_view text) {
    const auto take = [](std::optional<int64_t> count, std::optional<int64_t>& place) {
      if (count && *count > 0 && !place) place = count;
    };
    take(count_after(text, kProcesses), setup().devices);
    if (text.find("MLLOG") != std::string_view::npos) return;
    const auto option = read_colon_option(text);
    if (!option) return;
    const auto take_option = [&](std::string_view name, std::optional<int64_t>& place) {
      if (option->name == name) take(positive_count(option->value), place);
    };
    take_option("num_nodes", setup().nodes), take_option("global_batch_size", setup().global_batch);
    take_option("encoder_seq_length", setup().sequence_length), take_option("seq_length", setup().sequence_length);
    const auto take_size = [&](std::string_view name, int64_t& place) {
      if (option->name == name) place = positive_count(option->value).value_or(place);
    };
    take_size("micro_batch_size", micro_batch_), take_size("context_parallel_size", context_);
    take_size("tensor_model_parallel_size", tensor_), take_size("pipeline_model_parallel_size", pipeline_);
    const std::string precision = core::replace_all(std::string(option->value), "'", "");
    if (option->name == "precision" && setup().precision.empty() && precision != "null") setup().precision = precision;
  }

  /// The batch: given, or the samples consumed over the steps done.
  void learn_batch(std::string_view text, const LogRow& row) {
    if (setup().global_batch) return;
    if (const auto batch = count_after(text, "global_batch_size"); batch && *batch > 0) {
      setup().global_batch = batch;
      return;
    }
    const auto consumed = count_after(text, "consumed_samples");
    if (consumed && *consumed > 0 && *consumed % (row.step + 1) == 0) setup().global_batch = *consumed / (row.step + 1);
  }

  int64_t micro_batch_ = 0, tensor_ = 0, pipeline_ = 0, context_ = 1;  // 0: unknown
  bool is_measuring_ = false;  // behind the first measurement of a start options are not read
};

/// The number of a bar ends at a comma or at the bar's bracket, that of a line of fields at a bar or with the line.
bool nemo_line_is_torn(std::string_view line) {
  if (line.find(kNemoMark) == std::string_view::npos) return false;
  const bool is_bar = line.find("%|") != std::string_view::npos || steps_of_bar(line);
  if (is_bar && line.find(']', line.find(kNemoMark)) == std::string_view::npos) return true;
  for (const std::string_view key : {"reduced_train_loss", "global_step", "consumed_samples", "global_batch_size",
                                     "TFLOPS_per_GPU", "train_step_timing in s", "train_step_timing in ms"})
    if (!(is_bar ? is_number_closed(line, key, {",", "]"}) : is_number_closed(line, key, {",", "|", kLineEnd})))
      return true;
  return !is_number_closed(line, kNemoMark, {",", "]", "|", "s", "ms", kLineEnd});
}

}  // namespace

LogReader nemo_reader() {
  return {
      .is_own_line =
          [](std::string_view line) {
            return line.find(kNemoMark) != std::string_view::npos && line.find(":::MLLOG") == std::string_view::npos;
          },
      .shape = {.begin = "Epoch ", .keys = {"reduced_train_loss", "global_step", kNemoMark}, .end = "]"},
      .is_torn = nemo_line_is_torn,
      .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> { return std::make_unique<NemoParser>(builder); }};
}

}  // namespace lockstep::logs
