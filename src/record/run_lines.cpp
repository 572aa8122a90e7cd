#include "record/run_lines.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "core/counted.h"
#include "core/line_reader.h"
#include "record/step_columns.h"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;
using simdjson::dom::object;

/// A number, or NaN for anything else (null stands for a number that is not finite).
double as_number(const element& value) {
  double number = kUnknown;
  return value.get(number) == simdjson::SUCCESS ? number : kUnknown;
}

/// A count; one so large that nobody can have counted it is none.
std::optional<int64_t> as_integer(const element& value) {
  constexpr int64_t kMost = 1'000'000'000'000'000;
  int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < -kMost || number > kMost) return std::nullopt;
  return number;
}

/// An integer that fits an int and is not below `missing`, which also stands for anything else.
int as_small(const element& value, int missing) {
  return static_cast<int>(std::clamp<int64_t>(as_integer(value).value_or(missing), missing, 1'000'000'000));
}

int as_attempt(const element& value) { return as_small(value, 0); }

std::string as_text(const element& value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

/// Times are finite and not negative; anything else is unknown.
double as_time(const element& value) {
  const double number = as_number(value);
  return std::isfinite(number) && number >= 0 ? number : kUnknown;
}

template <typename Visit> void for_each_number(const element& value, const Visit& visit) {
  object inner;
  if (value.get(inner) != simdjson::SUCCESS) return;
  for (const auto field : inner)
    if (field.key != "nonfinite") visit(field.key, as_number(field.value));
}

std::vector<double> as_numbers(const element& value) {
  simdjson::dom::array list;
  std::vector<double> numbers;
  if (value.get(list) != simdjson::SUCCESS) return numbers;
  for (const element item : list) numbers.push_back(as_number(item));
  return numbers;
}

/// Hands each object of a JSON Lines file to `visit`, which returns whether the line made sense.
void read_lines(const fs::path& path, RunData& run, const std::function<bool(const object&)>& visit) {
  if (std::error_code failure; !fs::exists(path, failure)) return;
  simdjson::dom::parser parser;
  core::LineReader reader(path);
  int64_t num_rejected = 0, first_rejected = 0;
  bool is_cut = false;
  for (std::string_view line; reader.next(line);) {
    if (line.empty()) continue;
    object row;
    constexpr bool kCopies = false;  // LineReader leaves the padding that the parser wants
    if (parser.parse(line.data(), line.size(), kCopies).get(row) == simdjson::SUCCESS && visit(row)) continue;
    is_cut = reader.is_cut();
    if (num_rejected++ == 0) first_rejected = reader.line_number();
  }
  if (num_rejected == 0) return;
  run.num_rejected_lines += num_rejected;
  if (is_cut && num_rejected == 1) {
    run.problems.push_back(fmt::format("{}: the last line is cut off and was left out", path.filename().string()));
    return;
  }
  run.problems.push_back(
      fmt::format("{}: {} {} not be read and {} left out (the first is line {}{})", path.filename().string(),
                  num_rejected, num_rejected == 1 ? "line could" : "lines could", num_rejected == 1 ? "was" : "were",
                  first_rejected, is_cut ? ", the last one is cut off" : ""));
}

/// What the columns have no place for.
struct StepOddities {
  int64_t num_skipped = 0, num_nonfinite_losses = 0, num_phases = 0;
  int64_t first_skipped = 0, first_nonfinite = 0;
};

void keep_peak(std::optional<double>& peak, const element& value) {
  if (const double bytes = as_time(value); bytes > peak.value_or(0)) peak = bytes;
}

void set_field(StepColumns& columns, std::string_view key, const element& value, StepOddities& odd,
               MemoryPeaks& memory) {
  const auto last = [](auto& column) -> auto& { return column.back(); };
  if (key == "attempt")
    last(columns.attempt) = as_attempt(value);
  else if (key == "epoch")
    last(columns.epoch) = as_small(value, -1);
  else if (key == "samples")
    last(columns.samples) = as_time(value);
  else if (key == "samples_seen")
    last(columns.samples_seen) = as_time(value);
  else if (key == "tokens")
    last(columns.tokens) = as_time(value);
  else if (key == "step_ms")
    last(columns.step_ms) = as_time(value);
  else if (key == "data_wait_ms")
    last(columns.data_wait_ms) = as_time(value);
  else if (key == "samples_per_s")
    last(columns.logged_samples_per_s) = as_time(value);
  else if (key == "loss")
    last(columns.loss) = as_number(value);
  else if (key == "time_s")
    last(columns.time_s) = as_time(value);
  else if (key == "device_memory_bytes")
    keep_peak(memory.device_bytes, value);
  else if (key == "host_memory_bytes")
    keep_peak(memory.host_bytes, value);
  else if (key == "phases_ms")
    for_each_number(value, [&](std::string_view phase, double ms) {
      if (ms >= 0 && std::isfinite(ms) && !set_phase(columns, phase, static_cast<float>(ms))) ++odd.num_phases;
    });
  else if (key == "skipped") {
    bool is_skipped = false;
    if (value.get(is_skipped) != simdjson::SUCCESS || !is_skipped) return;
    columns.num_skipped.back() = 1;
    if (odd.num_skipped++ == 0) odd.first_skipped = columns.step.back();
  } else if (key == "nonfinite") {
    element kind;
    object kinds;
    if (value.get(kinds) == simdjson::SUCCESS && kinds["loss"].get(kind) == simdjson::SUCCESS &&
        odd.num_nonfinite_losses++ == 0)
      odd.first_nonfinite = columns.step.back();
  }
}

void tell_oddities(const StepOddities& odd, RunData& run) {
  if (odd.num_skipped > 0)
    run.problems.push_back(fmt::format("{} skipped because of gradients that were not finite (the first is step {})",
                                       core::counted(odd.num_skipped, "step"), odd.first_skipped));
  if (odd.num_nonfinite_losses > 0)
    run.problems.push_back(fmt::format("the loss of {} is not finite (the first is step {})",
                                       core::counted(odd.num_nonfinite_losses, "step"), odd.first_nonfinite));
  if (odd.num_phases > 0)
    run.problems.push_back(fmt::format("steps.jsonl: names more than {} phases, {} times of others were left out",
                                       kMaxPhases, odd.num_phases));
}

/// The record of an interval that every line of ranks.jsonl and system.jsonl begins with.
struct LoggedInterval {
  int attempt = 0;
  std::optional<int64_t> step{};
  int64_t num_steps = 1;

  void set(std::string_view key, const element& value) {
    if (key == "attempt")
      attempt = as_attempt(value);
    else if (key == "step")
      step = as_integer(value);
    else if (key == "num_steps")
      num_steps = as_integer(value).value_or(-1);
  }
  bool has_no_steps() const { return num_steps == 0; }
  bool is_valid() const { return step && *step >= 0 && num_steps >= 1; }
};

/// Whether a line belongs to the attempt that is measured; lines that do not name theirs do.
bool is_of_measured_attempt(int attempt, const RunData& run) {
  return attempt == 0 || run.measured_attempt == 0 || attempt == run.measured_attempt;
}

void put_amounts(std::map<std::string, double>& amounts, const element& value) {
  for_each_number(value, [&](std::string_view name, double amount) {
    if (std::isfinite(amount) && amount >= 0) amounts[std::string(name)] = amount;
  });
}

}  // namespace

void load_steps(const fs::path& folder, RunData& run) {
  StepOddities odd;
  StepColumns& columns = run.steps;
  read_lines(folder / "steps.jsonl", run, [&](const object& row) {
    element step;
    if (row["step"].get(step) != simdjson::SUCCESS || as_integer(step).value_or(-1) < 0) return false;
    add_row(columns, *as_integer(step));
    MemoryPeaks memory;
    for (const auto field : row) set_field(columns, field.key, field.value, odd, memory);
    if (!(columns.step_ms.back() > 0)) {
      drop_last_row(columns);
      return false;
    }
    MemoryPeaks& peaks = run.memory_peaks[columns.attempt.back()];
    peaks.device_bytes = std::max(peaks.device_bytes, memory.device_bytes);  // nothing is less than any number
    peaks.host_bytes = std::max(peaks.host_bytes, memory.host_bytes);
    return true;
  });
  tell_oddities(odd, run);
  if (const int64_t num_again = keep_last_attempts(columns); num_again > 0)
    run.problems.push_back(fmt::format("{} {} done more than once after a restart; of each the last attempt counts",
                                       core::counted(num_again, "step"), num_again == 1 ? "was" : "were"));
}

void load_rank_times(const fs::path& folder, RunData& run) {
  read_lines(folder / "ranks.jsonl", run, [&](const object& row) {
    LoggedInterval interval;
    RankTimesRecord times;
    for (const auto field : row) {
      interval.set(field.key, field.value);
      if (field.key == "step_ms") times.step_ms = as_numbers(field.value);
      if (field.key == "data_wait_ms") times.data_wait_ms = as_numbers(field.value);
      if (field.key == "compute_ms") times.compute_ms = as_numbers(field.value);
      if (field.key == "comm_wait_ms") times.comm_wait_ms = as_numbers(field.value);
      simdjson::dom::array hosts;
      if (field.key == "hosts" && field.value.get(hosts) == simdjson::SUCCESS)
        for (const element host : hosts) times.hosts.push_back(as_text(host));
    }
    if (!interval.is_valid() || times.step_ms.empty()) return false;
    times.attempt = interval.attempt, times.step = *interval.step, times.num_steps = interval.num_steps;
    if (is_of_measured_attempt(times.attempt, run)) run.rank_times.push_back(std::move(times));
    return true;
  });
}

void load_collectives(const fs::path& folder, RunData& run) {
  int64_t first_step = 0;
  for (size_t row = run.steps.size(); row-- > 0;)
    if (run.steps.attempt[row] == run.measured_attempt) first_step = run.steps.step[row];
  using Key = std::tuple<std::string, std::string, int, double>;  // kind, axis, group, bytes
  std::map<Key, CollectiveTotal> totals;                          // the last line of each
  read_lines(folder / "comm.jsonl", run, [&](const object& row) {
    CollectiveTotal total;
    int attempt = 0;
    bool has_time = false;
    for (const auto field : row) {
      if (field.key == "attempt")
        attempt = as_attempt(field.value);
      else if (field.key == "step")
        total.num_steps = std::max<int64_t>(0, as_integer(field.value).value_or(-1) + 1 - first_step);
      else if (field.key == "kind")
        total.kind = as_text(field.value);
      else if (field.key == "axis")
        total.axis = as_text(field.value);
      else if (field.key == "group_size")
        total.group_size = std::max(as_small(field.value, 1), 1);
      else if (field.key == "bytes")
        total.bytes = as_time(field.value);
      else if (field.key == "count")
        total.count = as_integer(field.value).value_or(0);
      else if (field.key == "blocked_ms")
        total.blocked_ms = as_time(field.value);
      else if (field.key == "time_ms")
        total.time_ms = as_time(field.value), has_time = true;  // null: nobody timed it
    }
    if (total.kind.empty() || total.count <= 0 || !has_time || !std::isfinite(total.bytes)) return false;
    if (is_of_measured_attempt(attempt, run))
      totals[{total.kind, total.axis, total.group_size, total.bytes}] = std::move(total);
    return true;
  });
  for (auto& [key, total] : totals) run.collectives.push_back(std::move(total));
}

void load_system(const fs::path& folder, RunData& run) {
  read_lines(folder / "system.jsonl", run, [&](const object& row) {
    LoggedInterval interval;
    SystemInterval counters;
    for (const auto field : row) {
      interval.set(field.key, field.value);
      if (field.key == "host") counters.host = as_text(field.value);
      if (field.key == "received_bytes") put_amounts(counters.received_bytes, field.value);
      if (field.key == "sent_bytes") put_amounts(counters.sent_bytes, field.value);
      if (field.key == "energy_j") put_amounts(counters.energy_j, field.value);
      if (field.key == "seconds")
        if (const double seconds = as_time(field.value); seconds > 0) counters.seconds = seconds;
    }
    if (interval.has_no_steps()) return true;  // of older records: nothing that counts per step
    if (!interval.is_valid()) return false;
    counters.attempt = interval.attempt, counters.step = *interval.step, counters.num_steps = interval.num_steps;
    if (is_of_measured_attempt(counters.attempt, run)) run.system.push_back(std::move(counters));
    return true;
  });
}

void load_startup(const fs::path& folder, RunData& run) {
  read_lines(folder / "startup.jsonl", run, [&](const object& row) {
    StartupTimes times;
    for (const auto field : row) {
      if (field.key == "attempt") times.attempt = as_attempt(field.value);
      if (field.key == "phases_ms")
        for_each_number(field.value, [&](std::string_view phase, double ms) {
          if (std::isfinite(ms) && ms >= 0) times.phases_ms.emplace_back(phase, ms);
        });
    }
    if (times.phases_ms.empty()) return false;
    run.startup.push_back(std::move(times));
    return true;
  });
}

void load_results(const fs::path& folder, RunData& run) {
  // an evaluation done again after a restart replaces the first
  std::map<std::pair<std::string, int64_t>, size_t> places;
  read_lines(folder / "results.jsonl", run, [&](const object& row) {
    ResultRecord result;
    result.step = -1;
    for (const auto field : row) {
      if (field.key == "attempt")
        result.attempt = as_attempt(field.value);
      else if (field.key == "step")
        result.step = as_integer(field.value).value_or(-1);
      else if (field.key == "epoch")
        result.epoch = as_integer(field.value);
      else if (field.key == "name")
        result.name = as_text(field.value);
      else if (field.key == "seconds") {
        if (const double seconds = as_time(field.value); std::isfinite(seconds)) result.seconds = seconds;
      } else if (field.key == "metrics")
        for_each_number(field.value,
                        [&](std::string_view name, double number) { result.metrics.emplace_back(name, number); });
    }
    if (result.step < 0 || result.name.empty()) return false;
    const auto [place, is_new] = places.try_emplace({result.name, result.step}, run.results.size());
    if (is_new)
      run.results.push_back(std::move(result));
    else
      run.results[place->second] = std::move(result);
    return true;
  });
}

}  // namespace lockstep::record
