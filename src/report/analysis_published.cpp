#include "report/analysis_published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "report/analysis_cells.h"
#include "report/analysis_charts.h"
#include "report/analysis_curve.h"
#include "report/analysis_document.h"
#include "report/published_columns.h"
#include "report/published_formulas.h"

namespace lockstep::report {
namespace {
namespace fs = std::filesystem;
constexpr double kMaxContradiction = 0.02;

const char* verdict_text(CellVerdict verdict) {
  switch (verdict) {
    case CellVerdict::kExact:
      return "follows";
    case CellVerdict::kUnroundedOnly:
      return "follows only from values before rounding";
    case CellVerdict::kNot:
      return "does not follow";
    case CellVerdict::kOtherMeaning:
      return "follows from its formula, which does not fit what it is called";
  }
  return "";
}

/// Texts of the row up to its first number, and its size: "bf16, 128 gpus".
std::string row_name(const FormulaContext& context, size_t row) {
  std::vector<std::string> parts;
  for (const char* column : {"system", "precision", "model", "term"})
    if (context.has(column)) parts.push_back(context.table.text(row, column));
  for (const char* column : {"nodes", "gpus", "devices", "batch"})
    if (context.has(column)) {
      parts.push_back(fmt::format("{} {}", column, context.table.text(row, column)));
      break;
    }
  return core::join(parts, ", ");
}

CheckedCell check_cell(const FormulaContext& context, const Formula& formula, size_t row) {
  CheckedCell cell{.row = row, .row_name = row_name(context, row), .column = formula.column, .formula = formula.text};
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
    cell.verdict = is_equal ? CellVerdict::kExact : CellVerdict::kNot;
    return cell;
  }
  const int decimals = num_decimals(cell.printed);
  cell.recomputed = fmt::format("{:.{}f}", cell.value, decimals);
  const double half = 0.5 * std::pow(10, -decimals);
  if (cell.recomputed == cell.printed)
    cell.verdict = CellVerdict::kExact;
  else
    cell.verdict =
        cell.high >= printed_value - half && cell.low <= printed_value + half ? CellVerdict::kUnroundedOnly : CellVerdict::kNot;
  return cell;
}

Cell printed_cell(const FormulaContext& context, size_t row, const std::string& column) {
  const std::string& text = context.table.text(row, column);
  return {.text = text, .value = core::parse_double(text), .note = {}};
}

bool is_text_column(const record::Table& table, const std::string& column) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return !core::parse_double(row[table.column(column)]) && !is_absent(row[table.column(column)]); });
}

/// The printed table; after each derived column what its formula gives; at the end what the table lacks.
Table recomputed_table(const FormulaContext& context, const std::vector<Formula>& formulas, const std::vector<Formula>& additions,
                       const std::vector<CheckedCell>& cells) {
  const record::Table& source = context.table;
  Table table{.id = "recomputed-" + source.source.stem().string(),
              .title = "Recomputed: " + source.source.filename().string(),
              .caption = core::join(source.comments, " ")};
  for (const std::string& name : source.columns) {
    table.columns.push_back({.title = name, .key = name, .is_text = is_text_column(source, name)});
    for (const Formula& formula : formulas)
      if (formula.column == name) {
        table.columns.push_back(column(name + ", recomputed", name + "_recomputed"));
        table.notes.push_back(fmt::format("{} = {}", name, formula.text));
      }
  }
  for (const Formula& formula : additions) {
    table.columns.push_back(column(formula.column + ", added", formula.column));
    table.notes.push_back(fmt::format("{} = {} (not in the source)", formula.column, formula.text));
  }
  for (size_t row = 0; row < source.rows.size(); ++row) {
    std::vector<Cell> out;
    for (const std::string& name : source.columns) {
      out.push_back(printed_cell(context, row, name));
      const bool has_remark = std::any_of(cells.begin(), cells.end(), [&](const CheckedCell& cell) {
        return cell.row == row && cell.column == name && cell.verdict == CellVerdict::kOtherMeaning;
      });
      const bool is_formula = std::any_of(formulas.begin(), formulas.end(), [&](const Formula& formula) { return formula.column == name; });
      if (is_formula && is_absent(source.text(row, name))) out.emplace_back();
      for (const CheckedCell& cell : cells)
        if (cell.row == row && cell.column == name && cell.remark.empty())
          out.push_back({.text = cell.recomputed,
                         .value = cell.value,
                         .note = has_remark ? verdict_text(CellVerdict::kOtherMeaning) : cell.verdict == CellVerdict::kExact ? "" : verdict_text(cell.verdict)});
    }
    for (const Formula& formula : additions)
      out.push_back(formula.has_base && context.is_mixed[row] ? missing_cell("the work changes with the size, or its batches contradict each other") : figure_cell(formula.compute(context, row).value));
    table.rows.push_back(std::move(out));
  }
  return table;
}

