// What a report says on a terminal.
#include "analysis/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/collectives.h"
#include "analysis/curve_names.h"
#include "analysis/latency.h"
#include "analysis/tables.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
#include "core/counted.h"
#include "core/strings.h"
#include "draw/render.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kColumns = 80, kMaxProblems = 3;

/// The text, or as much of it as a line has room for and three dots.
std::string one_line(const std::string& text) {
  if (text.size() <= kColumns) return text;
  const size_t end = text.rfind(' ', kColumns - 4);
  return text.substr(0, end == std::string::npos ? kColumns - 4 : end) + " ...";
}

std::string curve_number(const Curve& curve) { return curve.id.substr(curve.id.rfind('-') + 1); }

/// Where each run is: name or number of its curve, else a word on why it is in none.
std::vector<std::string> places_of(const Analysis& analysis, bool names_curves) {
  std::vector<std::string> places(analysis.runs.size(), "benchmark");
  for (const LeftOut& left : analysis.left_out) places[left.run] = "- " + left.word;
  for (const Curve& curve : analysis.curves)
    for (const Point& point : curve.points)
      for (const size_t run : point.runs) {
        const std::string place = names_curves ? curve.name : curve_number(curve);
        places[run] = places[run] == "benchmark" ? place : places[run] + ", " + place;
      }
  return places;
}

/// What tells the size of all runs of a table; nothing where none does.
std::optional<int64_t> record::RunSetup::*size_of_all(const std::vector<RunSummary>& runs) {
  for (const auto count : {&record::RunSetup::devices, &record::RunSetup::nodes})
    if (std::all_of(runs.begin(), runs.end(), [&](const RunSummary& run) { return (run.setup.*count).has_value(); }))
      return count;
  return nullptr;
}

/// In nodes where there are several or nothing else is known, else in devices.
std::string run_size(const record::RunSetup& setup) {
  const bool is_by_nodes = setup.nodes.value_or(0) > 1 || (setup.nodes && !setup.devices);
  const int64_t size = (is_by_nodes ? setup.nodes : setup.devices).value_or(0);
  return size == 0 ? "" : core::counted(static_cast<size_t>(size), is_by_nodes ? "node" : "device");
}

/// "M01 few-steps (1, 2), M06 synthetic-data": the checks of a curve, sorted, with the sizes where not all have them.
std::string curve_checks(const Curve& curve, const Analysis& analysis) {
  std::map<std::string, std::vector<std::string>> sizes_of;
  for (const Flag& flag : analysis.flags)
    if (flag.subject == curve.name) sizes_of[flag.code + " " + flag.name];
  for (const Point& point : curve.points)
    for (const Flag& flag : point.flags) {
      std::vector<std::string>& sizes = sizes_of[flag.code + " " + flag.name];
      if (sizes.empty() || sizes.back() != std::to_string(point.size)) sizes.push_back(std::to_string(point.size));
    }
  std::vector<std::string> parts;
  for (const auto& [check, sizes] : sizes_of)
    parts.push_back(sizes.empty() || sizes.size() == curve.points.size()
                        ? check
                        : fmt::format("{} ({})", check, core::join(sizes, ", ")));
  return core::join(parts, ", ");
}

/// Size, step time and rate of a curve of one size.
std::string size_text_of(const Curve& curve) {
  const Point& point = curve.points.front();
  std::string text = fmt::format("{} {} ms a step, {}", size_text(curve, point.size) + ",",
                                 figure_text(point.estimate.median_ms), core::counted(point.runs.size(), "run"));
  if (std::isfinite(point.samples_per_s.value))
    text += fmt::format(", {} {}", figure_text(point.samples_per_s.value), rate_unit(point));
  if (std::isfinite(point.mfu)) text += fmt::format(", MFU {:.1f} %", 100 * point.mfu);
  return text;
}

