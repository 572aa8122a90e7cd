#include "analysis/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "analysis/cells.h"
#include "analysis/curve.h"
#include "analysis/group.h"
#include "analysis/settings.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/strings.h"
#include "stats/series_interval.h"
#include "stats/series_outliers.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
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
  for (const RunSummary* run : runs)
    if (run->state == "stopped") notes.push_back(fmt::format("{} ({})", stopped_text(*run), side));
  if (runs.empty())
    throw DataError(fmt::format("report: side {} has no run with usable step times ({})", side,
                                notes.empty() ? "nothing was found" : notes.back()),
                    "give a run that has recorded steps");
  return runs;
}

std::map<Size, Runs> by_size(const Runs& runs) {
  std::map<Size, Runs> sizes;
  for (const RunSummary* run : runs)
    sizes[{run->setup.nodes.value_or(0), run->setup.devices.value_or(0)}].push_back(run);
  return sizes;
}

using Attributes = std::map<std::string, std::string>;

/// What every source may tell of a run, by name, and its tags.
Attributes facts_of(const RunSummary& run, const Configuration& configuration) {
  const record::RunSetup& setup = run.setup;
  const bool knows_samples = std::isfinite(run.samples_per_step) && run.samples_per_step > 0;
  Attributes facts = configuration.settings;
  facts.insert({{"task", setup.task},
                {"model", setup.model},
                {"system", setup.system},
                {"device", setup.device},
                {"program", run.format},
                {kThreadsPerRank, compute_threads(run, kThreadsPerRank)},
                {"accumulation", std::to_string(setup.accum.value_or(1))},
                {"global batch", setup.global_batch ? std::to_string(*setup.global_batch)
                                 : knows_samples    ? fmt::format("{:.0f}", run.samples_per_step)
                                                    : ""}});
  return facts;
}

/// What runs of one size must share to be repeats.
Attributes attributes_of(const RunSummary& run) {
  const Configuration configuration = configuration_of(run, true, {});
  Attributes all = facts_of(run, configuration);
  for (const Attributes& more : {configuration.options, schedule_options(run)}) all.insert(more.begin(), more.end());
  all["options"] = configuration.has_options ? "recorded" : "not recorded";
  return all;
}

/// Adds the names of what differs among the runs of one side.
void add_varying(const Runs& runs, std::set<std::string>& names) {
  const Attributes first = attributes_of(*runs.front());
  const auto add_missing = [&](const Attributes& one, const Attributes& other) {
    for (const auto& [name, value] : one)
      if (const auto found = other.find(name); found == other.end() || found->second != value) names.insert(name);
  };
  for (const RunSummary* run : runs) {
    const Attributes attributes = attributes_of(*run);
    add_missing(first, attributes);
    add_missing(attributes, first);
  }
}

/// Runs by the values of the named attributes, empty where a run lacks one.
std::map<Attributes, Runs> by_configuration(const Runs& runs, const std::set<std::string>& names) {
  std::map<Attributes, Runs> found;
  for (const RunSummary* run : runs) {
    const Attributes attributes = attributes_of(*run);
    Attributes key;
    for (const std::string& name : names) key[name] = attributes.contains(name) ? attributes.at(name) : "";
    found[key].push_back(run);
  }
  return found;
}

std::string place_text(const std::string& size, const Attributes& key) {
  std::string text = size;
  for (const auto& [name, value] : key) text += fmt::format(", {} {}", name, value.empty() ? "unknown" : value);
  return text;
}

void note_failed(const RunSummary& run, const char* side, bool is_left_out, std::vector<std::string>& notes) {
  const std::string what = fmt::format("{} after {}", failure_text(run), core::counted(run.num_steps, "step"));
  notes.push_back(
      is_left_out ? fmt::format("{} of {} is left out: {}, and whole runs stand beside it", run.name, side, what)
                  : fmt::format("{} of {} is used although {}: no whole run stands beside it", run.name, side, what));
}

/// Failed runs give way to whole ones where there are any; of pairs, both runs go.
void drop_failed_runs(Runs& a, Runs& b, bool is_paired, std::vector<std::string>& notes) {
  const auto is_whole = [](const RunSummary* run) { return !has_failed(*run); };
  if (!is_paired || a.size() != b.size()) {
    for (const auto& [runs, side] : {std::pair(&a, "A"), std::pair(&b, "B")}) {
      const bool has_whole = std::any_of(runs->begin(), runs->end(), is_whole);
      for (const RunSummary* run : *runs)
        if (has_failed(*run)) note_failed(*run, side, has_whole, notes);
      if (has_whole) std::erase_if(*runs, [&](const RunSummary* run) { return !is_whole(run); });
    }
    return;
  }
  Runs left, right;
  for (size_t i = 0; i < a.size(); ++i)
    if (is_whole(a[i]) && is_whole(b[i])) left.push_back(a[i]), right.push_back(b[i]);
  for (size_t i = 0; i < a.size(); ++i) {
    if (!is_whole(a[i])) note_failed(*a[i], "A", !left.empty(), notes);
    if (!is_whole(b[i])) note_failed(*b[i], "B", !left.empty(), notes);
    if (!left.empty() && is_whole(a[i]) != is_whole(b[i])) {
      const bool is_a = is_whole(a[i]);
      notes.push_back(fmt::format("{} of {} is left out: the run it is paired with failed",
                                  is_a ? a[i]->name : b[i]->name, is_a ? "A" : "B"));
    }
  }
  if (!left.empty()) a = left, b = right;
}