Table difference_table(const record::Table& source, const std::vector<CheckedCell>& cells) {
  Table table{.id = "differences-" + source.source.stem().string(),
              .title = "Cells that do not follow: " + source.source.filename().string()};
  table.caption =
      "Range: what the formula gives for all inputs that round to the printed ones. A cell inside it needs the source's values "
      "before rounding; one outside it cannot come from this formula.";
  table.columns = {text_column("row", "row"),          text_column("column", "column"), column("printed", "printed"),
                   column("recomputed", "recomputed"), text_column("range", "range"),   text_column("verdict", "verdict"),
                   text_column("formula", "formula"),  text_column("remark", "remark")};
  for (const CheckedCell& cell : cells) {
    if (cell.verdict == CellVerdict::kExact) continue;
    const std::string range =
        cell.low == cell.high ? "" : fmt::format("{} to {}", figure_text(cell.low, 6), figure_text(cell.high, 6));
    table.rows.push_back({text_cell(cell.row_name),
                          text_cell(cell.column),
                          {.text = cell.printed, .value = core::parse_double(cell.printed), .note = {}},
                          {.text = cell.recomputed, .value = cell.value, .note = {}},
                          text_cell(range),
                          text_cell(verdict_text(cell.verdict)),
                          text_cell(cell.formula),
                          text_cell(cell.remark)});
  }
  return table;
}

/// M09 of each printed, recomputed and added efficiency and MFU.
std::vector<std::string> impossible_values(const FormulaContext& context, const Table& recomputed) {
  std::vector<std::string> found;
  for (size_t index = 0; index < recomputed.columns.size(); ++index) {
    const std::string& key = recomputed.columns[index].key;
    const bool is_efficiency = core::starts_with(key, "efficiency_pct"), is_mfu = core::starts_with(key, "mfu_pct");
    if (!is_efficiency && !is_mfu) continue;
    const double most = is_mfu ? 100 : 100 * kMaxEfficiency;
    for (size_t row = 0; row < recomputed.rows.size(); ++row)
      if (const auto& value = recomputed.rows[row][index].value; value && *value > most)
        found.push_back(fmt::format("M09 impossible: {} (line {}), {}: {:.1f} % is above {:.0f} %: {}", row_name(context, row), context.table.lines.at(row),
                                    recomputed.columns[index].title, *value, most,
                                    is_mfu ? "check the FLOPs, the peak and the number of devices" : "the base is too slow, or the work differs; repeat the base"));
  }
  return found;
}

/// A count of a table, bounded to what any run has.
int64_t count_of(double value) {
  constexpr double kMost = 1e15;
  return static_cast<int64_t>(std::clamp(value, 0.0, kMost));
}

/// The rows as runs of one step each, so that the page draws them as it draws measurements.
std::vector<Chart> table_charts(const FormulaContext& context) {
  const auto rate = rate_of(context);
  if (!rate || context.size_column() == nullptr || context.has_contradiction) return {};
  std::vector<RunSummary> runs;
  AnalysisOptions options;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    record::RunData run;
    run.name = row_name(context, row);
    run.format = "table";
    record::RunSetup& setup = run.setup;
    setup.model = context.has("system") ? context.table.text(row, "system") : context.table.source.stem().string();
    setup.precision = context.has("precision") ? context.table.text(row, "precision") : context.facts.precision;
    if (const char* devices = context.device_column()) setup.devices = count_of(context.at(row, devices).value);
    if (context.has("nodes")) setup.nodes = count_of(context.at(row, "nodes").value);
    const double per_s = rate->at(context, row).value;
    double samples = per_s;  // one second's work where the batch is unknown
    if (const auto local = local_batch(context, row)) setup.samples_per_device = count_of(local->value);
    if (const auto global = global_batch(context, row)) samples = global->value;
    if (context.has("global_batch")) setup.global_batch = count_of(samples);
    setup.sample_unit = rate->unit;
    if (rate->unit == "samples") setup.forward_gflops_per_sample = context.facts.forward_gflops;
    if (const auto peak = context.peak(row)) setup.peak_tflops_per_device = *peak;
    setup.peak_source = "as the table says";
    run.steps.step = {0};
    run.steps.num_steps = {1};
    run.steps.step_ms = {1e3 * samples / per_s};
    run.steps.samples = {samples};
    runs.push_back(summarise_run(run, options));
  }
  const Analysis analysis = analyse(std::move(runs), options);
  std::vector<Chart> charts = efficiency_charts(analysis.curves);
  for (auto& more : {throughput_charts(analysis.curves), utilisation_charts(analysis.curves), speedup_charts(analysis.curves)})
    charts.insert(charts.end(), more.begin(), more.end());
  for (Chart& chart : charts) chart.id += "-" + context.table.source.stem().string();
  return charts;
}
}  // namespace

