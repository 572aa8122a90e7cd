#include "predict/table_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/csv_table.h"
#include "core/error.h"
#include "core/strings.h"
#include "predict/told_text.h"
#include "published/flat_rates.h"
#include "published/rate_names.h"

namespace lockstep::predict {
namespace {

using published::FormulaContext;

/// What a speed counts.
enum class SpeedKind { kStepTime, kSteps, kSamples, kTokens, kTflops, kRelative };
/// Whose speed it is.
enum class SpeedOf { kAll, kNode, kDevice };

/// How to read one column.
struct Speed {
  std::string column{};
  SpeedKind kind = SpeedKind::kSamples;
  SpeedOf of = SpeedOf::kAll;
  bool is_time = false;  ///< Time of a fixed amount of work: the speed is its inverse.
  double scale = 1;      ///< To the unit of the kind.
  bool has_unit = true;  ///< Else a time in seconds, probably.
};

constexpr double kTypicalSequence = 2048, kTypicalTextLength = 256, kTypicalGlobalTokens = 1e6,
                 kTypicalLocalTokens = 16384;
constexpr const char* kOtherModels[] = {"resnet", "bert", "vit", "clip", "clap", "vgg", "inception", "alexnet"};
constexpr double kSameBatch = 0.02;  // batches may be rounded
constexpr double kTypicalGlobalSamples = 4096, kTypicalLocalSamples = 128;

bool has_word(const std::string& name, std::string_view word) {
  return ("_" + name + "_").find("_" + std::string(word) + "_") != std::string::npos;
}
bool has_any(const std::string& name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return has_word(name, word); });
}

bool is_per_second(const std::string& name) {
  return has_any(name, {"s", "sec", "second", "seconds"}) || core::ends_with(name, "ps");
}

SpeedOf owner_of(const std::string& name) {
  if (has_word(name, "node")) return SpeedOf::kNode;
  return has_any(name, {"gpu", "device", "gcd", "chip", "accelerator", "rank", "card"}) ? SpeedOf::kDevice
                                                                                        : SpeedOf::kAll;
}

/// "s/epoch", "min per epoch"; "epochs/s" is none.
bool is_time_per_epoch(const std::string& name) {
  const std::vector<std::string> words = core::split(name, "_");
  constexpr std::string_view kUnits[] = {"ms",   "s",      "sec", "secs", "second", "min",
                                         "mins", "minute", "h",   "hr",   "hrs",    "hour"};
  return words.size() > 1 && words.back() == "epoch" &&
         std::find(std::begin(kUnits), std::end(kUnits), words.front()) != std::end(kUnits);
}

/// "Step latency", "ms per image", "time/token": the time of one.
std::optional<Speed> speed_of_one(const std::string& column, const published::SpeedName& name) {
  const SpeedOf of = name.is_of_device ? SpeedOf::kDevice : SpeedOf::kAll;
  const bool has_unit = name.unit_s > 0;
  if (name.counted == published::Counted::kStep)
    return Speed{
        .column = column, .kind = SpeedKind::kStepTime, .scale = has_unit ? name.unit_s : 1, .has_unit = has_unit};
  if (!has_unit) return Speed{column, SpeedKind::kRelative, of, true};
  const SpeedKind kind = name.counted == published::Counted::kToken ? SpeedKind::kTokens : SpeedKind::kSamples;
  return Speed{column, kind, of, true, name.unit_s};
}

/// Speeds whose names follow a pattern: "img/s per node", "time per epoch (min)", "steps/sec", "aggregate PFLOP/s".
std::optional<Speed> speed_of_name(const std::string& column) {
  const std::string name = core::plain_name(column);
  const SpeedOf of = owner_of(name);
  const published::SpeedName told = published::read_speed_name(column);
  if (told.told == published::ToldSpeed::kUnclear) return std::nullopt;
  if (told.told == published::ToldSpeed::kTime) return speed_of_one(column, told);
  if (has_any(name, {"tflop", "tflops", "teraflop", "teraflops"})) return Speed{column, SpeedKind::kTflops, of};
  if (has_any(name, {"pflop", "pflops", "petaflop", "petaflops"}))
    return Speed{.column = column, .kind = SpeedKind::kTflops, .of = of, .scale = 1000};
  if (is_time_per_epoch(name)) return Speed{column, SpeedKind::kRelative, SpeedOf::kAll, true};
  if (published::is_step_time_without_unit(column))
    return Speed{.column = column, .kind = SpeedKind::kStepTime, .has_unit = false};
  const bool is_duration = has_any(name, {"time", "duration", "runtime", "walltime", "elapsed", "hours", "minutes"}) ||
                           core::starts_with(name, "seconds_per");
  if (is_duration && has_any(name, {"epoch", "train", "training", "total", "run", "runtime", "walltime", "elapsed",
                                    "solution", "wall", "hours", "minutes"}))
    return Speed{column, SpeedKind::kRelative, SpeedOf::kAll, true};
  if (is_duration) return std::nullopt;
  const published::RateName rate = published::parse_rate_name(column);
  if (rate.has_period) {
    using published::RateThing;
    if (rate.thing == RateThing::kSteps) return Speed{.column = column, .kind = SpeedKind::kSteps, .scale = rate.scale};
    if (rate.thing == RateThing::kTokens || rate.thing == RateThing::kSamples)
      return Speed{.column = column,
                   .kind = rate.thing == RateThing::kTokens ? SpeedKind::kTokens : SpeedKind::kSamples,
                   .of = of,
                   .scale = rate.scale};
  }
  if (!core::ends_with(name, "ps")) return std::nullopt;
  if (has_any(name, {"tokens", "token", "tok", "toks"})) return Speed{column, SpeedKind::kTokens, of};
  if (has_any(name, {"samples", "sample", "images", "image", "imgs", "img", "sequences", "sequence", "seqs", "seq",
                     "pairs", "examples", "sentences", "clips"}))
    return Speed{column, SpeedKind::kSamples, of};
  return std::nullopt;
}

