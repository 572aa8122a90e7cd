#include "report/analysis_collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "record/bus_factor.h"

namespace lockstep::report {
namespace {
/// Above what memory of any device today moves: a byte count that is not what it seems.
constexpr double kImpossibleGbytesPerS = 8000;

struct Total {
  double count = 0, time_ms = 0, blocked_ms = 0;
};
}  // namespace

std::vector<CollectiveRow> collective_rows(const Point& point, const std::vector<RunSummary>& runs) {
  std::map<std::tuple<std::string, std::string, int, double>, Total> totals;
  double steps = 0;
  for (const size_t index : point.runs) {
    steps += static_cast<double>(runs[index].num_steps);
    for (const record::CollectiveTotal& one : runs[index].collectives) {
      Total& total = totals[{one.axis, one.kind, one.group_size, one.bytes}];
      total.count += static_cast<double>(one.count);
      total.time_ms += one.time_ms;
      total.blocked_ms += one.blocked_ms;
    }
  }
  std::vector<CollectiveRow> rows;
  for (const auto& [key, total] : totals) {
    if (total.count <= 0) continue;
    CollectiveRow row;
    std::tie(row.axis, row.kind, row.group_size, row.bytes) = key;
    row.calls_per_step = total.count / steps;
    row.time_ms = total.time_ms / total.count;
    row.blocked_ms = total.blocked_ms / total.count;
    row.algbw_gbytes_per_s = row.time_ms > 0 ? row.bytes / row.time_ms / 1e6 : NAN;
    row.busbw_gbytes_per_s = row.algbw_gbytes_per_s * record::bus_factor(row.kind, row.group_size).value_or(NAN);
    if (row.busbw_gbytes_per_s > kImpossibleGbytesPerS)
      row.doubt = fmt::format("a bus bandwidth of {:.0f} GB/s is above what any device's memory moves", row.busbw_gbytes_per_s);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace lockstep::report