/// What became of rate or step time from the smallest to the largest of several sizes.
std::string sizes_text_of(const Curve& curve) {
  const Point &first = curve.points.front(), &last = curve.points.back();
  std::vector<std::string> sizes;
  for (const Point& point : curve.points) sizes.push_back(std::to_string(point.size));
  const bool has_rates = std::isfinite(first.samples_per_s.value) && std::isfinite(last.samples_per_s.value);
  std::string text =
      fmt::format("{}, {} {}s: {} to {} {}", scaling_name(curve.kind), core::join(sizes, ", "), unit_name(curve),
                  figure_text(has_rates ? first.samples_per_s.value : first.estimate.median_ms),
                  figure_text(has_rates ? last.samples_per_s.value : last.estimate.median_ms),
                  has_rates ? rate_unit(last) : "ms a step");
  if (std::isfinite(last.efficiency.value)) text += fmt::format(", efficiency {:.1f} %", 100 * last.efficiency.value);
  if (std::isfinite(last.mfu)) text += fmt::format(", MFU {:.1f} %", 100 * last.mfu);
  return text;
}

/// A curve of one size among several: its numbers and checks in two lines.
std::string short_size_text(const Curve& curve, const Analysis& analysis) {
  const std::string number = fmt::format("[{}] ", curve_number(curve));
  return draw::wrapped(number, fmt::format("{}: {}", curve.name, size_text_of(curve))) +
         draw::wrapped(std::string(number.size(), ' '), curve_checks(curve, analysis));
}

/// A curve over sizes among several: what kind it is, its numbers and what follows from them.
std::string short_curve_text(const Curve& curve, const Analysis& analysis) {
  draw::Table table = short_scaling_table(curve);
  table.title.clear();
  std::string text =
      one_line(fmt::format("[{}] {}", curve_number(curve), curve.name)) + "\n" +
      draw::wrapped("", fmt::format("{}: {}.", capitalised(scaling_name(curve.kind)), curve.kind_reason)) +
      draw::to_text(table);
  const std::vector<std::string> conclusions = conclusions_of(curve, analysis.options);
  if (curve.base && conclusions.size() > 1) text += draw::wrapped("", conclusions[1]);
  return text + draw::wrapped("checks: ", curve_checks(curve, analysis)) + "\n";
}

std::string curve_text(const Curve& curve, const Analysis& analysis) {
  std::string text;
  for (const std::string& sentence : conclusions_of(curve, analysis.options)) text += draw::wrapped("", sentence);
  const auto add = [&](draw::Table table) {
    if (analysis.curves.size() == 1) table.title = capitalised(without_name(table.title, curve.name));
    if (!table.rows.empty()) text += draw::to_text(table) + "\n";
  };
  text += "\n";
  add(short_scaling_table(curve));
  add(phase_table(curve));
  for (const std::string& limit : limits_of(curve)) text += draw::wrapped("note: ", limit);
  return text;
}

/// Notes on curves, each once with the numbers of those that it is about.
std::vector<std::string> curve_notes(const Analysis& analysis) {
  std::map<std::string, std::vector<std::string>> curves_of;
  for (const Curve& curve : analysis.curves)
    for (const std::string& limit : scaling_limits(curve)) curves_of[limit].push_back(curve_number(curve));
  std::vector<std::string> notes;
  for (const auto& [limit, numbers] : curves_of)
    notes.push_back(draw::wrapped("", fmt::format("[{}] {}", core::join(numbers, ", "), limit)));
  return notes;
}

/// Checks of single runs, which no curve tells.
std::vector<std::string> run_checks(const Analysis& analysis) {
  std::vector<std::string> checks;
  const auto is_subject = [](const Flag& flag, const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == flag.subject; });
  };
  for (const Flag& flag : analysis.flags)
    if (is_subject(flag, analysis.runs) && !is_subject(flag, analysis.curves))
      checks.push_back(
          draw::wrapped(fmt::format("check: {} {}: ", flag.code, flag.name), flag.subject + ": " + flag.sentence));
  return checks;
}

/// What other protocols say, and benchmarks of collectives.
std::vector<std::string> other_tables(const Analysis& analysis) {
  std::vector<std::string> tables;
  const auto add = [&](const draw::Table& table) {
    if (!table.rows.empty()) tables.push_back(draw::to_text(table) + "\n");
  };
  for (const Curve& curve : analysis.curves) add(protocol_table(curve, analysis.runs));
  add(collective_summary_table(analysis.runs));
  add(latency_table(analysis.runs));
  return tables;
}

