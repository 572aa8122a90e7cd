#include "published/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "analysis/analyse.h"
#include "analysis/cells.h"
#include "analysis/curve.h"
#include "analysis/document.h"
#include "analysis/json.h"
#include "analysis/tables.h"
#include "analysis/text.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "published/column_clashes.h"
#include "published/columns.h"
#include "published/flat_rates.h"
#include "published/formulas.h"
#include "published/runs.h"

namespace lockstep::published {
namespace {
namespace fs = std::filesystem;
constexpr double kMaxContradiction = 0.02;
constexpr size_t kMaxContradictions = 100;  // that are listed

const char* verdict_text(CellVerdict verdict) {
  switch (verdict) {
    case CellVerdict::kExact: return "follows";
    case CellVerdict::kUnroundedOnly: return "follows only from values before rounding";
    case CellVerdict::kNot: return "does not follow";
    case CellVerdict::kOtherMeaning: return "follows from its formula, which does not fit what it is called";
  }
  return "";
}

CheckedCell check_cell(const FormulaContext& context, const Formula& formula, size_t row) {
  CheckedCell cell{.row = row, .row_name = context.row_name(row), .column = formula.column, .formula = formula.text};
  cell.printed = context.table.text(row, formula.column);
  const double printed_value = context.table.number(row, formula.column);
  const Printed computed = formula.compute(context, row);
  cell.value = computed.value;
  cell.low = computed.low;
  cell.high = computed.high;
  const size_t exponent = cell.printed.find_first_of("eE");
  if (exponent != std::string::npos) {  // "1.01e16": as many digits of the mantissa
    const int digits = num_decimals(cell.printed.substr(0, exponent));
    cell.recomputed = fmt::format("{:.{}e}", cell.value, digits);
    const bool is_equal = core::parse_double(core::replace_all(cell.recomputed, "e+", "e")) == printed_value;
    const double half_digit = 0.5 * std::pow(10, -num_decimals(cell.printed));
    const bool is_near = cell.high >= printed_value - half_digit && cell.low <= printed_value + half_digit;
    cell.verdict = is_equal                          ? CellVerdict::kExact
                   : is_near && cell.low < cell.high ? CellVerdict::kUnroundedOnly
                                                     : CellVerdict::kNot;
    return cell;
  }
  const int decimals = num_decimals(cell.printed);
  cell.recomputed = fmt::format("{:.{}f}", cell.value, decimals);
  const double half = 0.5 * std::pow(10, -decimals);
  if (cell.recomputed == cell.printed)
    cell.verdict = CellVerdict::kExact;
  else
    cell.verdict = cell.high >= printed_value - half && cell.low <= printed_value + half ? CellVerdict::kUnroundedOnly
                                                                                         : CellVerdict::kNot;
  return cell;
}

draw::Cell printed_cell(const FormulaContext& context, size_t row, const std::string& column) {
  const std::string& text = context.table.text(row, column);
  return {.text = text, .value = core::parse_double(text), .note = {}};
}

bool is_text_column(const core::CsvTable& table, const std::string& column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return !core::parse_double(row[table.column(column)]) && !is_absent(row[table.column(column)]);
  });
}