/// A name that begins or ends with the word: "Throughput - FP32", "TF32 Throughput"; not what nobody measured, nor the
/// throughput of a part of the machine.
bool is_called_throughput(const std::string& name) {
  return (core::starts_with(name, "throughput") || core::ends_with(name, "_throughput")) &&
         !has_any(name, {"ideal", "linear", "theoretical", "expected", "memory", "network", "disk", "storage", "io"});
}

/// A throughput of something else than samples, tokens, steps or FLOPs: "throughput [GB/s]", "Throughput (jobs per
/// day)".
bool names_other_unit(const std::string& column) {
  if (!is_called_throughput(core::plain_name(column))) return false;
  const std::string name = core::plain_name(column);
  const published::RateName rate = published::parse_rate_name(column);
  if (rate.thing != published::RateThing::kNone) return false;
  return is_per_second(name) ||
         has_any(name, {"min", "minute", "minutes", "h", "hr", "hour", "hours", "day", "days"}) ||
         has_any(name, {"gb", "gib", "mb", "mib", "tb", "tib", "kb", "bytes", "byte", "gbit", "mbit", "bits", "bit"});
}

/// "Throughput - FP32", "throughput per node", "TF32 Throughput": of samples, since it names no unit.
std::optional<Speed> speed_without_unit(const std::string& column) {
  const std::string name = core::plain_name(column);
  const bool is_ratio = has_any(name, {"speedup", "speed", "up", "scaling", "efficiency", "ratio"});
  if (!is_called_throughput(name) || is_ratio || names_other_unit(column)) return std::nullopt;
  return Speed{.column = column,
               .kind = SpeedKind::kSamples,
               .of = owner_of(name),
               .scale = published::parse_rate_name(column).scale};
}

/// "HFU (%)": with what is computed again, which is the same at every size.
bool is_hardware_utilisation(const std::string& column) {
  const std::string name = core::plain_name(column);
  return has_word(name, "hfu") || core::starts_with(name, "hardware_flops_util") ||
         core::starts_with(name, "hardware_flop_util");
}

/// Every field of the column a number above zero.
bool is_usable(const FormulaContext& context, const std::string& column) {
  const size_t index = context.table.column(column);
  return std::all_of(context.table.rows.begin(), context.table.rows.end(), [&](const auto& row) {
    const auto value = core::parse_double(row[index]);
    return value && *value > 0;
  });
}

/// The columns that tell most: times and rates before what follows from them. Several only where no known name singles
/// out one of them.
std::vector<Speed> find_speeds(const FormulaContext& context) {
  using enum SpeedKind;
  const Speed kKnown[] = {{"step_time_s", kStepTime},
                          {"samples_per_s", kSamples},
                          {"tokens_per_s", kTokens},
                          {"samples_per_s_per_gpu", kSamples, SpeedOf::kDevice},
                          {"tokens_per_s_per_gpu", kTokens, SpeedOf::kDevice},
                          {"tflops_per_gpu", kTflops, SpeedOf::kDevice}};
  for (const Speed& speed : kKnown)
    if (context.has(speed.column.c_str())) return {speed};
  for (const auto& read : {speed_of_name, speed_without_unit}) {
    std::vector<Speed> best;
    for (const std::string& column : context.table.columns) {
      const auto speed = read(column);
      if (!speed || !is_usable(context, column)) continue;
      if (!best.empty() && speed->kind < best.front().kind) best.clear();
      const bool is_like = best.empty() || (speed->kind == best.front().kind && speed->of == best.front().of &&
                                            speed->kind != kRelative && speed->scale == best.front().scale);
      if (is_like) best.push_back(*speed);
    }
    if (!best.empty()) return best;
  }
  for (const std::string& column : context.table.columns)
    if (is_hardware_utilisation(column) && !context.has("mfu_pct") && is_usable(context, column))
      return {{column, kRelative, SpeedOf::kDevice}};
  const Speed kDerived[] = {{"mfu_pct", kRelative, SpeedOf::kDevice},
                            {"speedup", kRelative, SpeedOf::kAll},
                            {"efficiency_pct", kRelative, SpeedOf::kDevice}};
  for (const Speed& speed : kDerived)
    if (context.has(speed.column.c_str()) && is_usable(context, speed.column)) return {speed};
  return {};
}

/// In a column, else what the text told.
std::optional<double> sequence_length(const FormulaContext& context, size_t row, std::optional<double> told) {
  const auto of_table = published::sequence_length(context, row);
  return of_table ? of_table : told;
}

/// A batch that says whose it is, or does not, in samples; nothing where no column is such.
struct BatchColumn {
  std::string name{};
  double scale = 1;
  double at(const FormulaContext& context, size_t row) const { return scale * context.table.number(row, name); }
};
std::optional<BatchColumn> find_batch(const FormulaContext& context, published::BatchOf of) {
  for (const std::string& column : context.table.columns) {
    const published::BatchName batch = published::read_batch_name(column);
    if (batch.of == of && !batch.is_in_tokens && is_usable(context, column)) return BatchColumn{column, batch.scale};
  }
  return std::nullopt;
}

