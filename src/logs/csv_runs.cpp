#include "logs/csv_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep::logs {
namespace {

bool has_starts(const std::deque<HeldRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const HeldRow& held) { return held.is_start; });
}

}  // namespace

std::vector<std::optional<size_t>> rows_before(const std::deque<HeldRow>& rows) {
  std::vector<std::optional<size_t>> before(rows.size());
  std::map<int, size_t> last;
  for (size_t at = 0; at < rows.size(); ++at) {
    if (rows[at].is_start) last.clear();
    const auto [place, is_new] = last.try_emplace(rows[at].line.rank.value_or(-1), at);
    if (!is_new) before[at] = std::exchange(place->second, at);
  }
  return before;
}

void take_batch_of_counts(std::deque<HeldRow>& rows) {
  const auto before = rows_before(rows);
  double batch = record::kUnknown;
  for (size_t at = 0; at < rows.size(); ++at) {
    if (!std::isnan(rows[at].global_batch) || !std::isnan(rows[at].row.samples)) return;
    if (!before[at]) continue;
    const LogRow &row = rows[at].row, &last = rows[*before[at]].row;
    const double of_step = (row.samples_seen - last.samples_seen) / static_cast<double>(row.step - last.step);
    if (!(of_step >= 1) || !std::isfinite(of_step) || (!std::isnan(batch) && of_step != batch)) return;
    batch = of_step;
  }
  for (HeldRow& held : rows) held.global_batch = batch;
}

bool repeats_steps(const std::deque<HeldRow>& rows, bool by_epoch) {
  std::set<std::tuple<int, int32_t, int64_t>> seen;
  for (const HeldRow& held : rows) {
    if (held.is_start) seen.clear();
    if (!seen.emplace(held.line.rank.value_or(-1), by_epoch ? held.row.epoch : 0, held.row.step).second) return true;
  }
  return false;
}

bool number_through_epochs(std::deque<HeldRow>& rows) {
  constexpr bool kByEpoch = true;
  if (has_starts(rows) || !repeats_steps(rows) || repeats_steps(rows, kByEpoch)) return false;
  std::stable_sort(rows.begin(), rows.end(), [](const HeldRow& a, const HeldRow& b) {
    return std::pair(a.row.epoch, a.row.step) < std::pair(b.row.epoch, b.row.step);
  });
  int32_t epoch = rows.front().row.epoch;
  int64_t offset = 0, last = -1;
  for (HeldRow& held : rows) {
    if (std::exchange(epoch, held.row.epoch) != held.row.epoch)
      offset = last + 1 - held.row.step;  // the least of its epoch
    last = held.row.step += offset;
  }
  return true;
}

std::vector<CsvRun> split_by_batch(CsvRun run) {
  std::map<double, CsvRun> by_batch;
  const bool has_batches =
      std::none_of(run.rows.begin(), run.rows.end(), [](const HeldRow& held) { return std::isnan(held.global_batch); });
  if (has_batches)
    for (const HeldRow& held : run.rows) by_batch[held.global_batch];
  std::vector<CsvRun> parts;
  if (by_batch.size() > 1 && repeats_steps(run.rows)) {
    for (const HeldRow& held : run.rows) by_batch[held.global_batch].rows.push_back(held);
    if (std::none_of(by_batch.begin(), by_batch.end(),
                     [](const auto& part) { return repeats_steps(part.second.rows); }))
      for (auto& [batch, part] : by_batch)
        parts.push_back({.facts = run.facts, .batch = fmt::format("{:g}", batch), .rows = std::move(part.rows)});
  }
  if (parts.empty()) parts.push_back(std::move(run));
  return parts;
}

void order_by_step(std::deque<HeldRow>& rows) {
  if (!has_starts(rows) && !repeats_steps(rows))
    std::stable_sort(rows.begin(), rows.end(),
                     [](const HeldRow& a, const HeldRow& b) { return a.row.step < b.row.step; });
}

}  // namespace lockstep::logs
