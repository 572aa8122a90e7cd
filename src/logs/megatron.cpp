// [2026-05-01 10:11:12] iteration 10/ 500 | consumed samples: 640 | elapsed time per iteration (ms): 812.4 | throughput
// per GPU (TFLOP/s/GPU): 181.2 | learning rate: 1.0E-05 | global batch size: 64 | lm loss: 9.1E+00 | loss scale: 1.0 |
// grad norm: 1.2 | number of skipped iterations: 0 | number of nan iterations: 0 |
//   seq_length ...................................... 4096      between "---- arguments ----" and "---- end of
//   arguments ----"
//  > padded vocab (size: 50257) with 943 dummy tokens (new size: 51200)
// using world size: 64, data-parallel size: 2, context-parallel size: 1, tensor-model-parallel size: 8,
// pipeline-model-parallel size: 4
//
// All values are means over the log interval. Iterations count from 1. Variants: "(s)", "samples per second:",
// "TFLOPs:", "MODEL_TFLOP/s/GPU:".
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/strings.h"
#include "logs/merged.h"
#include "logs/option_dumps.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

constexpr std::string_view kTime = "elapsed time per iteration", kSizes = "using world size";

/// "[2026-05-01 10:11:12] iteration 10/ 500 | consumed", of a writer that died or was interrupted before the time.
bool begins_measurement(std::string_view line) {
  constexpr std::string_view kBegin = "iteration ";
  const size_t at = line.find(kBegin);
  if (at == std::string_view::npos) return false;
  const std::string_view before = core::trim(line.substr(0, at)), behind = core::trim(line.substr(at + kBegin.size()));
  const size_t end = behind.find_first_not_of("0123456789");
  return (before.empty() || before.back() == ']') && end != 0 && end != std::string_view::npos && behind[end] == '/';
}

class MegatronParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.find(kTime) == std::string_view::npos) {
      if (line.text.find(kSizes) != std::string_view::npos || is_list_heading(line.text)) note_start(line);
      if (const size_t at = line.text.find(kSizes); at != std::string_view::npos)
        read_sizes(line.text.substr(at));
      else
        read_option(line.text);
      if (line.text.find("> padded vocab") != std::string_view::npos)
        if (const auto rows = count_after(line.text, "(new size"); rows && *rows > 0) vocab_rows_ = rows;
      read_list(line.text);
      return begins_measurement(line.text) ? LineUse::kRejected : LineUse::kOther;
    }
    const auto iteration = count_after(line.text, "iteration ");
    double unit_ms = 0;
    const auto time = ms_after(line.text, kTime, 1, &unit_ms);
    const size_t last_bar = line.text.rfind('|');
    if (!iteration || *iteration == 0 || !time || last_bar == std::string_view::npos ||
        last_bar < line.text.find(kTime))
      return LineUse::kRejected;
    LogRow row{.step = *iteration - 1, .step_ms = *time, .unit_ms = unit_ms};
    row.samples_seen = number_after(line.text, "consumed samples").value_or(record::kUnknown);
    row.samples_per_s = number_after(line.text, "samples per second").value_or(record::kUnknown);
    for (const std::string_view key : {"(TFLOP/s/GPU)", "MODEL_TFLOP/s/GPU", "TFLOPs"})
      if (const auto tflops = number_after(line.text, key)) row.tflops_per_device = *tflops;
    row.loss =
        number_after(line.text, "lm loss").value_or(number_after(line.text, "| loss").value_or(record::kUnknown));
    const auto batch = count_after(line.text, "global batch size");
    const bool has_batch = batch && *batch > 0;
    if (has_batch) row.samples = static_cast<double>(*batch);
    // Megatron-DeepSpeed, whose curriculum may change it.
    const auto own_length = count_after(line.text, "actual seqlen");
    if (own_length && *own_length > 0 && !known(&record::RunSetup::sequence_length))
      setup().sequence_length = *own_length;
    if (const auto length = own_length ? own_length : known(&record::RunSetup::sequence_length))
      row.tokens = row.samples * static_cast<double>(*length);
    constexpr int64_t kMaxSkipped = 1'000'000'000;
    row.num_skipped = static_cast<int32_t>(
        std::clamp<int64_t>(count_after(line.text, "number of skipped iterations").value_or(0), 0, kMaxSkipped));
    const LineUse use = add(line, row);
    if (use == LineUse::kUsed) {
      count_bad_iterations(line.text), dumps_.count_line();
      if (has_batch) ++lines_of_batch_[*batch];
    }
    is_in_list_ = false;
    return use;
  }

  void finish() override {
    if (setup().sample_unit == "samples") setup().sample_unit = "sequences";
    if (setup().task.empty()) setup().task = "gpt";
    builder_.run().options = dumps_.measured();
    auto& options = builder_.run().options;
    if (vocab_rows_ && !options.empty()) options["padded_vocab_size"] = std::to_string(*vocab_rows_);
    close_start();
  }

 private:
  static bool is_list_heading(std::string_view text) {
    return text.find("- arguments -") != std::string_view::npos && text.find("end of") == std::string_view::npos;
  }

  /// Most lines rule: with --rampup-batch-size the first ones are of smaller batches.
  void take_batch() {
    const auto most = std::max_element(lines_of_batch_.begin(), lines_of_batch_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == lines_of_batch_.end()) return;
    if (lines_of_batch_.size() > 1)
      builder_.run().problems.push_back(
          fmt::format("the global batch changes from {} to {}: its facts are those of {}, which most lines have, and "
                      "step times of different batches are not comparable",
                      lines_of_batch_.begin()->first, lines_of_batch_.rbegin()->first, most->first));
    setup().global_batch = most->first;
    lines_of_batch_.clear();
  }

  void close_start() override {
    take_batch();
    if (is_fp8_) setup().precision = "fp8";
    const bool is_model_split_known = tensor_ > 0 && pipeline_ > 0;
    if (is_model_split_known && setup().layout.empty())
      setup().layout = fmt::format("{}tp={} pp={}{}", data_ > 0 ? fmt::format("dp={} ", data_) : "", tensor_, pipeline_,
                                   context_ > 1 ? fmt::format(" cp={}", context_) : "");
    const int64_t num_replicas = data_ > 0 ? data_
                                 : is_model_split_known
                                     ? known(&record::RunSetup::devices).value_or(0) / tensor_ / pipeline_ / context_
                                     : 0;
    if (!setup().samples_per_device && setup().global_batch && num_replicas > 0 &&
        *setup().global_batch % num_replicas == 0)
      setup().samples_per_device = *setup().global_batch / num_replicas;
    if (!setup().accum && micro_batch_ > 0 && setup().samples_per_device &&
        *setup().samples_per_device % micro_batch_ == 0)
      setup().accum = *setup().samples_per_device / micro_batch_;
    data_ = tensor_ = pipeline_ = micro_batch_ = 0, context_ = 1, is_fp8_ = false;
  }

  void count_bad_iterations(std::string_view text) {
    if (count_after(text, "number of skipped iterations").value_or(0) > 0)
      builder_.count_problem("a log line tells of skipped iterations");
    if (count_after(text, "number of nan iterations").value_or(0) > 0)
      builder_.count_problem("a log line tells of iterations whose loss was not a number");
  }

  /// The line of sizes that rank 0 prints first. Its names are written with "-" or " " between their words, by version.
  void read_sizes(std::string_view text) {
    constexpr std::string_view kUsing = "using ";
    for (const std::string& part : core::split(text.substr(kUsing.size()), ",")) {
      const size_t colon = part.find(':');
      if (colon == std::string::npos) continue;
      const std::string name = core::replace_all(std::string(core::trim(part.substr(0, colon))), " ", "-");
      const std::optional<int64_t> size = positive_count(core::trim(std::string_view(part).substr(colon + 1)));
      if (!size) continue;
      if (name == "world-size" && !setup().devices) setup().devices = size;
      if (name == "data-parallel-size") data_ = *size;
      if (name == "tensor-model-parallel-size") tensor_ = *size;
      if (name == "pipeline-model-parallel-size") pipeline_ = *size;
      if (name == "context-parallel-size") context_ = *size;
    }
  }

  /// All options, between the heading of their list and its end.
  void read_list(std::string_view text) {
    if (text.find("- end of arguments -") != std::string_view::npos) {
      is_in_list_ = false;
    } else if (is_list_heading(text)) {
      is_in_list_ = true;
      dumps_.begin();
    } else if (is_in_list_) {
      if (const auto option = read_dotted_option(text)) dumps_.add(option->name, option->value);
    }
  }

  void read_option(std::string_view text) {
    if (text.find("....") == std::string_view::npos) return;
    const auto take = [&](std::string_view name, std::optional<int64_t>& place) {
      if (const auto value = option_in_dump(text, name); value && !place) place = positive_count(*value);
    };
    const auto take_axis = [&](std::string_view name, int64_t& place) {
      if (const auto value = option_in_dump(text, name)) place = positive_count(*value).value_or(place);
    };
    take("world_size", setup().devices), take("global_batch_size", setup().global_batch),
        take("seq_length", setup().sequence_length);
    take_axis("data_parallel_size", data_), take_axis("tensor_model_parallel_size", tensor_),
        take_axis("pipeline_model_parallel_size", pipeline_);
    take_axis("context_parallel_size", context_), take_axis("micro_batch_size", micro_batch_);
    if (setup().precision.empty())
      for (const std::string_view name : {"bf16", "fp16"})
        if (option_in_dump(text, name) == "True") setup().precision = name;
    if (const auto type = option_in_dump(text, "fp8")) is_fp8_ = *type != "None" && *type != "False";
  }

  int64_t data_ = 0, tensor_ = 0, pipeline_ = 0, context_ = 1, micro_batch_ = 0;
  std::optional<int64_t> vocab_rows_{};          // of the table; the list of options is printed before it is known
  std::map<int64_t, int64_t> lines_of_batch_{};  // of the start
  OptionDumps dumps_{};
  bool is_in_list_ = false, is_fp8_ = false;
};