/// Is a batch that does not say whose it is that of all devices, by the rate and the step time of the same row?
bool is_batch_of_rate(const FormulaContext& context, double batch, size_t row) {
  constexpr double kRounded = 0.1;
  if (!context.has("samples_per_s") || !context.has("step_time_s")) return false;
  const double samples = context.at(row, "samples_per_s").value * context.at(row, "step_time_s").value;
  return std::fabs(samples / batch - 1) < kRounded;
}

/// A column "batch" or "mini-batch size", which may be of a device or of all: of all where it differs between the rows,
/// is more than a device works on, or is what the devices do together.
std::optional<double> doubtful_batch(const FormulaContext& context, const std::vector<size_t>& rows, size_t row,
                                     double devices_per_node, double most_local, bool is_strong) {
  const auto batch = find_batch(context, published::BatchOf::kUnsaid);
  if (!batch) return std::nullopt;
  const double first = batch->at(context, rows.front()), last = batch->at(context, rows.back());
  const bool is_one_device = devices_at(context, devices_per_node, rows.front()) == 1;
  const bool is_of_rate = !is_one_device && is_batch_of_rate(context, first, rows.front());
  const bool is_global = is_strong || first != last || first > most_local || is_of_rate;
  const double value = batch->at(context, row);
  return is_global ? value / devices_at(context, devices_per_node, row) : value;
}

/// Passes of a step whose gradients are added up; 1 where no column tells them.
double accumulation_steps(const FormulaContext& context, size_t row) {
  const bool is_told = context.has("accumulation_steps") && is_usable(context, "accumulation_steps");
  return is_told ? context.table.number(row, "accumulation_steps") : 1;
}

/// Tokens of a device and step from a column that counts a batch in tokens; that of a device is run several times where
/// gradients are accumulated.
std::optional<double> batch_tokens(const FormulaContext& context, size_t row, double devices, double devices_per_node) {
  for (const std::string& column : context.table.columns) {
    if (!counts_batch_in_tokens(column) || !is_usable(context, column)) continue;
    const published::BatchName batch = published::read_batch_name(column);
    const double tokens = batch.scale * context.table.number(row, column);
    if (is_batch_of_device(column)) return tokens * accumulation_steps(context, row);
    return batch.of == published::BatchOf::kNode ? tokens / devices_per_node : tokens / devices;
  }
  return std::nullopt;
}

/// What is known of one row before the speeds are read.
struct RowBatch {
  std::optional<double> samples{}, tokens{}, sequence{};
  bool is_in_words = false;  ///< No column tells it, the text does.
};

class Reader {
 public:
  Reader(const FormulaContext& context, const std::vector<size_t>& rows, size_t num_known, const TableRequest& request,
         const WorkFacts& work, const std::optional<Machine>& machine, double devices_per_node, const std::string& text)
      : context_(context), rows_(rows), num_known_(num_known), request_(request), work_(work), machine_(machine),
        devices_per_node_(devices_per_node), text_(text), told_(told_batch(text)), told_sequence_(told_sequence(text)) {
    check_speeds(context);
    const std::vector<Speed> speeds = find_speeds(context);
    const auto wanted =
        std::find_if(speeds.begin(), speeds.end(), [&](const Speed& speed) { return speed.column == request.speed; });
    speed_ = wanted != speeds.end() ? *wanted : speeds.front();
  }

  CurveSteps read() {
    if (!speed_.has_unit) take_seconds();
    is_told_strong_ = request_.is_strong.value_or(says_strong());
    is_told_weak_ = says_weak();
    take_whole_times();
    has_falling_steps_ = !is_told_weak_ && !request_.is_strong && gain().value_or(1) > published::kLeastGainOfEqualWork;
    for (const size_t row : rows_) batches_.push_back(batch_of(row));
    note_falling_steps();
    if (batches_.front().is_in_words) steps_.told_batch = told_fact();
    const bool has_batches =
        std::all_of(batches_.begin(), batches_.end(), [](const RowBatch& one) { return one.samples || one.tokens; });
    if (!has_batches) {
      for (RowBatch& batch : batches_) batch.samples.reset(), batch.tokens.reset();
      set_scaling();
    }
    has_growing_work_ = is_time_of_growing_work(has_batches);
    note_constant_rates();
    for (size_t i = 0; i < rows_.size(); ++i) steps_.rows.push_back(step_of(i));
    set_rate();
    note_contradicted_flags(has_batches);
    steps_.has_batches = has_batches;
    steps_.is_strong = !has_batches && is_told_strong_;
    set_clock(has_batches);
    return std::move(steps_);
  }

 private:
  double devices(size_t row) const { return devices_at(context_, devices_per_node_, row); }

  /// Times without a unit are seconds, unless that would be a very long step.
  void take_seconds() {
    constexpr double kLongStep = 100;
    const std::string& given = context_.given_name(speed_.column.c_str());
    size_t least = rows_.front();
    for (const size_t row : std::span(rows_).first(std::max<size_t>(1, num_known_)))
      if (context_.table.number(row, speed_.column) < context_.table.number(least, speed_.column)) least = row;
    if (context_.table.number(least, speed_.column) >= kLongStep)
      throw DataError(
          fmt::format("predict: '{}' line {}, column '{}': {} names no unit, and seconds would be a long step",
                      context_.table.source.string(), context_.table.lines[least], given,
                      context_.table.text(least, speed_.column)),
          "call the column step_time_ms or step_time_s");
    steps_.notes.push_back(fmt::format("Column '{}' names no unit: seconds were taken.", given));
  }

