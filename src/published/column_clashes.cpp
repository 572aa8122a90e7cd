#include "published/column_clashes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "analysis/cells.h"
#include "core/strings.h"

namespace lockstep::published {
namespace {

/// What a column should be by others of its row.
struct Clash {
  const char* column = "";
  const char* unit = "";
  std::vector<const char*> by{};  ///< The columns that it is computed from.
  std::function<double(size_t row)> value{};
  bool may_be_multiple = false;  ///< Accumulation, and devices that share a sample, make it a whole multiple or part.
};

/// The pairs whose columns the table has.
std::vector<Clash> clashes_of(const FormulaContext& context) {
  std::vector<Clash> clashes;
  const auto at = [&context](size_t row, const char* column) { return context.at(row, column).value; };
  const auto has = [&context](std::initializer_list<const char*> columns) {
    return std::all_of(columns.begin(), columns.end(), [&](const char* column) { return context.has(column); });
  };
  const char* devices = context.device_column();
  const auto add_total = [&](const char* total, const char* share) {
    if (devices == nullptr || !has({total, share})) return;
    clashes.push_back(
        {total, "", {share, devices}, [=](size_t row) { return at(row, share) * at(row, devices); }, false});
  };
  add_total("samples_per_s", "samples_per_s_per_gpu");
  add_total("tokens_per_s", "tokens_per_s_per_gpu");
  if (has({"step_time_s", "samples_per_s", "global_batch"}))
    clashes.push_back({"step_time_s",
                       " s",
                       {"global_batch", "samples_per_s"},
                       [=](size_t row) { return at(row, "global_batch") / at(row, "samples_per_s"); },
                       false});
  else if (devices != nullptr && has({"step_time_s", "samples_per_s", "local_batch"}))
    clashes.push_back({"step_time_s",
                       " s",
                       {"local_batch", devices, "samples_per_s"},
                       [=](size_t row) { return at(row, "local_batch") * at(row, devices) / at(row, "samples_per_s"); },
                       true});
  const bool has_length = !context.table.rows.empty() && sequence_length(context, 0).has_value();
  if (has_length && has({"tokens_per_s", "samples_per_s"}))
    clashes.push_back({"tokens_per_s",
                       "",
                       {"samples_per_s"},
                       [=, &context](size_t row) { return at(row, "samples_per_s") * *sequence_length(context, row); },
                       false});
  return clashes;
}

/// Numbers above zero alone are compared.
bool is_clash(double told, double computed, bool may_be_multiple) {
  constexpr double kMost = 0.05, kSameMultiple = 0.05;
  if (!(told > 0 && computed > 0) || std::fabs(told / computed - 1) <= kMost) return false;
  const double factor = std::max(told / computed, computed / told);
  return !may_be_multiple || std::fabs(factor / std::round(factor) - 1) > kSameMultiple;
}
}  // namespace

std::vector<std::string> clash_texts(const FormulaContext& context, const std::vector<size_t>& rows) {
  constexpr size_t kMostLines = 5;
  std::vector<std::string> texts;
  for (const Clash& clash : clashes_of(context)) {
    std::vector<size_t> found;
    for (const size_t row : rows) {
      const auto is_number = [&](const char* column) {
        return core::parse_double(context.table.text(row, column)).has_value();
      };
      if (!is_number(clash.column) || !std::all_of(clash.by.begin(), clash.by.end(), is_number)) continue;
      if (is_clash(context.at(row, clash.column).value, clash.value(row), clash.may_be_multiple)) found.push_back(row);
    }
    if (found.empty()) continue;
    std::vector<std::string> others, lines;
    for (const char* column : clash.by)
      others.push_back(fmt::format("'{}' {}", context.given_name(column), context.table.text(found.front(), column)));
    for (size_t i = 1; i < std::min(found.size(), kMostLines); ++i)
      lines.push_back(std::to_string(context.table.lines[found[i]]));
    if (found.size() > kMostLines) lines.push_back(fmt::format("{} more", found.size() - kMostLines));
    texts.push_back(fmt::format(
        "Line {}: '{}' is {}{}, but {} give {}{}{}. Which of these columns is wrong, or counts something else?",
        context.table.lines[found.front()], context.given_name(clash.column),
        analysis::figure_text(context.at(found.front(), clash.column).value), clash.unit, core::join(others, " and "),
        analysis::figure_text(clash.value(found.front())), clash.unit,
        lines.empty()
            ? ""
            : fmt::format(" (likewise {} {})", lines.size() == 1 ? "line" : "lines", core::join(lines, ", "))));
  }
  return texts;
}

std::vector<std::string> clash_texts(const FormulaContext& context) {
  std::vector<size_t> rows(context.table.rows.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  return clash_texts(context, rows);
}

}  // namespace lockstep::published