bool is_published_table(const fs::path& path) {
  if ((path.extension() != ".csv" && path.extension() != ".tsv") || !fs::is_regular_file(path)) return false;
  try {
    const auto columns = record::read_table_header(path);
    if (!columns) return false;
    const auto has = [&](std::initializer_list<const char*> names) {
      return std::any_of(columns->begin(), columns->end(), [&](const std::string& column) {
        return std::find(names.begin(), names.end(), known_column(column)) != names.end();
      });
    };
    if (has({"step", "iteration", "iter", "global_step"})) return false;
    if (has({"nodes", "gpus", "devices", "global_batch"})) return true;
    // Steps without a number have nothing but their times.
    return columns->size() > 1 && std::none_of(columns->begin(), columns->end(), [](const std::string& name) {
      const std::string lower = core::to_lower_ascii(name);
      return lower.find("time") != std::string::npos || core::starts_with(lower, "step");
    });
  } catch (const DataError&) {
    return false;
  }
}

PublishedTable check_published(const fs::path& path, const PublishedOptions& options) {
  const ResultTable result = read_result_table(path);
  const record::Table& source = result.table;
  if (source.rows.empty())
    throw DataError(fmt::format("report: '{}' has a header and no rows", path.string()),
                    "give a table with at least one row of results");
  check_positive(result);
  const FormulaContext context = make_context(result, options);
  check_units(context);
  PublishedTable table{.source = path, .printed = source};
  const std::vector<Formula> formulas = formulas_of(context), additions = additions_to(context);
  for (const Formula& formula : formulas)
    for (size_t row = 0; row < source.rows.size(); ++row)
      if (!is_absent(source.text(row, formula.column))) table.cells.push_back(check_cell(context, formula, row));
  const std::vector<CheckedCell> meanings = meaning_checks(context);
  table.cells.insert(table.cells.end(), meanings.begin(), meanings.end());
  table.recomputed = recomputed_table(context, formulas, additions, table.cells);
  const auto has_base = [](const Formula& formula) { return formula.has_base; };
  if (std::any_of(formulas.begin(), formulas.end(), has_base) || std::any_of(additions.begin(), additions.end(), has_base))
    table.recomputed.notes.push_back(base_text(context, [&](size_t row) { return row_name(context, row); }));
  if (formulas.empty())
    table.recomputed.notes.push_back("No column of this table follows from the others by a formula we know: it is shown as it is.");
  table.doubts = impossible_values(context, table.recomputed);
  table.recomputed.notes.insert(table.recomputed.notes.begin(), context.notes.begin(), context.notes.end());
  table.recomputed.notes.insert(table.recomputed.notes.begin(), result.notes.begin(), result.notes.end());
  table.missing = missing_in(context);
  if (!table.missing.empty()) table.recomputed.notes.push_back("The table does not tell " + core::join(table.missing, "; ") + ".");
  table.differences = difference_table(source, table.cells);
  table.charts = table_charts(context);
  return table;
}

