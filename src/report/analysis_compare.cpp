#include "report/analysis_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "record/statistics.h"
#include "report/analysis_cells.h"
#include "report/analysis_settings.h"

namespace lockstep::report {
namespace {
namespace fs = std::filesystem;
using Runs = std::vector<const RunSummary*>;
using Size = std::pair<int64_t, int64_t>;  // nodes, devices

Runs usable(const std::vector<RunSummary>& all, const char* side, std::vector<std::string>& notes) {
  Runs runs;
  for (const RunSummary& run : all) {
    if (run.setup.is_profiled)
      notes.push_back(fmt::format("{} of {} is left out: a profiler ran", run.name, side));
    else if (!run.series)
      notes.push_back(fmt::format("{} of {} is left out: {}", run.name, side, run.unusable));
    else
      runs.push_back(&run);
  }
  if (runs.empty())
    throw DataError(fmt::format("report: side {} has no run with usable step times ({})", side,
                                notes.empty() ? "nothing was found" : notes.back()),
                    "give a run that has recorded steps");
  return runs;
}

std::map<Size, Runs> by_size(const Runs& runs) {
  std::map<Size, Runs> sizes;
  for (const RunSummary* run : runs) sizes[{run->setup.nodes.value_or(0), run->setup.devices.value_or(0)}].push_back(run);
  return sizes;
}

std::string size_text(const Size& size) {
  if (size.first == 0 && size.second == 0) return "unknown size";
  const auto counted = [](int64_t count, const char* noun) { return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s"); };
  if (size.second == 0) return counted(size.first, "node");
  if (size.first == 0) return counted(size.second, "device");
  return counted(size.first, "node") + ", " + counted(size.second, "device");
}

/// What the user named: the run, or the folder of the repeats.
fs::path path_of(const Runs& runs) {
  fs::path path = (runs.size() == 1 ? runs[0]->source : runs[0]->source.parent_path()).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Names of the sides with enough of their paths to tell them apart.
std::pair<std::string, std::string> side_names(const Runs& a, const Runs& b) {
  fs::path path_a = path_of(a), path_b = path_of(b);
  fs::path name_a = a.size() == 1 ? fs::path(a[0]->name) : path_a.filename(), name_b = b.size() == 1 ? fs::path(b[0]->name) : path_b.filename();
  if (name_a == name_b) name_a = path_a.filename(), name_b = path_b.filename();
  while (name_a == name_b && path_a.has_relative_path() && path_b.has_relative_path()) {
    path_a = path_a.parent_path(), path_b = path_b.parent_path();
    if (path_a.filename().empty() && path_b.filename().empty()) break;
    name_a = path_a.filename() / name_a, name_b = path_b.filename() / name_b;
  }
  return {name_a.string(), name_b.string()};
}

std::string distinct(const Runs& runs, const std::function<std::string(const RunSummary&)>& get) {
  std::vector<std::string> values;
  for (const RunSummary* run : runs)
    if (const std::string value = get(*run); !value.empty() && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  return core::join(values, ", ");
}

/// Recorded options in which the sides differ, in one note.
void note_options(const Runs& a, const Runs& b, std::vector<std::string>& notes) {
  std::vector<Configuration> made;
  std::vector<const Configuration*> all;
  for (const Runs* side : {&a, &b})
    for (const RunSummary* run : *side) made.push_back({.options = configuration_of(*run, true, {}).options, .has_options = !run->options.empty()});
  for (const Configuration& one : made) all.push_back(&one);
  if (const auto differing = differences(all); !differing.empty()) notes.push_back(fmt::format("these options are not the same in all runs: {}", core::join(differing, "; ")));
}

/// Settings in which the sides differ: a comparison is of all of them together.
void note_differences(const Runs& a, const Runs& b, std::vector<std::string>& notes) {
  const auto number = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : std::string(); };
  const std::vector<std::pair<const char*, std::function<std::string(const RunSummary&)>>> settings = {
      {"model", [](const RunSummary& run) { return run.setup.model; }},
      {"precision", [](const RunSummary& run) { return run.setup.precision; }},
      {"device", [](const RunSummary& run) { return run.setup.device; }},
      {"system", [](const RunSummary& run) { return run.setup.system; }},
      {"layout", [](const RunSummary& run) { return run.setup.layout; }},
      {"program", [](const RunSummary& run) { return run.format; }},
      {"nodes", [&](const RunSummary& run) { return number(run.setup.nodes); }},
      {"devices", [&](const RunSummary& run) { return number(run.setup.devices); }},
      {"global batch", [&](const RunSummary& run) { return number(run.setup.global_batch); }},
      {"sequence length", [&](const RunSummary& run) { return number(run.setup.sequence_length); }}};
  for (const auto& [name, get] : settings) {
    const std::string left = distinct(a, get), right = distinct(b, get);
    if (left != right)
      notes.push_back(
          fmt::format("{} differs: A {}, B {}", name, left.empty() ? "unknown" : left, right.empty() ? "unknown" : right));
  }
  note_options(a, b, notes);
}

/// Time of a step, or of a sample where batches differ.
double scale_of(const RunSummary& run, bool is_per_sample) { return is_per_sample ? 1 / run.samples_per_step : 1; }

std::vector<double> run_medians(const Runs& runs, bool is_per_sample) {
  std::vector<double> medians;
  for (const RunSummary* run : runs) medians.push_back(run->series->median_ms * scale_of(*run, is_per_sample));
  return medians;
}

/// The run in the middle of its side.
const RunSummary& middle_run(const Runs& runs) {
  Runs sorted = runs;
  std::sort(sorted.begin(), sorted.end(),
            [](const RunSummary* x, const RunSummary* y) { return x->series->median_ms < y->series->median_ms; });
  return *sorted[(sorted.size() - 1) / 2];
}

std::vector<double> steps_of(const RunSummary& run, bool is_per_sample) {
  std::vector<double> steps = run.measured_ms;
  for (double& ms : steps) ms *= scale_of(run, is_per_sample);
  return steps;
}

std::string verdict_of(const SizeComparison& one, bool is_per_sample) {
  const auto& interval = one.comparison.interval;
  if (one.is_across_sizes)
    return is_per_sample
               ? fmt::format("The sizes differ ({}): a sample takes {} ms in A and {} ms in B (A/B {:.4f}). That follows from the size "
                             "too and says nothing about which setting is faster.",
                             one.size, figure_text(one.a_ms), figure_text(one.b_ms), one.comparison.ratio)
               : fmt::format("The sizes differ ({}) and the samples of a step are unknown: their step times cannot be compared.", one.size);
  const double percent = 100 * std::abs(one.comparison.ratio - 1);
  if (!interval)
    return fmt::format("At {} A took {:.2f} % {} time than B, but there are too few values to tell noise from a difference.",
                       one.size, percent, one.comparison.ratio < 1 ? "less" : "more");
  const std::string range =
      fmt::format("A/B {:.4f}, 95 % interval {:.4f} to {:.4f}", one.comparison.ratio, interval->low, interval->high);
  if (interval->low > 1) return fmt::format("At {} A is slower than B: {:.2f} % more time ({}).", one.size, percent, range);
  if (interval->high < 1) return fmt::format("At {} A is faster than B: {:.2f} % less time ({}).", one.size, percent, range);
  return fmt::format("At {} no difference between A and B can be shown ({}).", one.size, range);
}

SizeComparison compare_size(const std::string& size, bool is_across_sizes, const Runs& a, const Runs& b, bool is_paired, bool is_per_sample,
                            std::vector<std::string>& notes) {
  SizeComparison one{.size = size, .is_across_sizes = is_across_sizes, .num_a = a.size(), .num_b = b.size()};
  std::vector<double> left, right;
  if (is_paired && a.size() != b.size())
    throw UsageError(fmt::format("report: --paired needs as many runs of A as of B at {}, got {} and {}", size, a.size(), b.size()),
                     "leave --paired out, or give the same number of repeats");
  if (std::min(a.size(), b.size()) >= 2) {
    one.basis = is_paired ? "medians of paired runs" : "medians of runs";
    left = run_medians(a, is_per_sample);
    right = run_medians(b, is_per_sample);
    one.comparison = record::compare_samples(left, right, is_paired);
  } else {
    one.basis = "steps of one run each";
    const RunSummary &run_a = middle_run(a), &run_b = middle_run(b);
    left = steps_of(run_a, is_per_sample);
    right = steps_of(run_b, is_per_sample);
    one.comparison = record::compare_samples(left, right, false);
    notes.push_back(
        fmt::format("{}: one side has a single run ({} against {}): the interval holds for these two runs and says nothing about "
                    "how much a repeat would differ",
                    size, run_a.name == run_b.name ? run_a.source.string() : run_a.name,
                    run_a.name == run_b.name ? run_b.source.string() : run_b.name));
  }
  one.a_ms = record::median(left);
  one.b_ms = record::median(right);
  one.verdict = verdict_of(one, is_per_sample);
  return one;
}

Table comparison_table(const SideComparison& sides) {
  Table table{.id = "comparison",
              .title = fmt::format("A = {}, B = {}", sides.name_a, sides.name_b),
              .caption = sides.is_per_sample ? "Milliseconds per sample." : "Milliseconds per step."};
  const std::string unit = sides.is_per_sample ? "ms per sample" : "ms per step";
  table.columns = {text_column("size", "size"), column("runs A", "runs_a"),   column("runs B", "runs_b"),
                   column(fmt::format("A ({})", unit), "a_ms"), column(fmt::format("B ({})", unit), "b_ms"), column("A/B", "ratio"),
                   column("low", "ratio_low"),  column("high", "ratio_high"), text_column("compared", "basis")};
  for (const SizeComparison& one : sides.sizes) {
    const auto& interval = one.comparison.interval;
    table.rows.push_back({text_cell(one.size), count_cell(static_cast<int64_t>(one.num_a)),
                          count_cell(static_cast<int64_t>(one.num_b)), figure_cell(one.a_ms), figure_cell(one.b_ms),
                          fixed_cell(one.comparison.ratio, 4),
                          interval ? fixed_cell(interval->low, 4) : missing_cell("too few values"),
                          interval ? fixed_cell(interval->high, 4) : missing_cell("too few values"), text_cell(one.basis)});
  }
  return table;
}
}  // namespace

SideComparison compare_sides(const std::vector<RunSummary>& all_a, const std::vector<RunSummary>& all_b, bool is_paired) {
  SideComparison sides;
  const Runs a = usable(all_a, "A", sides.notes), b = usable(all_b, "B", sides.notes);
  std::tie(sides.name_a, sides.name_b) = side_names(a, b);
  note_differences(a, b, sides.notes);
  const auto knows_samples = [](const RunSummary* run) {
    return std::isfinite(run->samples_per_step) && run->samples_per_step > 0;
  };
  sides.is_per_sample = std::all_of(a.begin(), a.end(), knows_samples) && std::all_of(b.begin(), b.end(), knows_samples);
  const auto sizes_a = by_size(a), sizes_b = by_size(b);
  if (sizes_a.size() == 1 && sizes_b.size() == 1) {
    const Size size_a = sizes_a.begin()->first, size_b = sizes_b.begin()->first;
    const std::string size =
        size_a == size_b ? size_text(size_a) : fmt::format("{} against {}", size_text(size_a), size_text(size_b));
    sides.sizes.push_back(compare_size(size, size_a != size_b, a, b, is_paired, sides.is_per_sample, sides.notes));
  } else {
    for (const auto& [size, runs] : sizes_a) {
      if (const auto other = sizes_b.find(size); other != sizes_b.end())
        sides.sizes.push_back(compare_size(size_text(size), false, runs, other->second, is_paired, sides.is_per_sample, sides.notes));
      else
        sides.notes.push_back(fmt::format("{}: only A has it", size_text(size)));
    }
    for (const auto& [size, runs] : sizes_b)
      if (!sizes_a.contains(size)) sides.notes.push_back(fmt::format("{}: only B has it", size_text(size)));
  }
  if (sides.sizes.empty()) throw DataError("report: A and B have no size in common", "give runs of the same number of nodes");
  std::vector<std::string> verdicts;
  for (const SizeComparison& one : sides.sizes) verdicts.push_back(one.verdict);
  sides.verdict = core::join(verdicts, "\n");
  sides.table = comparison_table(sides);
  return sides;
}

std::string comparison_json(const SideComparison& sides) {
  core::Json sizes = core::Json::array();
  for (const SizeComparison& one : sides.sizes) {
    core::Json json{{"size", one.size}, {"runs_a", one.num_a}, {"runs_b", one.num_b},           {"basis", one.basis},
                    {"a_ms", one.a_ms}, {"b_ms", one.b_ms},    {"ratio", one.comparison.ratio}, {"verdict", one.verdict},
                    {"sizes_differ", one.is_across_sizes}};
    if (const auto& interval = one.comparison.interval)
      json["interval"] = {interval->low, interval->high}, json["method"] = interval->method;
    sizes.push_back(std::move(json));
  }
  return core::Json{{"a", sides.name_a},
                    {"b", sides.name_b},
                    {"per", sides.is_per_sample ? "sample" : "step"},
                    {"sizes", std::move(sizes)},
                    {"notes", sides.notes}}
      .dump(1, ' ', false, core::Json::error_handler_t::replace);
}

}  // namespace lockstep::report