/// The printed table; after each derived column what its formula gives; at the end what the table lacks.
draw::Table recomputed_table(const FormulaContext& context, const std::vector<Formula>& formulas,
                             const std::vector<Formula>& additions, const std::vector<CheckedCell>& cells) {
  const core::CsvTable& source = context.table;
  draw::Table table{.id = "recomputed-" + source.source.stem().string(),
                    .title = "Recomputed: " + source.source.filename().string(),
                    .caption = core::join(source.comments, " ")};
  for (const std::string& name : source.columns) {
    table.columns.push_back({.title = name, .key = name, .is_text = is_text_column(source, name)});
    for (const Formula& formula : formulas)
      if (formula.column == name) {
        table.columns.push_back(analysis::column(name + ", recomputed", name + "_recomputed"));
        table.notes.push_back(fmt::format("{} = {}", name, formula.text));
      }
  }
  for (const Formula& formula : additions) {
    table.columns.push_back(analysis::column(formula.column + ", added", formula.column));
    table.notes.push_back(fmt::format("{} = {} (not in the source)", formula.column, formula.text));
  }
  using Place = std::pair<size_t, std::string_view>;
  std::set<Place> remarks;
  std::map<Place, const CheckedCell*> checked;
  for (const CheckedCell& cell : cells) {
    const Place place(cell.row, cell.column);
    if (cell.verdict == CellVerdict::kOtherMeaning) remarks.insert(place);
    if (cell.remark.empty()) checked.emplace(place, &cell);
  }
  for (size_t row = 0; row < source.rows.size(); ++row) {
    std::vector<draw::Cell> out;
    for (const std::string& name : source.columns) {
      out.push_back(printed_cell(context, row, name));
      const auto formula =
          std::find_if(formulas.begin(), formulas.end(), [&](const Formula& one) { return one.column == name; });
      if (formula == formulas.end()) continue;
      const auto found = checked.find(Place(row, name));
      if (found == checked.end()) {
        out.push_back(is_absent(source.text(row, name)) ? draw::Cell{}
                                                        : analysis::missing_cell(missing_base(context, row)));
        continue;
      }
      const CheckedCell* cell = found->second;
      out.push_back({.text = cell->recomputed,
                     .value = cell->value,
                     .note = remarks.contains(Place(row, name))     ? verdict_text(CellVerdict::kOtherMeaning)
                             : cell->verdict == CellVerdict::kExact ? ""
                                                                    : verdict_text(cell->verdict)});
    }
    for (const Formula& formula : additions) {
      const std::string missing = formula.has_base ? missing_base(context, row) : "";
      out.push_back(missing.empty() ? analysis::figure_cell(formula.compute(context, row).value)
                                    : analysis::missing_cell(missing));
    }
    table.rows.push_back(std::move(out));
  }
  return table;
}

draw::Table difference_table(const core::CsvTable& source, const std::vector<CheckedCell>& cells) {
  draw::Table table{.id = "differences-" + source.source.stem().string(),
                    .title = "Cells that do not follow: " + source.source.filename().string()};
  table.caption =
      "Range: what the formula gives for all inputs that round to the printed ones. A cell inside it needs the "
      "source's values before rounding; one outside it cannot come from this formula.";
  table.columns = {analysis::text_column("row", "row"),         analysis::text_column("column", "column"),
                   analysis::column("printed", "printed"),      analysis::column("recomputed", "recomputed"),
                   analysis::text_column("range", "range"),     analysis::text_column("verdict", "verdict"),
                   analysis::text_column("formula", "formula"), analysis::text_column("remark", "remark")};
  for (const CheckedCell& cell : cells) {
    if (cell.verdict == CellVerdict::kExact) continue;
    const std::string range = cell.low == cell.high ? ""
                                                    : fmt::format("{} to {}", analysis::figure_text(cell.low, 6),
                                                                  analysis::figure_text(cell.high, 6));
    table.rows.push_back({analysis::text_cell(cell.row_name),
                          analysis::text_cell(cell.column),
                          {.text = cell.printed, .value = core::parse_double(cell.printed), .note = {}},
                          {.text = cell.recomputed, .value = cell.value, .note = {}},
                          analysis::text_cell(range),
                          analysis::text_cell(verdict_text(cell.verdict)),
                          analysis::text_cell(cell.formula),
                          analysis::text_cell(cell.remark)});
  }
  return table;
}

/// Sizes below the base share their work among fewer: their efficiency is above 100 % wherever scaling costs anything.
bool is_below_base(const FormulaContext& context, size_t row) {
  const char* size = context.size_column();
  if (!context.base_nodes || size == nullptr) return false;
  const std::vector<size_t>& base = context.base_rows(row);
  return !base.empty() && context.at(row, size).value <= context.at(base.front(), size).value;
}