  bool says_strong() const {
    const std::string lower = core::to_lower_ascii(text_);
    for (const char* words : {"strong scal", "strong-scal", "strong_scal", "fixed global batch",
                              "constant global batch", "global batch fixed", "fixed batch size of all"})
      if (lower.find(words) != std::string::npos) return true;
    return core::starts_with(lower, "strong") || lower.find("; strong") != std::string::npos;
  }

  /// A rate is counted as the column counts it; a column of times tells none without batches.
  void set_rate() {
    const RowBatch& first = batches_.front();
    steps_.rate_per_device = steps_.rows.front().units;
    switch (speed_.kind) {
      case SpeedKind::kTokens:
        if (first.samples && first.sequence) steps_.rate_per_device *= *first.sequence;
        steps_.rate_unit = "tokens/s";
        return;
      case SpeedKind::kTflops: steps_.rate_unit = "TFLOP/s"; return;
      case SpeedKind::kRelative:
        steps_.rate_unit = "relative rate";
        if (speed_.is_time) steps_.time_name = time_name();
        steps_.has_growing_work = has_growing_work_;
        return;
      case SpeedKind::kSamples: steps_.rate_unit = "samples/s"; return;
      case SpeedKind::kStepTime:
      case SpeedKind::kSteps:
        if (first.samples || first.tokens)
          steps_.rate_unit = batch_unit(first);
        else if (const auto rate = published::rate_of(context_))
          steps_.rate_unit = rate->unit + "/s";
        return;
    }
  }
  /// The column's name, and seconds where "1:02:03" was read as such.
  std::string time_name() const {
    std::string name = context_.given_name(speed_.column.c_str());
    if (name.find("', '") != std::string::npos) name = context_.solution_unit_s == 1 ? "time (s)" : "time";
    const std::string last_word = core::split(core::plain_name(name), "_").back();
    const bool names_seconds = last_word == "s" || core::starts_with(last_word, "sec");
    if (speed_.column == "time_to_solution" && context_.solution_unit_s == 1 && !names_seconds) name += " (s)";
    return name;
  }
  static std::string batch_unit(const RowBatch& batch) { return batch.samples ? "samples/s" : "tokens/s"; }

  bool says_weak() const {
    return request_.is_strong == false || core::to_lower_ascii(text_).find("weak") != std::string::npos;
  }

  /// What the text tells of a row's batch. A batch of all devices stays while the devices grow: not in weak scaling,
  /// and not where a replica would be left without a sample.
  RowBatch batch_of_text(size_t row) const {
    constexpr double kMostOfADevice = 4096, kOneSample = 0.99;
    RowBatch batch;
    const bool is_global = is_told_strong_ || told_.samples > std::min(most_local_samples(), kMostOfADevice);
    const auto share = [&](const std::optional<double>& all) {
      const bool is_enough = all && *all * work_.sample_devices() >= kOneSample * devices(row);
      return is_enough && !is_told_weak_ ? std::optional(*all / devices(row)) : std::nullopt;
    };
    batch.samples = told_.local_samples ? told_.local_samples : share(told_.global_samples);
    batch.tokens = told_.local_tokens ? told_.local_tokens : share(told_.global_tokens);
    if (!batch.samples && !batch.tokens) {
      batch.samples = is_global ? share(told_.samples) : told_.samples;
      batch.tokens = share(told_.tokens);  // no device works on a batch that is counted in tokens
    }
    return batch;
  }

  KnownFact told_fact() const {
    const RowBatch& first = batches_.front();
    return {"batch",
            first.samples ? fmt::format("{:g} samples a device", *first.samples)
                          : fmt::format("{:g} tokens a device", *first.tokens),
            "words of the table, at the first size"};
  }

  /// What the user says wins; where the table says something else, a note tells both.
  void note_contradicted_flags(bool has_batches) {
    if (request_.local_batch)
      for (const size_t row : rows_) {
        const auto told = batch_of(row, {}).samples;
        if (!told || std::fabs(*told / *request_.local_batch - 1) <= kSameBatch) continue;
        steps_.notes.push_back(
            fmt::format("--samples-per-device {:g} wins over the table, which tells {:.4g} samples a device (line {}).",
                        *request_.local_batch, *told, context_.table.lines[row]));
        break;
      }
    if (!request_.is_strong) return;
    const char* asked = *request_.is_strong ? "strong" : "weak";
    const std::string lower = core::to_lower_ascii(text_);
    const bool is_said = *request_.is_strong ? lower.find("weak scal") != std::string::npos : says_strong();
    if (is_said && !has_batches)
      steps_.notes.push_back(fmt::format("--scaling {} wins over the words of the table, which say {} scaling.", asked,
                                         *request_.is_strong ? "weak" : "strong"));
    const auto local = [&](size_t index) {
      return batches_[index].samples.value_or(batches_[index].tokens.value_or(0));
    };
    const bool falls = has_batches && local(rows_.size() - 1) < (1 - kSameBatch) * local(0);
    if (has_batches && devices(rows_.back()) > devices(rows_.front()) && falls != *request_.is_strong)
      steps_.notes.push_back(
          fmt::format("--scaling {} is not used: the batches are told, and that of a device {} as the devices grow.",
                      asked, falls ? "falls" : "does not fall"));
  }