std::string size_text(const Size& size) {
  if (size.first == 0 && size.second == 0) return "unknown size";
  if (size.second == 0) return core::counted(size.first, "node");
  if (size.first == 0) return core::counted(size.second, "device");
  return core::counted(size.first, "node") + ", " + core::counted(size.second, "device");
}

/// What the user named; where that is not known, the run or the folder of the repeats.
fs::path path_of(const Runs& runs, const std::string& given) {
  const fs::path path = (!given.empty()     ? fs::absolute(given)
                         : runs.size() == 1 ? runs[0]->source
                                            : runs[0]->source.parent_path())
                            .lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Names of the sides with enough of their paths to tell them apart.
std::pair<std::string, std::string> side_names(fs::path path_a, fs::path path_b) {
  fs::path name_a = path_a.filename(), name_b = path_b.filename();
  while (name_a == name_b && path_a.has_relative_path() && path_b.has_relative_path()) {
    path_a = path_a.parent_path(), path_b = path_b.parent_path();
    if (path_a.filename().empty() && path_b.filename().empty()) break;
    name_a = path_a.filename() / name_a, name_b = path_b.filename() / name_b;
  }
  return {name_a.string(), name_b.string()};
}

/// Recorded options in which the sides differ, in one note.
void note_options(const Runs& a, const Runs& b, std::vector<std::string>& notes) {
  std::vector<Configuration> made;
  std::vector<const Configuration*> all;
  for (const Runs* side : {&a, &b})
    for (const RunSummary* run : *side)
      made.push_back({.options = configuration_of(*run, true, {}).options, .has_options = !run->options.empty()});
  for (const Configuration& one : made) all.push_back(&one);
  if (const auto differing = differences(all); !differing.empty())
    notes.push_back(fmt::format("these options are not the same in all runs: {}", core::join(differing, "; ")));
}

/// Facts in which the sides differ: a comparison is of all of them together.
void note_differences(const Runs& a, const Runs& b, std::vector<std::string>& notes) {
  std::map<std::string, std::array<std::set<std::string>, 2>> values;  // by name, of A and of B
  for (const size_t side : {0, 1})
    for (const RunSummary* run : side == 0 ? a : b) {
      Attributes facts = facts_of(*run, configuration_of(*run, true, {}));
      if (run->setup.nodes) facts["nodes"] = std::to_string(*run->setup.nodes);
      if (run->setup.devices) facts["devices"] = std::to_string(*run->setup.devices);
      for (const auto& [name, value] : facts)
        if (!value.empty()) values[name][side].insert(value);
    }
  const auto text = [](const std::set<std::string>& known) {
    return known.empty() ? "unknown" : core::join(std::vector<std::string>(known.begin(), known.end()), ", ");
  };
  for (const auto& [name, sides] : values)
    if (sides[0] != sides[1])
      notes.push_back(fmt::format("{} differs: A {}, B {}", name, text(sides[0]), text(sides[1])));
  note_options(a, b, notes);
}

/// Time of a step, or of a sample where batches differ.
double scale_of(const RunSummary& run, bool is_per_sample) { return is_per_sample ? 1 / run.samples_per_step : 1; }

/// That of a run as every report tells it.
double median_ms(const RunSummary& run, bool is_per_sample) {
  return run.series->median_ms * scale_of(run, is_per_sample);
}

/// Wall clock per sample over the runs of a side that have a clock, ms; NaN where none has.
double billed_ms(const Runs& runs) {
  double seconds = 0, samples = 0;
  for (const RunSummary* run : runs)
    if (std::isfinite(run->billed_s)) seconds += run->billed_s, samples += run->billed_samples;
  return samples > 0 ? 1e3 * seconds / samples : record::kUnknown;
}

std::vector<double> run_medians(const Runs& runs, bool is_per_sample) {
  std::vector<double> medians;
  for (const RunSummary* run : runs) medians.push_back(median_ms(*run, is_per_sample));
  return medians;
}

/// The run in the middle of its side.
const RunSummary& middle_run(const Runs& runs) {
  Runs sorted = runs;
  std::sort(sorted.begin(), sorted.end(),
            [](const RunSummary* x, const RunSummary* y) { return x->series->median_ms < y->series->median_ms; });
  return *sorted[(sorted.size() - 1) / 2];
}

/// The values behind the median that the report shows of a run.
std::vector<double> steps_of(const RunSummary& run, bool is_per_sample) {
  std::vector<double> steps =
      run.series->block_steps > 1 ? stats::block_means(run.measured_ms, run.series->block_steps) : run.measured_ms;
  for (double& ms : steps) ms *= scale_of(run, is_per_sample);
  return steps;
}

/// Half of the printed digit as a share of the step, the largest over the runs.
double rounding_of(const Runs& runs) {
  double most = 0;
  for (const RunSummary* run : runs) most = std::max(most, run->series->resolution_ms / 2 / run->series->median_ms);
  return most;
}

/// Jobs of the runs; of pairs, both jobs together, which are unknown where one of them is.
std::vector<std::string> jobs_of(const Runs& runs, const Runs* partners) {
  std::vector<std::string> jobs;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string &job = runs[i]->allocation, other = partners ? (*partners)[i]->allocation : job;
    jobs.push_back(job.empty() || other.empty() ? "" : partners ? job + "\n" + other : job);
  }
  return jobs;
}

