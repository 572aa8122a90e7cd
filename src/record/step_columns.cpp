#include "record/step_columns.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <type_traits>

namespace lockstep::record {
namespace {

template <typename Visit> void for_each_column(StepColumns& columns, const Visit& visit) {
  visit(columns.step), visit(columns.num_steps), visit(columns.num_skipped), visit(columns.epoch),
      visit(columns.attempt);
  for (auto* column :
       {&columns.step_ms, &columns.data_wait_ms, &columns.samples, &columns.tokens, &columns.loss,
        &columns.samples_seen, &columns.time_s, &columns.logged_samples_per_s, &columns.logged_tflops_per_device})
    visit(*column);
  for (auto& [phase, column] : columns.phases_ms) visit(column);
}

}  // namespace

void add_row(StepColumns& columns, int64_t step) {
  for_each_column(columns, [](auto& column) {
    using Value = typename std::remove_reference_t<decltype(column)>::value_type;
    if constexpr (std::is_floating_point_v<Value>)
      column.push_back(std::numeric_limits<Value>::quiet_NaN());
    else
      column.push_back(0);
  });
  columns.step.back() = step;
  columns.num_steps.back() = 1;
  columns.epoch.back() = -1;
  columns.attempt.back() = 1;
}

void drop_last_row(StepColumns& columns) {
  for_each_column(columns, [](auto& column) { column.pop_back(); });
}

bool set_phase(StepColumns& columns, std::string_view phase, float value) {
  const std::string name(phase);
  if (columns.phases_ms.size() >= kMaxPhases && !columns.phases_ms.contains(name)) return false;
  std::vector<float>& column = columns.phases_ms[name];
  if (column.empty()) column.assign(columns.size(), std::numeric_limits<float>::quiet_NaN());
  column.back() = value;
  return true;
}

void select_rows(StepColumns& columns, std::span<const size_t> rows) {
  for_each_column(columns, [&](auto& column) {
    std::remove_reference_t<decltype(column)> selected;
    selected.reserve(rows.size());
    for (const size_t row : rows)
      if (row < column.size()) selected.push_back(column[row]);
    column = std::move(selected);
  });
}

void keep_attempt(StepColumns& columns, int attempt) {
  std::vector<size_t> kept;
  for (size_t row = 0; row < columns.attempt.size(); ++row)
    if (columns.attempt[row] == attempt) kept.push_back(row);
  if (kept.size() < columns.attempt.size()) select_rows(columns, kept);
}

int64_t keep_last_attempts(StepColumns& columns) {
  const size_t num_rows = columns.size();
  const bool is_ascending =
      std::adjacent_find(columns.step.begin(), columns.step.end(), std::greater_equal<>()) == columns.step.end();
  if (is_ascending) return 0;
  std::vector<size_t> order(num_rows);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t row) { return std::tuple(columns.step[row], columns.attempt[row]); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<size_t> kept;
  for (size_t at = 0; at < num_rows; ++at)
    if (at + 1 == num_rows || columns.step[order[at]] != columns.step[order[at + 1]]) kept.push_back(order[at]);
  select_rows(columns, kept);
  return static_cast<int64_t>(num_rows - kept.size());
}

}  // namespace lockstep::record