  RowBatch batch_of(size_t row) const { return batch_of(row, request_.local_batch); }

  /// --samples-per-device is that of the first size where the table tells no batch and all sizes do the same work.
  double asked_share(size_t row) const {
    const bool is_strong = is_told_strong_ || has_falling_steps_;
    return is_strong && !table_tells_batch(row) ? devices(rows_.front()) / devices(row) : 1;
  }

  bool table_tells_batch(size_t row) const {
    return context_.has("global_batch") || published::local_batch(context_, row) ||
           find_batch(context_, published::BatchOf::kNode) ||
           batch_tokens(context_, row, devices(row), devices_per_node_) ||
           doubtful_batch(context_, rows_, row, devices_per_node_, most_local_samples(), true);
  }

  RowBatch batch_of(size_t row, const std::optional<double>& asked) const {
    RowBatch batch{.sequence = sequence_length(context_, row, told_sequence_)};
    batch.tokens = batch_tokens(context_, row, devices(row), devices_per_node_);
    const auto local = published::local_batch(context_, row);
    if (asked) batch.samples = *asked * asked_share(row);
    // What comments call a batch is that of a replica, maybe several devices: a column of global batches wins.
    else if (context_.has("global_batch"))
      batch.samples = context_.at(row, "global_batch").value / devices(row);
    else if (local)
      batch.samples = local->value;
    else if (const auto of_node = find_batch(context_, published::BatchOf::kNode))
      batch.samples = of_node->at(context_, row) / devices_per_node_;
    else
      batch.samples = doubtful_batch(context_, rows_, row, devices_per_node_, most_local_samples(),
                                     is_told_strong_ || has_falling_steps_);
    if (!batch.samples && !batch.tokens && work_.micro_batch && context_.has("accumulation_steps"))
      batch.samples =
          static_cast<double>(*work_.micro_batch) * accumulation_steps(context_, row) / work_.sample_devices();
    if (!batch.samples && !batch.tokens) {
      const RowBatch told = batch_of_text(row);
      batch.samples = told.samples, batch.tokens = told.tokens;
      batch.is_in_words = told.samples || told.tokens;
    }
    constexpr double kLeastTokens = 1e5;  // no global batch has so many sequences
    if (speed_.kind == SpeedKind::kTokens && context_.has("global_batch") && !batch.tokens &&
        context_.at(row, "global_batch").value >= kLeastTokens)
      batch.tokens = batch.samples, batch.samples.reset();
    return batch;
  }

  /// Speed of a device, in the column's unit.
  double per_device(size_t row) const {
    const double given = context_.table.number(row, speed_.column),
                 value = speed_.is_time ? 1 / (speed_.scale * given) : speed_.scale * given;
    switch (speed_.of) {
      case SpeedOf::kDevice: return value;
      case SpeedOf::kNode: return value / devices_per_node_;
      case SpeedOf::kAll: return is_constant_total() || has_growing_work_ ? value : value / devices(row);
    }
    return value;
  }

  /// TFLOP/s that name no device and hardly grow with the devices are those of one; rates of samples and tokens where
  /// they do not grow at all, since nobody would buy those devices.
  bool is_constant_total() const {
    constexpr double kMostGrowth = 1.05, kLeast = 0.5, kLeastDevices = 1.9;
    const bool is_rate = !speed_.is_time && (speed_.kind == SpeedKind::kSamples || speed_.kind == SpeedKind::kTokens);
    if ((speed_.kind != SpeedKind::kTflops && !is_rate) || speed_.of != SpeedOf::kAll || num_known_ < 2) return false;
    const auto value = [&](size_t index) { return context_.table.number(rows_[index], speed_.column); };
    const double growth = value(num_known_ - 1) / value(0),
                 more = devices(rows_[num_known_ - 1]) / devices(rows_.front());
    if (!is_rate) return growth < std::sqrt(more);
    if (names_total() || more < kLeastDevices || growth < kLeast) return false;
    for (size_t index = 1; index < num_known_; ++index)
      if (value(index) > kMostGrowth * value(0)) return false;
    return true;
  }

  bool names_total() const {
    return has_any(core::plain_name(context_.given_name(speed_.column.c_str())),
                   {"total", "aggregate", "aggregated", "global", "overall", "cluster", "all", "system"});
  }

  /// Says what was made of rates of samples and tokens that hardly grow, or asks.
  void note_constant_rates() {
    const bool is_rate = !speed_.is_time && (speed_.kind == SpeedKind::kSamples || speed_.kind == SpeedKind::kTokens);
    if (!is_rate || speed_.of != SpeedOf::kAll || num_known_ < 2) return;
    const size_t first = rows_.front(), last = rows_[num_known_ - 1];
    const published::FlatRate rate{.column = speed_.column,
                                   .first = first,
                                   .last = last,
                                   .first_size = devices(first),
                                   .last_size = devices(last)};
    if (std::string text = published::flat_rate_text(context_, rate, is_constant_total()); !text.empty())
      steps_.notes.push_back(std::move(text));
  }

