#include "logs/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "record/measured_steps.h"
#include "record/step_columns.h"

namespace lockstep::logs {
namespace {

bool is_time(double ms) { return std::isfinite(ms) && ms > 0; }

/// A number that counts or measures something: negative or not finite means unknown.
double amount(double value) { return std::isfinite(value) && value >= 0 ? value : record::kUnknown; }

/// The larger of two, of which either may be unknown.
double larger(double a, double b) { return std::fmax(a, b); }

/// Drops the rows of earlier attempts that a later one did again, wholly or in part.
int64_t drop_superseded(record::StepColumns& columns) {
  struct Span {
    int64_t begin = 0, end = 0;  // steps of one attempt, inclusive
  };
  std::map<int32_t, Span, std::greater<>> spans;  // last attempt first
  const auto first_step = [&](size_t row) { return columns.step[row] - columns.num_steps[row] + 1; };
  for (size_t row = 0; row < columns.size(); ++row) {
    const auto [place, is_new] = spans.try_emplace(columns.attempt[row], Span{first_step(row), columns.step[row]});
    place->second = {std::min(place->second.begin, first_step(row)), std::max(place->second.end, columns.step[row])};
  }
  if (spans.size() < 2) return 0;
  std::vector<size_t> rows_by_attempt(columns.size());
  std::iota(rows_by_attempt.begin(), rows_by_attempt.end(), size_t{0});
  std::stable_sort(rows_by_attempt.begin(), rows_by_attempt.end(),
                   [&](size_t a, size_t b) { return columns.attempt[a] > columns.attempt[b]; });
  std::map<int64_t, int64_t> covered;  // begin -> end of what later attempts did, disjoint
  const auto is_covered = [&](size_t row) {
    const auto after = covered.upper_bound(columns.step[row]);
    return after != covered.begin() && std::prev(after)->second >= first_step(row);
  };
  std::vector<size_t> kept;
  size_t at = 0;
  for (const auto& [attempt, span] : spans) {
    for (; at < rows_by_attempt.size() && columns.attempt[rows_by_attempt[at]] == attempt; ++at)
      if (!is_covered(rows_by_attempt[at])) kept.push_back(rows_by_attempt[at]);
    Span merged = span;
    auto next = covered.upper_bound(span.end);
    while (next != covered.begin() && std::prev(next)->second >= merged.begin) {
      const auto overlapping = std::prev(next);
      merged = {std::min(merged.begin, overlapping->first), std::max(merged.end, overlapping->second)};
      next = covered.erase(overlapping);
    }
    covered[merged.begin] = merged.end;
  }
  const auto num_dropped = static_cast<int64_t>(columns.size() - kept.size());
  record::select_rows(columns, kept);
  return num_dropped;
}

/// What a start does not say holds as it was said before; what follows from a size is not taken over.
void fill_absent(record::RunSetup& setup, const record::RunSetup& before) {
  for (std::string record::RunSetup::*text :
       {&record::RunSetup::task, &record::RunSetup::model, &record::RunSetup::precision, &record::RunSetup::system,
        &record::RunSetup::device})
    if ((setup.*text).empty()) setup.*text = before.*text;
  for (std::optional<int64_t> record::RunSetup::*count :
       {&record::RunSetup::nodes, &record::RunSetup::devices, &record::RunSetup::global_batch,
        &record::RunSetup::sequence_length})
    if (!(setup.*count)) setup.*count = before.*count;
  if (!setup.is_synthetic) setup.is_synthetic = before.is_synthetic;
  if (!setup.peak_tflops_per_device) {
    setup.peak_tflops_per_device = before.peak_tflops_per_device;
    setup.peak_source = before.peak_source;
  }
  setup.tags.insert(before.tags.begin(), before.tags.end());
}

}  // namespace

void LogBuilder::begin_start() {
  starts_.push_back(std::exchange(run_.setup, blank_.setup));
  ranks_.clear();
  start_attempt();
}

/// Rates, sizes and batches are to be of one start: that of the attempt with the most rows.
void LogBuilder::take_measured_setup() {
  if (starts_.empty()) return;
  const auto found = start_of_attempt_.find(record::longest_attempt(run_.steps));
  const record::RunSetup last = run_.setup;
  starts_.push_back(last);
  size_t measured = found == start_of_attempt_.end() ? starts_.size() - 1 : found->second;
  run_.setup = starts_[measured];
  while (measured > 0) fill_absent(run_.setup, starts_[--measured]);
  if (run_.setup.task.empty()) run_.setup.task = last.task;
  run_.setup.sample_unit = last.sample_unit;  // both follow from the format at its end
}

void LogBuilder::count_problem(const std::string& words) { ++counted_[words]; }

bool LogBuilder::add(const LogLine& line, const LogRow& values) {
  constexpr int64_t kMaxStep = int64_t{1} << 48;
  if (!is_time(values.step_ms) || values.step < 0 || values.step > kMaxStep) return false;
  if (is_attempt_new_) {
    is_attempt_new_ = false;
    if (has_rows()) {
      ++num_attempts_;
      ranks_.clear();
    }
  }
  if (unit_ms_ > 0 && values.unit_ms != unit_ms_)
    count_problem("the unit of the step times changes within the log; each line is read by its own");
  unit_ms_ = values.unit_ms;
  constexpr int kNoLabel = -1;
  const int label = line.rank.value_or(kNoLabel);
  RankState& rank = ranks_.try_emplace(label, RankState{.attempt = num_attempts_}).first->second;
  if (values.step < rank.last_step) {
    const auto last = rows_.find({rank.attempt, rank.last_step}), same = rows_.find({rank.attempt, values.step});
    const bool is_late =
        label == kNoLabel && same != rows_.end() && std::next(same) == last;  // another rank's line, one interval late
    if (is_late) {
      ++num_late_;
      merge(same->second, values);
      return true;
    }
    num_attempts_ = std::max(num_attempts_, ++rank.attempt);
  }
  rank.last_step = values.step;
  if (label != kNoLabel) labels_.insert(label);
  if (const auto same = rows_.find({rank.attempt, values.step}); same != rows_.end()) {
    if (label == kNoLabel && run_.steps.step_ms[same->second] != values.step_ms) ++num_repeated_;
    merge(same->second, values);
  } else
    append(line, values, rank.attempt);
  return true;
}

/// The step as another rank saw it, or the same line drawn again.
void LogBuilder::merge(size_t row, const LogRow& values) {
  record::StepColumns& columns = run_.steps;
  columns.step_ms[row] = larger(columns.step_ms[row], values.step_ms);
  columns.data_wait_ms[row] = larger(columns.data_wait_ms[row], amount(values.data_wait_ms));
}

void LogBuilder::append(const LogLine& line, const LogRow& values, int attempt) {
  record::StepColumns& columns = run_.steps;
  int64_t num_steps = values.num_steps;
  const auto place = rows_.emplace(std::pair(attempt, values.step), columns.size()).first;
  start_of_attempt_[attempt] = starts_.size();
  const bool is_first = place == rows_.begin() || std::prev(place)->first.first != attempt;
  if (num_steps <= 0) num_steps = is_first ? values.first_num_steps : values.step - std::prev(place)->first.second;
  constexpr int64_t kMaxInterval = 1'000'000'000;
  record::add_row(columns, values.step);
  columns.num_steps.back() = static_cast<int32_t>(std::min(num_steps, kMaxInterval));
  columns.num_skipped.back() = values.num_skipped;
  columns.epoch.back() = values.epoch;
  columns.attempt.back() = attempt;
  columns.step_ms.back() = values.step_ms;
  columns.data_wait_ms.back() = amount(values.data_wait_ms);
  columns.samples.back() = amount(values.samples);
  columns.tokens.back() = amount(values.tokens);
  columns.loss.back() = values.loss;
  columns.samples_seen.back() = amount(values.samples_seen);
  columns.time_s.back() = line.time_s.value_or(record::kUnknown);
  columns.logged_samples_per_s.back() = amount(values.samples_per_s);
  columns.logged_tflops_per_device.back() = amount(values.tflops_per_device);
}

/// First lines after a start whose interval the program does not tell: as long as most.
void LogBuilder::fill_intervals() {
  record::StepColumns& columns = run_.steps;
  std::map<int32_t, int64_t> lengths;
  for (const int32_t length : columns.num_steps) ++lengths[length];
  lengths.erase(0);
  const auto usual = std::max_element(lengths.begin(), lengths.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  for (size_t row = 0; row < columns.size(); ++row)
    if (columns.num_steps[row] == 0)
      columns.num_steps[row] =
          static_cast<int32_t>(std::min<int64_t>(usual == lengths.end() ? 1 : usual->first, columns.step[row] + 1));
}

/// That several ranks print into one file, and what that leaves open.
void LogBuilder::tell_ranks() {
  if (labels_.size() > 1)
    run_.problems.push_back(fmt::format(
        "{} ranks print into this log: of each step the slowest counts, which is the step of the whole job; what "
        "waited for what inside it, and so who a straggler was, cannot be concluded from such lines",
        labels_.size()));
  if (num_late_ > 0)
    run_.problems.push_back(
        fmt::format("{} lines came after the next step's: ranks print into one file without labels; of each step the "
                    "slowest counts, how many ranks there were and which was slow cannot be concluded",
                    num_late_));
  else if (num_repeated_ > 0)
    run_.problems.push_back(
        fmt::format("{} lines tell a step again with another time and without a rank: those of other ranks, or the "
                    "same line drawn again; of each step the slowest counts, which rank was slow cannot be concluded",
                    num_repeated_));
}

void LogBuilder::begin_run(const std::string& part) {
  if (has_rows() || !run_.part.empty()) {
    finish_run();
    done_.push_back(std::exchange(run_, blank_));
    ranks_.clear();
    rows_.clear();
    counted_.clear();
    labels_.clear();
    num_attempts_ = 1;
    is_attempt_new_ = false;
    unit_ms_ = 0;
    num_late_ = num_repeated_ = 0;
    starts_.clear();
    start_of_attempt_.clear();
  }
  run_.part = part;
}

std::vector<record::RunData> LogBuilder::finish() {
  finish_run();
  done_.push_back(std::move(run_));
  return std::move(done_);
}

void LogBuilder::finish_run() {
  fill_intervals();
  run_.num_attempts = num_attempts_;
  for (const double time_s : run_.steps.time_s) {
    if (!std::isfinite(time_s)) continue;
    run_.started_s = std::min(run_.started_s.value_or(time_s), time_s);
    run_.ended_s = std::max(run_.ended_s.value_or(time_s), time_s);
  }
  const int64_t num_dropped = drop_superseded(run_.steps);
  record::keep_last_attempts(run_.steps);
  take_measured_setup();
  if (num_attempts_ > 1)
    run_.problems.push_back(
        fmt::format("the log holds {} starts; {} lines of steps that a later one did again were left out",
                    num_attempts_, num_dropped));
  tell_ranks();
  for (const auto& [words, count] : counted_)
    run_.problems.push_back(count == 1 ? words : fmt::format("{} ({} times)", words, count));
}

}  // namespace lockstep::logs