/// M09 of each printed and recomputed efficiency and MFU; added ones of rows that have no repeats, since of those their
/// mean counts.
std::vector<std::string> impossible_values(const FormulaContext& context, const PublishedTable& table) {
  std::vector<std::string> found;
  const bool has_repeats = !curves_with_repeats(table.rows).empty();
  const std::vector<draw::Column>& columns = table.recomputed.columns;
  for (size_t index = 0; index < columns.size(); ++index) {
    const std::string& key = columns[index].key;
    const bool is_efficiency = core::starts_with(key, "efficiency_pct"), is_mfu = core::starts_with(key, "mfu_pct");
    const bool is_added = (key == "efficiency_pct" || key == "mfu_pct") && !context.has(key.c_str());
    if ((!is_efficiency && !is_mfu) || (is_added && has_repeats)) continue;
    const double most = is_mfu ? 100 : 100 * analysis::kMaxEfficiency;
    for (size_t row = 0; row < table.recomputed.rows.size(); ++row)
      if (const auto& value = table.recomputed.rows[row][index].value;
          value && *value > most && (is_mfu || !is_below_base(context, row)))
        found.push_back(fmt::format("M09 impossible: {} (line {}), {}: {:.1f} % is above {:.0f} %: {}",
                                    context.row_name(row), context.table.lines.at(row), columns[index].title, *value,
                                    most,
                                    is_mfu ? "check the FLOPs, the peak and the number of devices"
                                           : "the base is too slow, or the work differs; repeat the base"));
  }
  if (!has_repeats) return found;
  for (const analysis::Curve& curve : table.rows.curves)
    for (const analysis::Point& point : curve.points)
      for (const analysis::Flag& flag : point.flags)
        if (flag.code == "M09")
          found.push_back(fmt::format("M09 impossible: {}, {}: {}: {}", flag.subject,
                                      core::counted(point.runs.size(), "row"), flag.sentence, flag.fix));
  return found;
}
}  // namespace

PublishedTable check_published(const fs::path& path, const analysis::AnalysisOptions& options) {
  const ResultTable result = read_result_table(path);
  const core::CsvTable& source = result.table;
  if (source.rows.empty())
    throw DataError(fmt::format("report: '{}' has a header and no rows", path.string()),
                    "give a table with at least one row of results");
  check_positive(result);
  const FormulaContext context = make_context(result, options);
  check_units(context);
  PublishedTable table{.source = path, .printed = source, .given = result.given};
  const std::vector<Formula> formulas = formulas_of(context), additions = additions_to(context);
  for (const Formula& formula : formulas)
    for (size_t row = 0; row < source.rows.size(); ++row)
      if (!is_absent(source.text(row, formula.column)) && !(formula.has_base && context.base_rows(row).empty()))
        table.cells.push_back(check_cell(context, formula, row));
  const std::vector<CheckedCell> meanings = meaning_checks(context);
  table.cells.insert(table.cells.end(), meanings.begin(), meanings.end());
  table.recomputed = recomputed_table(context, formulas, additions, table.cells);
  const auto has_base = [](const Formula& formula) { return formula.has_base; };
  if (std::any_of(formulas.begin(), formulas.end(), has_base) ||
      std::any_of(additions.begin(), additions.end(), has_base))
    table.recomputed.notes.push_back(base_text(context));
  if (formulas.empty() && additions.empty())
    table.recomputed.notes.push_back(
        "No column of this table follows from the others by a formula we know: it is shown as it is.");
  table.rows = analysis::analyse(rows_as_runs(context, options), options);
  check_budget(table.rows);
  table.doubts = impossible_values(context, table);
  for (std::string& text : clash_texts(context)) table.doubts.push_back(std::move(text));
  for (std::string& text : flat_rate_texts(context)) table.doubts.push_back(std::move(text));
  table.recomputed.notes.insert(table.recomputed.notes.begin(), context.notes.begin(), context.notes.end());
  table.recomputed.notes.insert(table.recomputed.notes.begin(), result.notes.begin(), result.notes.end());
  table.assumed = assumed_work(context);
  table.recomputed.notes.insert(table.recomputed.notes.end(), table.assumed.begin(), table.assumed.end());
  table.missing = missing_in(context);
  if (!table.missing.empty())
    table.recomputed.notes.push_back("The table does not tell " + core::join(table.missing, "; ") + ".");
  table.differences = difference_table(source, table.cells);
  return table;
}

std::vector<std::string> limits_of_rows(const analysis::Analysis& rows) {
  std::vector<std::string> all;
  for (const analysis::Curve& curve : rows.curves)
    for (std::string& text : analysis::limits_of(curve))
      if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
  return all;
}