  /// Times of steps or of whole works, not of epochs and trainings: their data stay, and the batch of a device may,
  /// too.
  bool tells_times() const {
    if (speed_.kind == SpeedKind::kStepTime || speed_.kind == SpeedKind::kSteps) return true;
    return speed_.kind == SpeedKind::kRelative && speed_.is_time &&
           !has_any(core::plain_name(context_.given_name(speed_.column.c_str())), {"epoch", "train", "training"});
  }

  /// The first known time over the last, where the devices grow between them.
  std::optional<double> gain() const {
    if (num_known_ < 2 || !tells_times()) return std::nullopt;
    const size_t first = rows_.front(), last = rows_[num_known_ - 1];
    return devices(last) > devices(first) ? std::optional(seconds_of(first) / seconds_of(last)) : std::nullopt;
  }

  /// A "time" of nothing that falls while a device has as many samples is that of work that stays: an epoch, a run.
  void take_whole_times() {
    const auto fall = gain();
    const std::string& given = context_.given_name(speed_.column.c_str());
    if (!fall || *fall <= published::kLeastGainOfEqualWork || !published::is_time_of_nothing(given)) return;
    const auto batch = [&](size_t row) {
      if (context_.has("global_batch")) return context_.at(row, "global_batch").value / devices(row);
      return context_.has("local_batch") ? context_.at(row, "local_batch").value : 0;
    };
    const double first = batch(rows_.front()), last = batch(rows_[num_known_ - 1]);
    if (first <= 0 || last < (1 - kSameBatch) * first) return;
    steps_.notes.push_back(fmt::format(
        "Column '{}' falls though a device has as many samples: it was read as the time of work that stays, as an "
        "epoch, and not as that of a step.",
        given));
    speed_.kind = SpeedKind::kRelative, speed_.is_time = true;
  }

  /// Says what was made of steps that fall beside a batch, which the batch may contradict.
  void note_falling_steps() {
    if (!has_falling_steps_) return;
    const size_t first = rows_.front(), last = rows_[num_known_ - 1];
    if (const auto batch = find_batch(context_, published::BatchOf::kUnsaid)) {
      if (batch->at(context_, first) != batch->at(context_, last)) return;
      steps_.notes.push_back(fmt::format(
          "The steps get shorter as the devices grow: '{}' was taken for the batch of all devices (--scaling weak says "
          "otherwise).",
          context_.given_name(batch->name.c_str())));
      return;
    }
    const RowBatch &least = batches_.front(), &most = batches_[num_known_ - 1];
    const bool stays = (least.samples && most.samples && *most.samples > (1 - kSameBatch) * *least.samples) ||
                       (least.tokens && most.tokens && *most.tokens > (1 - kSameBatch) * *least.tokens);
    if (!stays || speed_.kind == SpeedKind::kRelative) return;
    steps_.notes.push_back(fmt::format(
        "The steps get shorter as the devices grow ({:.3g} s at {:g} devices, {:.3g} s at {:g}) though the batch of a "
        "device does not: is the batch that of all devices, or the time that of other work (column '{}')? Without the "
        "batch --scaling strong takes it for work that stays.",
        seconds_of(first), devices(first), seconds_of(last), devices(last),
        context_.given_name(speed_.column.c_str())));
  }

  /// Without batches scaling is what the user or the words say; else times that fall as the devices grow are of work
  /// that stays.
  void set_scaling() {
    std::string& source = steps_.scaling_source;
    source = request_.is_strong ? "--scaling" : is_told_strong_ || is_told_weak_ ? "words of the table" : "";
    if (!source.empty()) return;
    const auto fall = gain();
    source = fall ? "assumed: the times do not fall as the devices grow" : "assumed: nothing tells it";
    if (!fall || *fall <= published::kLeastGainOfEqualWork) {
      if (fall && speed_.kind == SpeedKind::kRelative)
        steps_.notes.emplace_back(
            "The times do not fall as the devices grow: weak scaling is taken, with work that grows with the devices "
            "(--scaling strong says otherwise).");
      return;
    }
    is_told_strong_ = true;
    source = "assumed: the times fall as the devices grow";
    steps_.notes.emplace_back(fmt::format(
        "The {} get shorter as the devices grow and the table tells no batches: strong scaling is taken (--scaling "
        "weak says otherwise).",
        speed_.kind == SpeedKind::kRelative ? "times" : "steps"));
  }

  /// Are the times those of work that grows with the devices, so that a time is the step of a device?
  bool is_time_of_growing_work(bool has_batches) const {
    const auto fall = gain();
    return speed_.kind == SpeedKind::kRelative && fall && *fall <= published::kLeastGainOfEqualWork && !has_batches &&
           !is_told_strong_;
  }

  double seconds_of(size_t row) const {
    const double value = context_.table.number(row, speed_.column);
    return speed_.kind == SpeedKind::kSteps ? 1 / (speed_.scale * value) : speed_.scale * value;
  }

  /// Work of a device without batches: that of the first size, or its share of a batch of all devices.
  double plain_units(size_t row) const { return is_told_strong_ ? devices(rows_.front()) / devices(row) : 1; }