/// What the sources lack, told in full for few curves.
std::string missing_text(const Analysis& analysis, bool is_brief) {
  std::string text;
  std::vector<std::string> names;
  for (const std::string& fact : analysis.missing) {
    names.push_back(fact.substr(0, fact.find(" (")));
    text += draw::wrapped("missing: ", fact);
  }
  return !is_brief || names.empty()
             ? text
             : draw::wrapped("missing: ", core::join(names, ", ") + "; the page says how to give them");
}
size_t num_lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

/// "openclip-vit-...-n4.log": a name in so many columns.
std::string shortened(const std::string& name, size_t width) {
  constexpr std::string_view kBetween = "...";
  if (name.size() <= width) return name;
  const size_t end = (width - kBetween.size()) / 2, begin = width - kBetween.size() - end;
  return name.substr(0, begin) + std::string(kBetween) + name.substr(name.size() - end);
}

/// Shortens the names in the first column to the room that the others leave, so that each run has one line.
void keep_one_line(draw::Table& table) {
  constexpr size_t kGap = 2, kLeastName = 12;
  size_t others = 0;
  for (size_t column = 1; column < table.columns.size(); ++column) {
    size_t width = 0;
    for (const std::string& word : core::split(table.columns[column].title, " ")) width = std::max(width, word.size());
    for (const auto& row : table.rows) width = std::max(width, row[column].text.size());
    others += kGap + width;
  }
  for (auto& row : table.rows)
    row.front().text = shortened(row.front().text, others + kLeastName < kColumns ? kColumns - others : kLeastName);
}

std::string runs_text(const Analysis& analysis) {
  draw::Table runs = run_overview(analysis, false);
  keep_one_line(runs);
  return draw::to_text(runs) + draw::wrapped("", runs.caption) + "\n";
}

/// How much is told of each curve: all, or what follows from it.
enum class Detail { kFull, kShort };

std::string detailed_text(const Analysis& analysis, Detail detail) {
  const bool is_brief = detail == Detail::kShort;
  std::string text = analysis.runs.size() > 1 ? runs_text(analysis) : "", of_one_size;
  for (const Curve& curve : analysis.curves)
    if (!is_brief)
      text += curve_text(curve, analysis);
    else if (curve.points.size() > 1)
      text += short_curve_text(curve, analysis);
    else
      of_one_size += short_size_text(curve, analysis);
  if (!of_one_size.empty()) text += "One size only, so nothing is said about scaling:\n" + of_one_size;
  if (is_brief) text += "\n" + core::join(curve_notes(analysis), "");
  text += core::join(other_tables(analysis), "");
  for (const std::string& problem : source_problems(analysis.runs, is_brief ? kMaxProblems : 4 * kMaxProblems))
    text += draw::wrapped("problem: ", problem);
  for (const std::string& line : left_out_lines(analysis, !is_brief)) text += draw::wrapped("left out: ", line);
  text += missing_text(analysis, is_brief);
  if (analysis.flags.empty()) return text;
  if (is_brief)
    return text + core::join(run_checks(analysis), "") +
           "The page says what each check found and what to do about it.\n";
  for (const std::string& line : check_lines(analysis)) text += draw::wrapped("check: ", line);
  return text + "The page says what to do about each check.\n";
}

/// As many of the entries as have room in so many lines; the rest is counted.
std::string first_entries(const std::vector<std::string>& entries, size_t max_lines, const char* noun) {
  size_t lines = 0, all_lines = 0;
  for (const std::string& entry : entries) all_lines += num_lines(entry);
  std::string text;
  for (size_t i = 0; i < entries.size(); ++i) {
    lines += num_lines(entries[i]);
    if (all_lines > max_lines && lines + 1 > max_lines)
      return text + draw::wrapped("", fmt::format("... {} on the page", core::counted(entries.size() - i, noun)));
    text += entries[i];
  }
  return text;
}

/// What the codes of all checks mean, in one sentence.
std::string check_legend(const Analysis& analysis) {
  std::set<std::string> checks;
  for (const Flag& flag : analysis.flags) checks.insert(flag.code + " " + flag.name);
  if (checks.empty()) return "";
  return draw::wrapped("checks: ", core::join(std::vector<std::string>(checks.begin(), checks.end()), ", ") +
                                       "; the page says what each found");
}