bool megatron_line_is_torn(std::string_view line) {
  if (line.find(kTime) == std::string_view::npos) return false;
  constexpr std::string_view kLast = "number of nan iterations:";
  const bool has_end = line.find(kLast) != std::string_view::npos || core::ends_with(line, "|");
  return !has_end || !is_number_closed(line, "iteration ", {"/"}) || !is_number_closed(line, kLast, {"|"}) ||
         !are_numbers_closed(line,
                             {"per iteration (ms)", "per iteration (s)", "consumed samples", "global batch size",
                              "lm loss", "samples per second"},
                             {"|"}) ||
         !are_numbers_closed(line, {"(TFLOP/s/GPU)", "MODEL_TFLOP/s/GPU", "TFLOPs", "number of skipped iterations"},
                             {"|"});
}

}  // namespace

LogReader megatron_reader() {
  return {.is_own_line =
              [](std::string_view line) {
                return line.find("iteration ") != std::string_view::npos && line.find(kTime) != std::string_view::npos;
              },
          .shape = {.begin = "] iteration ",
                    .keys = {"consumed samples:", kTime, "global batch size:", "number of nan iterations:"},
                    .end = "|"},
          .is_torn = megatron_line_is_torn,
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<MegatronParser>(builder);
          },
          .dialect = {.task = "gpt",
                      .identity = {"rank", "local-rank", "pretrained-checkpoint", "train-tokens", "iteration",
                                   "data-parallel-size", "encoder-world-size", "rampup-batch-size", "params-dtype",
                                   "transformer-pipeline-model-parallel-size", "context-parallel-size",
                                   "distributed-timeout-minutes"},
                      .identity_prefixes = {"wandb", "tensorboard", "one-logger", "exit-", "consumed-"},
                      .identity_suffixes = {"-port"},
                      .schedule = {"start-weight-decay", "end-weight-decay", "weight-decay-incr-style", "sgd-momentum"},
                      .configuration = {"overlap-grad-reduce", "overlap-param-gather", "use-flash-attn",
                                        "attention-backend", "recompute-activations"}}};
}

}  // namespace lockstep::logs