analysis::Analysis rows_of(const std::vector<PublishedTable>& tables, const analysis::AnalysisOptions& options) {
  std::vector<analysis::RunSummary> rows;
  for (const PublishedTable& table : tables) rows.insert(rows.end(), table.rows.runs.begin(), table.rows.runs.end());
  return analysis::analyse(std::move(rows), options);
}

std::vector<std::string> contradictions(const std::vector<PublishedTable>& tables) {
  std::vector<std::string> found;
  for (const PublishedTable& machines : tables)
    for (const PublishedTable& scaling : tables) {
      const core::CsvTable &a = machines.printed, &b = scaling.printed;
      if (!a.find("model") || !a.find("global_batches_per_s_h100") || !b.find("system") || !b.find("samples_per_s") ||
          !b.find("nodes"))
        continue;
      const std::string comments = core::join(b.comments, " ");
      std::multimap<double, size_t> rows_of_nodes;
      for (size_t j = 0; j < b.rows.size(); ++j) rows_of_nodes.emplace(b.number(j, "nodes"), j);
      for (size_t i = 0; i < a.rows.size(); ++i) {
        if (comments.find(a.text(i, "model") + " ") == std::string::npos) continue;
        const auto [begin, end] = rows_of_nodes.equal_range(a.number(i, "nodes"));
        for (auto place = begin; place != end; ++place) {
          const size_t j = place->second;
          const bool is_h100 = b.text(j, "system").find("H100") != std::string::npos;
          const double implied = a.number(i, is_h100 ? "global_batches_per_s_h100" : "global_batches_per_s_a100") *
                                 a.number(i, "global_batch");
          const double printed = b.number(j, "samples_per_s");
          if (std::abs(implied / printed - 1) < kMaxContradiction) continue;
          found.push_back(fmt::format("{}, {}, {} nodes: {} implies {} samples/s, {} prints {}: never mix the two",
                                      a.text(i, "model"), b.text(j, "system"), a.text(i, "nodes"),
                                      machines.source.filename().string(), analysis::fixed_text(implied, 0),
                                      scaling.source.filename().string(), analysis::fixed_text(printed, 0)));
          if (found.size() == kMaxContradictions) {
            found.push_back("More such pairs of rows are not listed.");
            return found;
          }
        }
      }
    }
  return found;
}

std::string difference_text(const CheckedCell& cell) {
  const std::string range = cell.low == cell.high ? ""
                                                  : fmt::format(" ({} to {})", analysis::figure_text(cell.low, 6),
                                                                analysis::figure_text(cell.high, 6));
  return fmt::format("{}, {}: printed {}, the formula gives {}{}: {}{}", cell.row_name, cell.column, cell.printed,
                     cell.recomputed, range, verdict_text(cell.verdict), cell.remark.empty() ? "" : "; " + cell.remark);
}

namespace {
/// Ids of tables differ between the sections of one page.
void add_table(draw::Section& section, draw::Table table, const std::string& suffix) {
  table.id += suffix;
  analysis::add_block(section, std::move(table));
}

bool is_cost_asked(const analysis::AnalysisOptions& options) {
  return options.is_samples_budget_given || options.is_tokens_budget_given || options.is_runs_budget_given ||
         options.price_per_node_hour.has_value();
}

/// Every row with its columns by key: the number, else the text.
core::Json rows_json(const draw::Table& table) {
  core::Json rows = core::Json::array();
  for (const auto& row : table.rows) {
    core::Json one = core::Json::object();
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const draw::Cell& cell = row[column];
      one[table.columns[column].key] = cell.value          ? core::Json(*cell.value)
                                       : cell.text.empty() ? core::Json(nullptr)
                                                           : core::Json(cell.text);
    }
    rows.push_back(std::move(one));
  }
  return rows;
}
}  // namespace