/// Two or three lines for each curve, and of all else the first, so that any number of runs fits.
std::string line_text(const Analysis& analysis) {
  std::vector<std::string> curves, problems, left_out;
  for (const Curve& curve : analysis.curves) {
    std::set<std::string> codes;
    for (const Flag& flag : analysis.flags)
      if (flag.subject == curve.name) codes.insert(flag.code);
    for (const Point& point : curve.points)
      for (const Flag& flag : point.flags) codes.insert(flag.code);
    const std::string numbers = curve.points.size() > 1 ? sizes_text_of(curve) : size_text_of(curve);
    curves.push_back(draw::wrapped(fmt::format("[{}] ", curve_number(curve)),
                                   fmt::format("{}: {}; {}", curve.name, numbers,
                                               core::join(std::vector<std::string>(codes.begin(), codes.end()), " "))));
  }
  for (const std::string& problem : source_problems(analysis.runs, kMaxProblems))
    problems.push_back(draw::wrapped("problem: ", problem));
  for (const std::string& line : left_out_lines(analysis, false)) left_out.push_back(draw::wrapped("left out: ", line));
  constexpr size_t kMaxLines = 6, kMaxTableLines = 12;
  const std::string rest = "\n" + first_entries(curve_notes(analysis), kMaxLines, "more note") +
                           first_entries(other_tables(analysis), kMaxTableLines, "table") +
                           first_entries(problems, kMaxLines, "more problem") +
                           first_entries(left_out, kMaxLines, "more reason") + missing_text(analysis, true) +
                           first_entries(run_checks(analysis), kMaxLines, "more check") + check_legend(analysis);
  const std::string runs = runs_text(analysis);
  const size_t num_used = num_lines(runs) + num_lines(rest);
  return runs + first_entries(curves, kMaxSummaryLines - std::min(num_used, kMaxSummaryLines), "configuration") + rest;
}
}  // namespace

draw::Table run_overview(const Analysis& analysis, bool names_curves) {
  const size_t max_runs = names_curves ? analysis.runs.size() : 40;  // the page has them all
  std::set<std::string> units;
  for (const RunSummary& run : analysis.runs) units.insert(run.setup.sample_unit);
  draw::Table table{.id = "overview",
                    .title = fmt::format("{} in {}", core::counted(analysis.runs.size(), "run"),
                                         core::counted(analysis.curves.size(), "configuration")),
                    .caption = "Rates are those of the median step after warm-up (capability)."};
  if (units.size() > 1)
    table.caption +=
        fmt::format(" Their units: {} a second.", core::join_or(std::vector<std::string>(units.begin(), units.end())));
  const auto size = size_of_all(analysis.runs);
  const char* const unit = size == &record::RunSetup::nodes ? "nodes" : "devices";
  table.columns = {text_column("run", "run"),
                   text_column("state", "state"),
                   size != nullptr ? column(unit, unit) : text_column("size", "size"),
                   column("steps", "steps"),
                   column(units.size() == 1 ? *units.begin() + "/s" : "rate (1/s)", "rate_per_s"),
                   column("last loss", "last_loss"),
                   text_column(names_curves ? "configuration, or why in none" : "curve", "curve")};
  const std::vector<std::string> places = places_of(analysis, names_curves);
  for (size_t i = 0; i < std::min(analysis.runs.size(), max_runs); ++i) {
    const RunSummary& run = analysis.runs[i];
    table.rows.push_back({text_cell(run.name), text_cell(run.state.empty() ? "unknown" : run.state),
                          size != nullptr ? count_cell(*(run.setup.*size)) : text_cell(run_size(run.setup)),
                          count_cell(run.num_steps),
                          run.series ? figure_cell(1e3 * run.samples_per_step / run.series->median_ms) : draw::Cell{},
                          run.last_loss ? figure_cell(*run.last_loss, 4) : draw::Cell{}, text_cell(places[i])});
  }
  if (analysis.runs.size() > max_runs)
    table.notes.push_back(fmt::format("{} more runs are on the page", analysis.runs.size() - max_runs));
  return table;
}

std::string summary_text(const Analysis& analysis) {
  for (const Detail detail : {Detail::kFull, Detail::kShort}) {
    if (detail == Detail::kFull && analysis.curves.size() > kMaxFullCurves) continue;
    std::string text = detailed_text(analysis, detail);
    if (num_lines(text) <= kMaxSummaryLines) return text;
  }
  return line_text(analysis);
}

}  // namespace lockstep::analysis