std::vector<std::string> contradictions(const std::vector<PublishedTable>& tables) {
  std::vector<std::string> found;
  for (const PublishedTable& machines : tables)
    for (const PublishedTable& scaling : tables) {
      const record::Table &a = machines.printed, &b = scaling.printed;
      if (!a.find("model") || !a.find("global_batches_per_s_h100") || !b.find("system") || !b.find("samples_per_s")) continue;
      for (size_t i = 0; i < a.rows.size(); ++i)
        for (size_t j = 0; j < b.rows.size(); ++j) {
          const bool is_h100 = b.text(j, "system").find("H100") != std::string::npos;
          const bool is_model = core::join(b.comments, " ").find(a.text(i, "model") + " ") != std::string::npos;
          if (!is_model || a.number(i, "nodes") != b.number(j, "nodes")) continue;
          const double implied =
              a.number(i, is_h100 ? "global_batches_per_s_h100" : "global_batches_per_s_a100") * a.number(i, "global_batch");
          const double printed = b.number(j, "samples_per_s");
          if (std::abs(implied / printed - 1) < kMaxContradiction) continue;
          found.push_back(fmt::format("{}, {}, {} nodes: {} implies {} samples/s, {} prints {}: never mix the two",
                                      a.text(i, "model"), b.text(j, "system"), a.text(i, "nodes"),
                                      machines.source.filename().string(), fixed_text(implied, 0),
                                      scaling.source.filename().string(), fixed_text(printed, 0)));
        }
    }
  return found;
}

std::string difference_text(const CheckedCell& cell) {
  const std::string range =
      cell.low == cell.high ? "" : fmt::format(" ({} to {})", figure_text(cell.low, 6), figure_text(cell.high, 6));
  return fmt::format("{}, {}: printed {}, the formula gives {}{}: {}{}", cell.row_name, cell.column, cell.printed, cell.recomputed,
                     range, verdict_text(cell.verdict), cell.remark.empty() ? "" : "; " + cell.remark);
}

Document published_document(const std::vector<PublishedTable>& tables) {
  Document document{.title = "Published tables, recomputed", .subtitle = {}};
  size_t num_cells = 0, num_exact = 0, num_not = 0, num_remarks = 0;
  for (const PublishedTable& table : tables) {
    Section section{.id = table.source.stem().string(), .title = table.source.filename().string(), .blocks = {}};
    const auto count = [&](CellVerdict verdict) {
      return static_cast<size_t>(std::count_if(table.cells.begin(), table.cells.end(), [&](const CheckedCell& cell) { return cell.verdict == verdict; }));
    };
    const size_t remarks = count(CellVerdict::kOtherMeaning), derived = table.cells.size() - remarks, exact = count(CellVerdict::kExact);
    num_cells += derived, num_exact += exact, num_not += count(CellVerdict::kNot), num_remarks += remarks;
    if (derived > 0)
      add_text(section,
               {fmt::format("{} of {} derived cells follow from the printed numbers to the printed digit; the rest are listed.", exact, derived)});
    if (remarks > 0)
      add_text(section, {fmt::format("{} {} what the text calls {}, whatever its arithmetic; the remarks say why.", remarks, remarks == 1 ? "cell is not" : "cells are not",
                                     remarks == 1 ? "it" : "them")}, Paragraph::Kind::kNote);
    if (!table.missing.empty()) add_text(section, {"The table does not tell " + core::join(table.missing, "; ") + "."}, Paragraph::Kind::kNote);
    if (!table.doubts.empty()) add_text(section, table.doubts, Paragraph::Kind::kWarning);
    add_block(section, table.charts);
    add_block(section, table.differences);
    add_block(section, table.recomputed);
    document.sections.push_back(std::move(section));
  }
  document.subtitle =
      fmt::format("{} {}; of {} derived cells {} follow to the printed digit, {} only from values before rounding, {} do not; {} have a remark on what they mean",
                  tables.size(), tables.size() == 1 ? "table" : "tables", num_cells, num_exact, num_cells - num_exact - num_not, num_not, num_remarks);
  if (const auto sentences = contradictions(tables); !sentences.empty()) {
    Section section{.id = "contradictions", .title = "Tables that contradict each other", .blocks = {}};
    add_text(section, sentences, Paragraph::Kind::kWarning);
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
    json.push_back({{"source", table.source.string()}, {"comments", table.printed.comments}, {"cells", std::move(cells)}, {"doubts", table.doubts}});
  }
  return core::Json{{"tables", std::move(json)}}.dump(-1, ' ', false, core::Json::error_handler_t::replace);
}

}  // namespace lockstep::report