  RowStep step_of(size_t index) const {
    const size_t row = rows_[index];
    const RowBatch& batch = batches_[index];
    RowStep step{.samples = batch.samples};
    if (!step.samples && batch.tokens && batch.sequence) step.samples = *batch.tokens / *batch.sequence;
    step.sequence = batch.sequence.value_or(0);
    step.tokens = batch.tokens;
    if (!step.tokens && batch.samples && batch.sequence) step.tokens = *batch.samples * *batch.sequence;
    const double amount = batch.samples ? *batch.samples : batch.tokens.value_or(plain_units(row));
    step.units = amount;
    if (speed_.kind == SpeedKind::kStepTime || speed_.kind == SpeedKind::kSteps) {
      step.step = seconds_of(row);
      if (!batch.samples && !batch.tokens)
        if (const auto rate = published::rate_of(context_))
          step.units = rate->at(context_, row).value * step.step / devices(row);
    } else {
      step.step = (speed_.kind == SpeedKind::kTflops ? step.units : amount) / per_device(row);
      if (speed_.kind == SpeedKind::kTokens && batch.samples && batch.sequence) step.step *= *batch.sequence;
    }
    return step;
  }

  void set_clock(bool has_batches) {
    const RowBatch& first = batches_.front();
    const bool counts_samples = speed_.kind == SpeedKind::kSamples && first.samples.has_value();
    const bool counts_tokens = speed_.kind == SpeedKind::kTokens && (first.tokens || first.sequence);
    steps_.has_seconds = speed_.kind == SpeedKind::kStepTime || speed_.kind == SpeedKind::kSteps ||
                         (has_batches && (counts_samples || counts_tokens));
    if (steps_.has_seconds) {
      steps_.clock_s = 1;
      return;
    }
    const double sequence = first.sequence.value_or(is_language_model() ? kTypicalSequence : kTypicalTextLength);
    const double samples = has_batches ? first.samples.value_or(0) : typical_samples(sequence);
    steps_.assumed_samples = has_batches ? 0 : samples;
    if (!work_.parameters) return;
    steps_.clock_s =
        clock_of_speed(has_batches ? 1 : samples, sequence);  // else the unit is the work of the first size
    if (steps_.clock_s > 0) return;
    if (speed_.kind != SpeedKind::kRelative) steps_.assumed_samples = 0;
    if (speed_.kind == SpeedKind::kSamples || speed_.kind == SpeedKind::kTokens) return;
    const double counted = first.samples || !first.tokens ? first.samples.value_or(samples) : *first.tokens / sequence;
    steps_.clock_s = usual_seconds(counted, sequence) / steps_.rows.front().step;
  }

  /// What the speed itself tells of the clock in seconds, where a unit is so many samples; 0: nothing.
  double clock_of_speed(double samples_per_unit, double sequence) const {
    const double flops = 6 * work_.active() * sequence;
    // Samples that are no sequences of so many tokens: no device computes that fast.
    constexpr double kMostFlops = 2e15;
    if (is_language_model() && flops / sequence * tokens_per_s(sequence) > kMostFlops) return 0;
    switch (speed_.kind) {
      case SpeedKind::kSamples: return samples_per_unit;
      case SpeedKind::kTokens: return samples_per_unit * sequence;
      case SpeedKind::kTflops: return is_language_model() ? samples_per_unit * flops / 1e12 : 0;
      case SpeedKind::kRelative:
        return speed_.column == "mfu_pct" && peak_tflops() && is_language_model()
                   ? samples_per_unit * flops / (*peak_tflops() * 1e12 / 100)
                   : 0;
      default: return 0;
    }
  }

  /// What a device usually takes for so many samples; 0 where their work is not known.
  double usual_seconds(double samples, double sequence) const {
    constexpr double kLanguageShare = 0.4, kOtherShare = 0.2, kUsualPeak = 200;  // of the peak; TFLOP/s
    const bool is_text = is_language_model() || (!work_.forward_gflops && has_text_model());
    const double flops = work_.forward_gflops ? 3e9 * *work_.forward_gflops : 6 * work_.active() * sequence;
    if (!work_.forward_gflops && !is_text) return 0;
    return samples * flops / (peak_tflops().value_or(kUsualPeak) * 1e12 * (is_text ? kLanguageShare : kOtherShare));
  }

  /// Dense, in 16 bits.
  std::optional<double> peak_tflops() const {
    if (!machine_) return std::nullopt;
    const auto bf16 = machine_->peak_tflops(hw::ComputeType::kBf16);
    return bf16 ? bf16 : machine_->peak_tflops(hw::ComputeType::kFp16);
  }

  bool has_text_model() const { return core::to_lower_ascii(work_.model).find("bert") != std::string::npos; }

  /// Of a device at the first size, if samples are sequences; 0 where the speed tells no such thing.
  double tokens_per_s(double sequence) const {
    const double speed = per_device(rows_.front());
    return speed_.kind == SpeedKind::kTokens ? speed : speed_.kind == SpeedKind::kSamples ? speed * sequence : 0;
  }

  bool is_language_model() const {
    const std::string model = core::to_lower_ascii(work_.model);
    return !work_.feature_width && !work_.forward_gflops &&
           std::none_of(std::begin(kOtherModels), std::end(kOtherModels),
                        [&](const char* name) { return model.find(name) != std::string::npos; });
  }

  /// No device works on more sequences of a large language model in a step.
  double most_local_samples() const {
    constexpr double kLarge = 1e9, kMostSequences = 64;
    return work_.parameters && *work_.parameters >= kLarge && is_language_model() ? kMostSequences : HUGE_VAL;
  }

