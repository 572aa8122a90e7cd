// Speed-up and efficiency of tables that have times and no rate.
#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "logs/column_names.h"
#include "published/formulas.h"

namespace lockstep::published {
namespace {
constexpr const char* kSolutionTime = logs::kSolutionTimeColumn.data();
constexpr const char* kStepTime = logs::kStepTimeColumn.data();

/// What one time of a table stands for at every size.
enum class Work { kEqual, kGrowsWithSize };

/// "weak scaling" or "strong-scaling" in the comments or the name of the file; nothing where both stand there.
std::optional<Work> stated_work(const FormulaContext& context) {
  const std::string text =
      core::plain_name(core::join(context.table.comments, " ") + " " + context.table.source.stem().string());
  const bool is_weak = text.find("weak_scal") != std::string::npos,
             is_strong = text.find("strong_scal") != std::string::npos;
  if (is_weak == is_strong) return std::nullopt;
  return is_weak ? Work::kGrowsWithSize : Work::kEqual;
}

/// Does a batch of all devices, where the table tells it, differ from row to row?
bool changes_batch(const FormulaContext& context) {
  const auto first = global_batch(context, 0);
  if (!first) return context.has("local_batch");
  for (size_t row = 1; row < context.table.rows.size(); ++row)
    if (const auto batch = global_batch(context, row); batch && batch->value != first->value) return true;
  return false;
}

struct Times {
  const char* column = nullptr;
  std::optional<Work> work{};  ///< Nothing: it may be either.
};

/// The times that speed-up and efficiency would follow from; nothing where a rate is known or no time is.
std::optional<Times> times_of(const FormulaContext& context) {
  if (context.table.rows.empty() || context.size_column() == nullptr || rate_of(context)) return std::nullopt;
  const auto stated = stated_work(context);
  if (context.has(kStepTime)) return Times{kStepTime, stated};
  if (!context.has(kSolutionTime)) return std::nullopt;
  return Times{kSolutionTime, stated || changes_batch(context) ? stated : Work::kEqual};
}

/// Is the time that of a whole work, in a known unit, on a known number of nodes?
bool costs_node_hours(const FormulaContext& context, const Times& times) {
  return times.column == kSolutionTime && context.solution_unit_s > 0 && context.has("nodes");
}

Formula speedup_of_times(const Times& times, const char* size) {
  if (*times.work == Work::kEqual)
    return {"speedup", "time of the base over the row's, the work being the same at every size",
            [column = times.column](const FormulaContext& c, size_t row) {
              return c.at_base(row, column) / c.at(row, column);
            },
            true};
  return {"speedup",
          std::string("time of the base over the row's x ") + size + " over those of the base (weak scaling)",
          [column = times.column, size](const FormulaContext& c, size_t row) {
            return c.at_base(row, column) / c.at(row, column) * (c.at(row, size) / c.at_base(row, size));
          },
          true};
}

Formula efficiency_of_times(const Times& times, const char* size) {
  if (*times.work == Work::kGrowsWithSize)
    return {"efficiency_pct", "time of the base over the row's x 100 (weak scaling)",
            [column = times.column](const FormulaContext& c, size_t row) {
              return exact(100) * c.at_base(row, column) / c.at(row, column);
            },
            true};
  return {"efficiency_pct",
          std::string("time of the base over the row's / (") + size +
              " over those of the base) x 100, the work being the same at every size",
          [column = times.column, size](const FormulaContext& c, size_t row) {
            return exact(100) * (c.at_base(row, column) / c.at(row, column)) / (c.at(row, size) / c.at_base(row, size));
          },
          true};
}
}  // namespace

std::vector<Formula> time_formulas_of(const FormulaContext& context) {
  const auto times = times_of(context);
  if (!times) return {};
  const char* size = context.size_column();
  std::vector<Formula> formulas;
  if (times->work) formulas = {speedup_of_times(*times, size), efficiency_of_times(*times, size)};
  if (costs_node_hours(context, *times))
    formulas.push_back({"node_hours_to_solution", "nodes x time_to_solution in hours",
                        [hours = context.solution_unit_s / 3600](const FormulaContext& c, size_t row) {
                          return exact(hours) * c.at(row, "nodes") * c.at(row, kSolutionTime);
                        }});
  return formulas;
}

std::string missing_beside_times(const FormulaContext& context) {
  const auto times = times_of(context);
  if (!times) return "";
  const std::string rate =
      costs_node_hours(context, *times) ? "no samples/s and MFU" : "no samples/s, node-hours and MFU";
  if (times->work) return "the work done in a time (a rate, or step_time_s with global_batch): " + rate;
  const std::string meanings =
      "with equal work at every size the speed-up is T0/T, with work that grows with the size N/N0 x T0/T: write "
      "'# strong scaling' or '# weak scaling' above the header";
  if (times->column == kStepTime)
    return "the batch of all devices (a column global_batch, or local_batch and gpus): a step time alone is no rate, "
           "and neither speed-up nor efficiency follow; " +
           meanings;
  return "whether the work grows with the batch, which differs: neither speed-up nor efficiency follow; " + meanings;
}

}  // namespace lockstep::published
