// Speed-up and efficiency of tables that have times and no rate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/strings.h"
#include "logs/column_names.h"
#include "published/formulas.h"

namespace lockstep::published {
namespace {
constexpr const char* kSolutionTime = logs::kSolutionTimeColumn.data();
constexpr const char* kStepTime = logs::kStepTimeColumn.data();

/// What a text says of the work; nothing where it says neither or both.
std::optional<TimedWork> stated_in(const std::string& text) {
  const std::string plain = "_" + core::plain_name(text) + "_";
  const bool is_weak = plain.find("_weak_scal") != std::string::npos || plain == "_weak_",
             is_strong = plain.find("_strong_scal") != std::string::npos || plain == "_strong_";
  if (is_weak == is_strong) return std::nullopt;
  return is_weak ? TimedWork::kGrowsWithSize : TimedWork::kEqual;
}

/// What the comments, the name of the file or a column of texts ("strong", "weak scaling") say of a row.
std::optional<ToldWork> stated_work(const FormulaContext& context, size_t row) {
  if (context.asked_work) return ToldWork{*context.asked_work, "as asked for"};
  for (const std::string& text : context.table.rows[row])
    if (const auto work = stated_in(text)) return ToldWork{.work = *work, .why = "as its rows say", .is_in_row = true};
  const std::string text = core::join(context.table.comments, " ") + " " + context.table.source.stem().string();
  if (const auto work = stated_in(text)) return ToldWork{*work, "as the table says"};
  return std::nullopt;
}

/// Does a batch of all devices, where the table tells it, differ from row to row?
bool changes_batch(const FormulaContext& context) {
  const auto first = global_batch(context, 0);
  if (!first) return context.has("local_batch");
  for (size_t row = 1; row < context.table.rows.size(); ++row)
    if (const auto batch = global_batch(context, row); batch && batch->value != first->value) return true;
  return false;
}

/// Rows of each curve, by size.
std::map<std::string, std::vector<size_t>> curves_by_size(const FormulaContext& context) {
  std::map<std::string, std::vector<size_t>> curves;
  for (size_t row = 0; row < context.table.rows.size(); ++row) curves[context.groups[row]].push_back(row);
  const char* size = context.size_column();
  for (auto& [name, rows] : curves)
    std::stable_sort(rows.begin(), rows.end(),
                     [&](size_t a, size_t b) { return context.at(a, size).value < context.at(b, size).value; });
  return curves;
}

/// Is the time that of a whole work, in a known unit, on a known number of nodes?
bool costs_node_hours(const FormulaContext& context, const TableTimes& times) {
  return times.column == kSolutionTime && context.solution_unit_s > 0 && context.has("nodes");
}

bool is_equal(const std::optional<ToldWork>& work) { return !work || work->work == TimedWork::kEqual; }

/// N / N0 where the work grows with the size, else 1.
Printed share_of_work(const FormulaContext& context, const TableTimes& times, size_t row) {
  const char* size = context.size_column();
  return is_equal(times.work[row]) ? exact(1) : context.at(row, size) / context.at_base(row, size);
}

/// Which of the two formulas a table needs; both where it has both kinds of curves.
std::string text_of(const TableTimes& times, const std::string& equal, const std::string& growing) {
  const auto num_equal = static_cast<size_t>(std::count_if(times.work.begin(), times.work.end(), is_equal));
  if (num_equal == times.work.size()) return equal + ", the work being the same at every size";
  if (num_equal == 0) return growing + " (weak scaling)";
  return equal + " (strong scaling), " + growing + " (weak scaling)";
}

Formula speedup_of_times(const TableTimes& times, const std::string& size) {
  const std::string ratio = "time of the base over the row's";
  return {"speedup", text_of(times, ratio, ratio + " x " + size + " over those of the base"),
          [times](const FormulaContext& c, size_t row) {
            return c.at_base(row, times.column) / c.at(row, times.column) * share_of_work(c, times, row);
          },
          true};
}

Formula efficiency_of_times(const TableTimes& times, const std::string& size) {
  const std::string ratio = "time of the base over the row's";
  return {"efficiency_pct", text_of(times, ratio + " / (" + size + " over those of the base) x 100", ratio + " x 100"),
          [times](const FormulaContext& c, size_t row) {
            const char* places = c.size_column();
            return exact(100) * (c.at_base(row, times.column) / c.at(row, times.column)) *
                   share_of_work(c, times, row) / (c.at(row, places) / c.at_base(row, places));
          },
          true};
}
}  // namespace

ToldWork work_of_times(const FormulaContext& context, const std::vector<size_t>& rows, const char* column) {
  const double gain = context.at(rows.front(), column).value / context.at(rows.back(), column).value;
  if (gain > kLeastGainOfEqualWork) return {TimedWork::kEqual, "its times fall as the sizes grow", true};
  return {TimedWork::kGrowsWithSize, "its times do not fall as the sizes grow", true};
}

std::optional<TableTimes> times_of(const FormulaContext& context) {
  if (context.table.rows.empty() || context.size_column() == nullptr || rate_of(context)) return std::nullopt;
  const char* column = context.has(kStepTime) ? kStepTime : context.has(kSolutionTime) ? kSolutionTime : nullptr;
  if (column == nullptr) return std::nullopt;
  TableTimes times{.column = column, .work = std::vector<std::optional<ToldWork>>(context.table.rows.size())};
  const char* size = context.size_column();
  const bool has_batch = context.has("global_batch") || context.has("local_batch");
  for (const auto& [name, rows] : curves_by_size(context)) {
    const bool has_sizes = context.at(rows.front(), size).value < context.at(rows.back(), size).value;
    for (const size_t row : rows) {
      times.work[row] = stated_work(context, row);
      if (times.work[row]) continue;
      if (has_batch && changes_batch(context)) return std::nullopt;
      if (has_batch)
        times.work[row] = ToldWork{TimedWork::kEqual, "its batch is the same at every size"};
      else if (has_sizes)
        times.work[row] = work_of_times(context, rows, column);
    }
  }
  return times;
}

std::vector<std::string> assumed_work(const FormulaContext& context) {
  const auto times = times_of(context);
  if (!times) return {};
  std::vector<std::string> texts;
  std::set<std::string> seen;
  for (size_t row = 0; row < times->work.size(); ++row) {
    const auto& work = times->work[row];
    if (!work || !work->is_assumed || !seen.insert(context.groups[row]).second) continue;
    const bool is_strong = work->work == TimedWork::kEqual;
    const std::string text = fmt::format(
        "Read as {} scaling, since nothing tells the work and {}: '# {} scaling' above the header, or "
        "--scaling {}, says otherwise.",
        is_strong ? "strong" : "weak", work->why, is_strong ? "weak" : "strong", is_strong ? "weak" : "strong");
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

std::vector<Formula> time_formulas_of(const FormulaContext& context) {
  const auto times = times_of(context);
  if (!times) return {};
  const char* size = context.size_column();
  std::vector<Formula> formulas = {speedup_of_times(*times, size), efficiency_of_times(*times, size)};
  if (costs_node_hours(context, *times))
    formulas.push_back({"node_hours_to_solution", "nodes x time_to_solution in hours",
                        [hours = context.solution_unit_s / 3600](const FormulaContext& c, size_t row) {
                          return exact(hours) * c.at(row, "nodes") * c.at(row, kSolutionTime);
                        }});
  return formulas;
}

std::string missing_beside_times(const FormulaContext& context) {
  const bool has_times = context.has(kStepTime) || context.has(kSolutionTime);
  if (context.table.rows.empty() || context.size_column() == nullptr || !has_times || rate_of(context)) return "";
  const auto times = times_of(context);
  if (times) {
    const std::string work = "the work done in a time (a rate, or step_time_s with global_batch): ";
    if (costs_node_hours(context, *times)) return work + "no samples/s and MFU";
    const bool lacks_unit = times->column == kSolutionTime && context.has("nodes");
    return work + "no samples/s, node-hours and MFU" +
           (lacks_unit ? "; a unit in the name of the times (walltime_s) gives node-hours" : "");
  }
  return "whether the work grows with the batch, which differs: neither speed-up nor efficiency follow; with equal "
         "work at every size the speed-up is T0/T, with work that grows with the size N/N0 x T0/T: write '# strong "
         "scaling' or '# weak scaling' above the header, or give --scaling";
}

}  // namespace lockstep::published