draw::Document published_document(const std::vector<PublishedTable>& tables) {
  draw::Document document{.title = "Tables of results", .subtitle = {}};
  size_t num_cells = 0, num_exact = 0, num_not = 0, num_remarks = 0;
  for (const PublishedTable& table : tables) {
    draw::Section section{.id = table.source.stem().string(), .title = table.source.filename().string()};
    const auto count = [&](CellVerdict verdict) {
      return static_cast<size_t>(std::count_if(table.cells.begin(), table.cells.end(),
                                               [&](const CheckedCell& cell) { return cell.verdict == verdict; }));
    };
    const size_t remarks = count(CellVerdict::kOtherMeaning), derived = table.cells.size() - remarks,
                 exact = count(CellVerdict::kExact);
    num_cells += derived, num_exact += exact, num_not += count(CellVerdict::kNot), num_remarks += remarks;
    for (const analysis::Curve& curve : table.rows.curves)
      if (curve.points.size() > 1) analysis::add_text(section, analysis::conclusions_of(curve, table.rows.options));
    if (derived > 0)
      analysis::add_text(
          section,
          {fmt::format(
              "{} of {} derived cells follow from the printed numbers to the printed digit; the rest are listed.",
              exact, derived)});
    if (remarks > 0)
      analysis::add_text(
          section,
          {fmt::format("{} {} what the text calls {}, whatever its arithmetic; the remarks say why.", remarks,
                       remarks == 1 ? "cell is not" : "cells are not", remarks == 1 ? "it" : "them")},
          draw::Paragraph::Kind::kNote);
    if (!table.assumed.empty()) analysis::add_text(section, table.assumed, draw::Paragraph::Kind::kNote);
    if (!table.missing.empty())
      analysis::add_text(section, {"The table does not tell " + core::join(table.missing, "; ") + "."},
                         draw::Paragraph::Kind::kNote);
    if (!table.doubts.empty()) analysis::add_text(section, table.doubts, draw::Paragraph::Kind::kWarning);
    analysis::add_text(section, limits_of_rows(table.rows), draw::Paragraph::Kind::kNote);
    const std::string suffix = "-" + table.source.stem().string();
    analysis::add_block(section, row_charts(table.rows, suffix));
    for (const analysis::Curve* curve : curves_with_repeats(table.rows))
      add_table(section, analysis::scaling_table(*curve), suffix);
    if (is_cost_asked(table.rows.options))
      for (const analysis::Curve& curve : table.rows.curves)
        add_table(section, analysis::cost_table(curve, table.rows.options), suffix);
    analysis::add_block(section, table.differences);
    analysis::add_block(section, table.recomputed);
    document.sections.push_back(std::move(section));
  }
  document.subtitle = core::counted(tables.size(), "table");
  if (num_cells > 0)
    document.subtitle += fmt::format(
        ", recomputed; of {} derived cells {} follow to the printed digit, {} only from values before rounding, {} do "
        "not; {} have a remark on what they mean",
        num_cells, num_exact, num_cells - num_exact - num_not, num_not, num_remarks);
  if (const auto sentences = contradictions(tables); !sentences.empty()) {
    draw::Section section{.id = "contradictions", .title = "Tables that contradict each other"};
    analysis::add_text(section, sentences, draw::Paragraph::Kind::kWarning);
    document.sections.insert(document.sections.begin(), std::move(section));
  }
  document.data_json = published_json(tables);
  return document;
}

std::string published_json(const std::vector<PublishedTable>& tables) {
  core::Json json = core::Json::array();
  for (const PublishedTable& table : tables) {
    core::Json cells = core::Json::array();
    for (const CheckedCell& cell : table.cells)
      cells.push_back({{"row", cell.row_name},
                       {"column", cell.column},
                       {"formula", cell.formula},
                       {"printed", cell.printed},
                       {"recomputed", cell.recomputed},
                       {"value", cell.value},
                       {"low", cell.low},
                       {"high", cell.high},
                       {"verdict", verdict_text(cell.verdict)},
                       {"remark", cell.remark}});
    json.push_back({{"source", table.source.string()},
                    {"comments", table.printed.comments},
                    {"cells", std::move(cells)},
                    {"rows", rows_json(table.recomputed)},
                    {"sizes", core::parse_json(analysis::analysis_json(table.rows), "analysis").at("curves")},
                    {"notes", table.recomputed.notes},
                    {"doubts", table.doubts}});
  }
  return core::Json{{"tables", std::move(json)}}.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

}  // namespace lockstep::published
