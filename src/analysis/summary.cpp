// What a report says on a terminal.
#include "analysis/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/collectives.h"
#include "analysis/tables.h"
#include "analysis/tables_runs.h"
#include "analysis/text.h"
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

/// In devices where all runs of a table tell theirs, else in what each tells.
std::string run_size(const record::RunSetup& setup, bool have_all_devices) {
  const bool is_by_nodes = !have_all_devices && (setup.nodes.value_or(0) > 1 || (setup.nodes && !setup.devices));
  const int64_t size = (is_by_nodes ? setup.nodes : setup.devices).value_or(0);
  return size == 0 ? "" : count_text(static_cast<size_t>(size), is_by_nodes ? "node" : "device");
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

/// A curve of one size among many: its numbers and checks in two lines.
std::string size_text_of(const Curve& curve, const Analysis& analysis) {
  const Point& point = curve.points.front();
  std::string text = fmt::format("{} {} ms a step, {}", size_text(curve, point.size) + ",",
                                 figure_text(point.estimate.median_ms), count_text(point.runs.size(), "run"));
  if (std::isfinite(point.samples_per_s.value))
    text += fmt::format(", {} {}", figure_text(point.samples_per_s.value), rate_unit(point));
  if (std::isfinite(point.mfu)) text += fmt::format(", MFU {:.1f} %", 100 * point.mfu);
  const std::string number = fmt::format("[{}] ", curve_number(curve));
  return draw::wrapped(number, fmt::format("{}: {}", curve.name, text)) +
         draw::wrapped(std::string(number.size(), ' '), curve_checks(curve, analysis));
}

/// A curve over sizes among many: what kind it is, its numbers and what follows from them.
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
  text += "\n" + draw::to_text(short_scaling_table(curve)) + "\n";
  if (const draw::Table phases = phase_table(curve); !phases.rows.empty()) text += draw::to_text(phases) + "\n";
  for (const std::string& limit : limits_of(curve)) text += draw::wrapped("note: ", limit);
  return text;
}

/// Notes on curves, each once with the numbers of those that it is about.
std::string curve_notes(const Analysis& analysis) {
  std::map<std::string, std::vector<std::string>> curves_of;
  for (const Curve& curve : analysis.curves)
    for (const std::string& limit : scaling_limits(curve)) curves_of[limit].push_back(curve_number(curve));
  std::string text;
  for (const auto& [limit, numbers] : curves_of)
    text += draw::wrapped(fmt::format("[{}] ", core::join(numbers, ", ")), limit);
  return text;
}

/// Checks of single runs, which no curve tells.
std::string run_checks(const Analysis& analysis) {
  std::string text;
  for (const Flag& flag : analysis.flags)
    if (std::any_of(analysis.runs.begin(), analysis.runs.end(),
                    [&](const RunSummary& run) { return run.name == flag.subject; }))
      text += draw::wrapped(fmt::format("check: {} {}: ", flag.code, flag.name), flag.subject + ": " + flag.sentence);
  return text;
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
}  // namespace

draw::Table run_overview(const Analysis& analysis, bool names_curves) {
  const size_t max_runs = names_curves ? analysis.runs.size() : 40;  // the page has them all
  std::set<std::string> units;
  for (const RunSummary& run : analysis.runs) units.insert(run.setup.sample_unit);
  draw::Table table{.id = "overview",
                    .title = fmt::format("{} in {}", count_text(analysis.runs.size(), "run"),
                                         count_text(analysis.curves.size(), "configuration")),
                    .caption = "Rates are those of the median step after warm-up (capability)."};
  if (units.size() > 1)
    table.caption +=
        fmt::format(" Their units: {} a second.", core::join_or(std::vector<std::string>(units.begin(), units.end())));
  table.columns = {text_column("run", "run"),
                   text_column("state", "state"),
                   text_column("size", "size"),
                   column("steps", "steps"),
                   column(units.size() == 1 ? *units.begin() + "/s" : "rate (1/s)", "rate_per_s"),
                   column("last loss", "last_loss"),
                   text_column(names_curves ? "configuration, or why in none" : "curve", "curve")};
  const std::vector<std::string> places = places_of(analysis, names_curves);
  const bool have_all_devices = std::all_of(analysis.runs.begin(), analysis.runs.end(),
                                            [](const RunSummary& run) { return run.setup.devices.has_value(); });
  for (size_t i = 0; i < std::min(analysis.runs.size(), max_runs); ++i) {
    const RunSummary& run = analysis.runs[i];
    table.rows.push_back({text_cell(run.name), text_cell(run.state.empty() ? "unknown" : run.state),
                          text_cell(run_size(run.setup, have_all_devices)), count_cell(run.num_steps),
                          run.series ? figure_cell(1e3 * run.samples_per_step / run.series->median_ms) : draw::Cell{},
                          run.losses.empty() ? draw::Cell{} : figure_cell(run.losses.back().loss, 4),
                          text_cell(places[i])});
  }
  if (analysis.runs.size() > max_runs)
    table.notes.push_back(fmt::format("{} more runs are on the page", analysis.runs.size() - max_runs));
  return table;
}

std::string summary_text(const Analysis& analysis) {
  const bool is_brief = analysis.curves.size() > kMaxFullCurves;
  std::string text, of_one_size;
  if (analysis.runs.size() > 1) {
    const draw::Table runs = run_overview(analysis, false);
    text += draw::to_text(runs) + draw::wrapped("", runs.caption) + "\n";
  }
  for (const Curve& curve : analysis.curves)
    if (!is_brief)
      text += curve_text(curve, analysis);
    else if (curve.points.size() > 1)
      text += short_curve_text(curve, analysis);
    else
      of_one_size += size_text_of(curve, analysis);
  if (!of_one_size.empty()) text += "One size only, so nothing is said about scaling:\n" + of_one_size;
  if (is_brief) text += "\n" + curve_notes(analysis);
  for (const Curve& curve : analysis.curves)
    if (const draw::Table others = protocol_table(curve, analysis.runs); !others.rows.empty())
      text += draw::to_text(others) + "\n";
  if (const draw::Table collectives = collective_summary_table(analysis.runs); !collectives.rows.empty())
    text += draw::to_text(collectives) + "\n";
  for (const std::string& problem : source_problems(analysis.runs, is_brief ? kMaxProblems : 4 * kMaxProblems))
    text += draw::wrapped("problem: ", problem);
  for (const std::string& line : left_out_lines(analysis, !is_brief)) text += draw::wrapped("left out: ", line);
  text += missing_text(analysis, is_brief);
  if (analysis.flags.empty()) return text;
  if (is_brief) return text + run_checks(analysis) + "The page says what each check found and what to do about it.\n";
  for (const std::string& line : check_lines(analysis)) text += draw::wrapped("check: ", line);
  return text + "The page says what to do about each check.\n";
}

}  // namespace lockstep::analysis