  /// A usual batch of a device at the first size, where nothing is told.
  double typical_samples(double sequence) const {
    const double first_devices = devices(rows_.front());
    if (!is_language_model() || !work_.parameters)
      return is_told_strong_ ? kTypicalGlobalSamples / first_devices : kTypicalLocalSamples;
    return (is_told_strong_ ? kTypicalGlobalTokens / first_devices
                            : kTypicalLocalTokens / std::sqrt(work_.replica_devices())) /
           sequence;
  }

  const FormulaContext& context_;
  const std::vector<size_t>& rows_;
  const size_t num_known_;
  const TableRequest& request_;
  const WorkFacts& work_;
  const std::optional<Machine>& machine_;
  double devices_per_node_;
  const std::string& text_;
  ToldBatch told_;
  std::optional<double> told_sequence_;
  Speed speed_;
  bool is_told_strong_ = false, is_told_weak_ = false, has_growing_work_ = false, has_falling_steps_ = false;
  std::vector<RowBatch> batches_{};
  CurveSteps steps_{};
};
}  // namespace

std::vector<std::string> speed_columns(const FormulaContext& context) {
  std::vector<std::string> columns;
  for (const Speed& speed : find_speeds(context)) columns.push_back(speed.column);
  return columns;
}

std::vector<std::string> unread_columns(const FormulaContext& context) {
  constexpr std::string_view kSettings[] = {
      "param", "model",      "layer", "hidden", "head",     "vocab",   "seq",  "context",    "parallel",
      "zero",  "expert",     "micro", "stage",  "batch",    "accum",   "grad", "efficiency", "eff",
      "speed", "linear",     "ideal", "mfu",    "hfu",      "util",    "flop", "image_size", "resolution",
      "per_s", "throughput", "time",  "hours",  "walltime", "seconds", "days"};
  const std::vector<std::string> speeds = speed_columns(context);
  std::vector<std::string> unread;
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string &name = context.table.columns[column], plain = core::plain_name(name);
    const bool is_number = is_usable(context, name);
    const bool is_unclear = published::read_speed_name(name).told == published::ToldSpeed::kUnclear;
    const published::BatchOf batch = published::read_batch_name(name).of;
    const bool is_lost_batch = plain.find("batch") != std::string::npos && batch == published::BatchOf::kNone &&
                               name == context.given[column] && plain.find("per_s") == std::string::npos;
    const bool is_known = name != context.given[column] || published::known_name(name) != name ||
                          published::is_known_name(name) || batch != published::BatchOf::kNone ||
                          published::tells_devices_of_node(name) || speed_of_name(name) || speed_without_unit(name) ||
                          std::find(speeds.begin(), speeds.end(), name) != speeds.end() ||
                          has_any(plain, {"tp", "pp", "dp", "cp", "ep", "vp", "vpp", "mbs", "ga", "run", "job", "id",
                                          "name", "repeat", "seed", "top", "topk", "d"}) ||
                          std::any_of(std::begin(kSettings), std::end(kSettings),
                                      [&](std::string_view part) { return plain.find(part) != std::string::npos; });
    if (is_number && (is_unclear || is_lost_batch || !is_known)) unread.push_back(context.given[column]);
  }
  return unread;
}

void check_speeds(const FormulaContext& context) {
  if (!find_speeds(context).empty()) return;
  const std::string file = context.table.source.string();
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& name = context.table.columns[column];
    if (published::read_speed_name(name).told == published::ToldSpeed::kUnclear)
      throw DataError(fmt::format("predict: '{}', column '{}': the time of a step or a number of steps per second?",
                                  file, context.given.at(column)),
                      "call the column step_time_s, or steps/s");
    if (!speed_of_name(name) && !speed_without_unit(name)) continue;
    for (size_t row = 0; row < context.table.rows.size(); ++row)
      if (const auto value = core::parse_double(context.table.rows[row][column]); !value || *value <= 0)
        throw DataError(
            fmt::format("predict: '{}' line {}, column '{}': '{}' is no number above zero", file,
                        context.table.lines[row], context.given.at(column), context.table.rows[row][column]),
            "write numbers only; their unit belongs into the name of the column, once for all rows");
  }
  for (size_t column = 0; column < context.table.columns.size(); ++column)
    if (names_other_unit(context.table.columns[column]))
      throw DataError(
          fmt::format("predict: '{}', column '{}': a rate in a unit that is not known", file, context.given.at(column)),
          kSpeedHint);
  throw DataError(fmt::format("predict: '{}' has no column of step times or rates", file), kSpeedHint);
}

bool counts_batch_in_tokens(const std::string& column) {
  const published::BatchName batch = published::read_batch_name(column);
  return batch.is_in_tokens && batch.of != published::BatchOf::kNone && batch.of != published::BatchOf::kMicro;
}

bool is_batch_of_device(const std::string& column) {
  return published::read_batch_name(column).of == published::BatchOf::kDevice;
}

double devices_at(const FormulaContext& context, double devices_per_node, size_t row) {
  const char* devices = context.device_column();
  return devices != nullptr ? context.at(row, devices).value : context.at(row, "nodes").value * devices_per_node;
}

CurveSteps read_steps(const FormulaContext& context, const std::vector<size_t>& rows, size_t num_known,
                      const TableRequest& request, const WorkFacts& work, const std::optional<Machine>& machine,
                      double devices_per_node, const std::string& text) {
  LOCKSTEP_CHECK(!rows.empty() && num_known <= rows.size(), "{} rows, {} known", rows.size(), num_known);
  return Reader(context, rows, num_known, request, work, machine, devices_per_node, text).read();
}

}  // namespace lockstep::predict