/// What is compared: one value for each job (of pairs: for each pair of jobs), or where that leaves one of each, what
/// these two hold inside.
struct Sides {
  std::vector<double> a{}, b{};
  std::string basis{}, only_about{};
};

Sides sides_of(const Runs& a, const Runs& b, bool is_paired, bool is_per_sample) {
  const std::vector<double> runs_a = run_medians(a, is_per_sample), runs_b = run_medians(b, is_per_sample);
  Sides sides{.a = stats::values_by_allocation(runs_a, jobs_of(a, is_paired ? &b : nullptr)),
              .b = stats::values_by_allocation(runs_b, jobs_of(b, is_paired ? &a : nullptr))};
  const bool is_reduced = sides.a.size() < a.size() || sides.b.size() < b.size();
  sides.basis = is_reduced ? "values of jobs" : is_paired ? "medians of paired runs" : "medians of runs";
  if (std::max(sides.a.size(), sides.b.size()) >= 2) return sides;
  if (std::min(a.size(), b.size()) >= 2)
    return {.a = runs_a, .b = runs_b, .basis = "medians of the runs of one job each", .only_about = "jobs"};
  return {.a = steps_of(middle_run(a), is_per_sample),
          .b = steps_of(middle_run(b), is_per_sample),
          .basis = "steps of one run each",
          .only_about = "runs"};
}

void note_repeats(const SizeComparison& one, const Runs& a, const Runs& b, const Sides& sides,
                  std::vector<std::string>& notes) {
  if (one.only_about == "runs") {
    const RunSummary &run_a = middle_run(a), &run_b = middle_run(b);
    const bool is_same_name = run_a.name == run_b.name;
    notes.push_back(
        fmt::format("{}: a single run of each side counts ({} against {}): the interval holds for these two runs and "
                    "says nothing about how much a repeat would differ",
                    one.size, is_same_name ? run_a.source.string() : run_a.name,
                    is_same_name ? run_b.source.string() : run_b.name));
    return;
  }
  if (one.only_about == "jobs") {
    notes.push_back(fmt::format(
        "{}: all runs of a side shared one job: the interval says nothing about how much another job would differ",
        one.size));
    return;
  }
  for (const auto& [runs, values, side] : {std::tuple(&a, &sides.a, "A"), std::tuple(&b, &sides.b, "B")}) {
    if (values->size() < runs->size())
      notes.push_back(fmt::format("{}: the {} runs of {} shared jobs and count as {} values", one.size, runs->size(),
                                  side, values->size()));
    if (values->size() == 1)
      notes.push_back(
          fmt::format("{}: {} has a single value, which is given the spread of the other side", one.size, side));
  }
  const auto is_unnamed = [](const RunSummary* run) { return run->allocation.empty(); };
  if (std::any_of(a.begin(), a.end(), is_unnamed) || std::any_of(b.begin(), b.end(), is_unnamed))
    notes.push_back(
        fmt::format("{}: not all runs name their job: whether they are independent repeats cannot be known", one.size));
}

