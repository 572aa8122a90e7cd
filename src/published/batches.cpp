// What the batches of a table say of its scaling.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/strings.h"
#include "published/formulas.h"

namespace lockstep::published {
namespace {
constexpr double kSame = 0.01;  // batches may be rounded

bool are_alike(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most <= *least * (1 + kSame);
}

/// Is the global batch a whole multiple of local batch x devices (accumulation), or a whole part of it (devices that
/// share a sample)?
bool fit_together(double local, double devices, double global) {
  const double ratio = global / (local * devices), factor = std::max(ratio, 1 / ratio);
  return std::abs(factor - std::round(factor)) <= kSame;
}

void mark_contradictions(FormulaContext& context) {
  const char* devices = context.device_column();
  if (devices == nullptr || !context.has("local_batch") || !context.has("global_batch")) return;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const double local = context.at(row, "local_batch").value, count = context.at(row, devices).value,
                 global = context.at(row, "global_batch").value;
    if (fit_together(local, count, global)) continue;
    context.has_contradiction = true;
    for (size_t other = 0; other < context.table.rows.size(); ++other)
      if (context.groups[other] == context.groups[row]) context.is_mixed[other] = true;
    context.notes.push_back(
        fmt::format("Line {}: the batches contradict each other, {} {} x {} {} is not {} {}: the curve of this row has "
                    "no efficiency.",
                    context.table.lines[row], context.given_name("local_batch"), context.table.text(row, "local_batch"),
                    context.given_name(devices), context.table.text(row, devices), context.given_name("global_batch"),
                    context.table.text(row, "global_batch")));
  }
}
}  // namespace

void mark_mixed_batches(FormulaContext& context) {
  const size_t num_rows = context.table.rows.size();
  context.is_mixed.assign(num_rows, false);
  const char* size = context.size_column();
  if (size == nullptr || num_rows == 0 || (!context.has("global_batch") && !context.has("local_batch"))) return;
  mark_contradictions(context);
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t row = 0; row < num_rows; ++row) groups[context.groups[row]].push_back(row);
  for (const auto& [group, rows] : groups) {
    if (context.is_mixed[rows.front()]) continue;
    std::vector<double> all, shares;
    std::vector<std::string> batches;
    for (const size_t row : rows) {
      const double count = context.at(row, size).value;
      const auto global = global_batch(context, row);
      all.push_back(global ? global->value : local_batch(context, row)->value * count);
      shares.push_back(all.back() / count);
      batches.push_back(
          fmt::format("{:g} at {} {}", all.back(), context.given_name(size), context.table.text(row, size)));
    }
    if (are_alike(all) || are_alike(shares)) continue;
    for (const size_t row : rows) context.is_mixed[row] = true;
    context.notes.push_back(
        fmt::format("The global batch is {}: neither weak nor strong scaling, so speed-up and efficiency would mix "
                    "size and work, and are left out.",
                    core::join(batches, ", ")));
  }
}

}  // namespace lockstep::published