SizeComparison compare_size(const std::string& size, bool is_across_sizes, const Runs& a, const Runs& b, bool is_paired,
                            bool is_per_sample, std::vector<std::string>& notes) {
  SizeComparison one{.size = size, .is_across_sizes = is_across_sizes, .num_a = a.size(), .num_b = b.size()};
  if (is_paired && a.size() != b.size())
    throw UsageError(
        fmt::format("report: --paired needs as many runs of A as of B at {}, got {} and {}", size, a.size(), b.size()),
        "leave --paired out, or give the same number of repeats");
  const Sides sides = sides_of(a, b, is_paired, is_per_sample);
  one.basis = sides.basis;
  one.only_about = sides.only_about;
  const double rounding = std::hypot(rounding_of(a), rounding_of(b));
  if (one.only_about == "runs") {
    one.a_ms = median_ms(middle_run(a), is_per_sample);
    one.b_ms = median_ms(middle_run(b), is_per_sample);
    if (std::min(sides.a.size(), sides.b.size()) >= stats::kMinIntervalValues)  // fewer have no interval
      one.comparison = stats::compare_samples(sides.a, sides.b, false, rounding);
    one.comparison.ratio = one.a_ms / one.b_ms;
    if (auto& interval = one.comparison.interval) {  // that of logarithms, whose median may differ between two values
      interval->low = std::min(interval->low, one.comparison.ratio);
      interval->high = std::max(interval->high, one.comparison.ratio);
    }
  } else {
    one.a_ms = stats::centre_of_runs(sides.a);
    one.b_ms = stats::centre_of_runs(sides.b);
    one.comparison = stats::compare_samples(sides.a, sides.b, is_paired, rounding, stats::SampleKind::kRuns);
  }
  note_repeats(one, a, b, sides, notes);
  if (is_per_sample) one.a_billed_ms = billed_ms(a), one.b_billed_ms = billed_ms(b);
  return one;
}

/// Compares what both sides have at one size; where a side has several configurations, each with its own kind.
void compare_configurations(const std::string& size, bool is_across_sizes, const Runs& a, const Runs& b, bool is_paired,
                            SideComparison& sides) {
  std::set<std::string> names;
  add_varying(a, names);
  add_varying(b, names);
  auto of_a = by_configuration(a, names), of_b = by_configuration(b, names);
  for (auto& [key, runs] : of_a) {
    const std::string place = place_text(size, key);
    const auto other = of_b.find(key);
    if (other == of_b.end()) {
      sides.notes.push_back(fmt::format("{}: only A has it ({} runs)", place, runs.size()));
      continue;
    }
    drop_failed_runs(runs, other->second, is_paired, sides.notes);
    sides.sizes.push_back(
        compare_size(place, is_across_sizes, runs, other->second, is_paired, sides.is_per_sample, sides.notes));
  }
  for (const auto& [key, runs] : of_b)
    if (!of_a.contains(key))
      sides.notes.push_back(fmt::format("{}: only B has it ({} runs)", place_text(size, key), runs.size()));
}

}  // namespace

SideComparison compare_sides(const std::vector<RunSummary>& all_a, const std::vector<RunSummary>& all_b, bool is_paired,
                             const std::string& given_a, const std::string& given_b) {
  SideComparison sides;
  const Runs a = usable(all_a, "A", sides.notes), b = usable(all_b, "B", sides.notes);
  std::tie(sides.name_a, sides.name_b) = side_names(path_of(a, given_a), path_of(b, given_b));
  note_differences(a, b, sides.notes);
  const auto knows_samples = [](const RunSummary* run) {
    return std::isfinite(run->samples_per_step) && run->samples_per_step > 0;
  };
  sides.is_per_sample =
      std::all_of(a.begin(), a.end(), knows_samples) && std::all_of(b.begin(), b.end(), knows_samples);
  if (const std::string& unit = a.front()->setup.sample_unit; !unit.empty()) sides.rate_unit = unit + "/s";
  const auto sizes_a = by_size(a), sizes_b = by_size(b);
  if (sizes_a.size() == 1 && sizes_b.size() == 1) {
    const Size size_a = sizes_a.begin()->first, size_b = sizes_b.begin()->first;
    const std::string size =
        size_a == size_b ? size_text(size_a) : fmt::format("{} against {}", size_text(size_a), size_text(size_b));
    compare_configurations(size, size_a != size_b, a, b, is_paired, sides);
  } else {
    for (const auto& [size, runs] : sizes_a) {
      if (const auto other = sizes_b.find(size); other != sizes_b.end())
        compare_configurations(size_text(size), false, runs, other->second, is_paired, sides);
      else
        sides.notes.push_back(fmt::format("{}: only A has it", size_text(size)));
    }
    for (const auto& [size, runs] : sizes_b)
      if (!sizes_a.contains(size)) sides.notes.push_back(fmt::format("{}: only B has it", size_text(size)));
  }
  if (sides.sizes.empty())
    throw DataError(
        fmt::format("report: A and B have no size and configuration in common ({})", core::join(sides.notes, "; ")),
        "give runs of the same number of nodes, and on each side one configuration or the same ones");
  tell_verdicts(sides);
  return sides;
}

}  // namespace lockstep::analysis
