// From runs to points (same configuration, same size) and from points to curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "analysis/cells.h"
#include "analysis/curve_names.h"
#include "analysis/group.h"
#include "analysis/settings.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/logs.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxUnsized = 8;  // more runs without a size are only listed

/// What the runs of one curve must share whatever else changes.
std::string identity_of(const RunSummary& run) {
  const record::RunSetup& setup = run.setup;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", setup.task, setup.model, setup.system, setup.device, setup.sample_unit,
                     run.format);
}

/// Points of one configuration, before they are parted by batch.
struct Group {
  Configuration configuration{};
  std::vector<Point> points{};
};

std::set<int64_t> sizes_of(const std::vector<Point>& points) {
  std::set<int64_t> sizes;
  for (const Point& point : points) sizes.insert(point.size);
  return sizes;
}

bool same_work(const record::RunSetup& a, const record::RunSetup& b) {
  return a.global_batch == b.global_batch && a.samples_per_device == b.samples_per_device && a.accum == b.accum;
}

void add_run(std::vector<Group>& groups, const RunSummary& run, size_t index, const Configuration& configuration,
             bool is_by_devices) {
  record::RunSetup setup = run.setup;
  complete_batches(setup, run.has_step_time ? run.samples_per_step : NAN);
  auto group =
      std::find_if(groups.begin(), groups.end(), [&](const Group& one) { return one.configuration == configuration; });
  if (group == groups.end()) group = groups.insert(groups.end(), Group{.configuration = configuration});
  const int64_t nodes = setup.nodes.value_or(0), devices = setup.devices.value_or(0);
  for (Point& point : group->points)
    if (point.nodes == nodes && point.devices == devices && same_work(point.setup, setup)) {
      point.runs.push_back(index);
      return;
    }
  Point point{.work_time = run.work_time, .device_word = run.device_word};
  point.nodes = nodes;
  point.devices = devices;
  point.size = is_by_devices ? devices : nodes;
  point.setup = setup;
  point.runs.push_back(index);
  group->points.push_back(std::move(point));
}

std::vector<Group> make_groups(const std::vector<RunSummary>& runs, const std::vector<size_t>& members,
                               bool is_by_devices, const std::set<std::string>& parting) {
  std::vector<Group> groups;
  for (const size_t index : members)
    add_run(groups, runs[index], index, configuration_of(runs[index], is_by_devices, parting), is_by_devices);
  return groups;
}

/// Values of each schedule option over some runs.
std::map<std::string, std::set<std::string>> schedule_values(const std::vector<RunSummary>& runs,
                                                             const std::vector<size_t>& members) {
  std::map<std::string, std::set<std::string>> values;
  for (const size_t index : members)
    for (const auto& [name, value] : schedule_options(runs[index])) values[name].insert(value);
  return values;
}

/// Known values of a fact on compute threads over some runs.
std::set<std::string> thread_values(const std::vector<RunSummary>& runs, const std::vector<size_t>& members,
                                    const char* fact) {
  std::set<std::string> values;
  for (const size_t index : members) values.insert(compute_threads(runs[index], fact));
  values.erase("");
  return values;
}

/// Schedule options, software facts and compute threads that differ between runs of one point, which are then no
/// repeats. Threads may follow the size: of a rank or of a node, what has fewer values over all `members`.
std::set<std::string> parting_names(const std::vector<RunSummary>& runs, const std::vector<size_t>& members,
                                    const std::vector<Group>& groups) {
  std::set<std::string> parting;
  const auto num_values = [&](const char* fact) { return thread_values(runs, members, fact).size(); };
  const size_t per_node = num_values(kThreadsPerNode);
  const char* const threads =
      per_node > 0 && per_node < num_values(kThreadsPerRank) ? kThreadsPerNode : kThreadsPerRank;
  for (const Group& group : groups)
    for (const Point& point : group.points) {
      if (thread_values(runs, point.runs, kThreadsPerRank).size() > 1) parting.insert(threads);
      for (const auto& all : {schedule_values(runs, point.runs), software_values(runs, point.runs)})
        for (const auto& [name, values] : all)
          if (values.size() > 1) parting.insert(name);
    }
  return parting;
}

template <typename Get> bool all_equal(const std::vector<Point>& points, Get get) {
  return std::all_of(points.begin(), points.end(),
                     [&](const Point& point) { return get(point).has_value() && get(point) == get(points.front()); });
}

template <typename Get> bool is_known(const std::vector<Point>& points, Get get) {
  return std::all_of(points.begin(), points.end(), [&](const Point& point) { return get(point).has_value(); });
}

/// Weak, strong or mixed, from what is the same at every size; what is not known is not taken for different.
void label_curve(Curve& curve, const std::vector<std::string>& differing) {
  const auto local = [](const Point& point) { return point.setup.samples_per_device; };
  const auto global = [](const Point& point) { return point.setup.global_batch; };
  const auto accum = [](const Point& point) { return std::optional<int64_t>(point.setup.accum.value_or(1)); };
  const auto micro = [&](const Point& point) -> std::optional<double> {
    if (!local(point)) return std::nullopt;
    return static_cast<double>(*local(point)) / static_cast<double>(*accum(point));
  };
  const auto of_node = [](const Point& point) -> std::optional<double> {
    if (!point.setup.global_batch || point.nodes == 0) return std::nullopt;
    return static_cast<double>(*point.setup.global_batch) / static_cast<double>(point.nodes);
  };
  // Less than one where devices share a sample (tensor and pipeline parallelism).
  const auto of_device = [](const Point& point) -> std::optional<double> {
    if (!point.setup.global_batch || point.devices == 0) return std::nullopt;
    return static_cast<double>(*point.setup.global_batch) / static_cast<double>(point.devices);
  };
  if (sizes_of(curve.points).size() < 2) {
    curve.kind = ScalingKind::kSingle;
    curve.kind_reason = "one size only: nothing is said about scaling";
  } else if (!differing.empty()) {
    curve.kind = ScalingKind::kMixed;
    curve.kind_reason = fmt::format("these change along the curve: {}", core::join(differing, "; "));
  } else if (const auto& times = curve.points.front().work_time) {
    curve.kind = times->grows ? ScalingKind::kWeak : ScalingKind::kStrong;
    curve.kind_reason = fmt::format(
        "{}, {}", times->grows ? "the work grows with the size" : "the work is the same at every size", times->why);
  } else if (all_equal(curve.points, global)) {
    curve.kind = ScalingKind::kStrong;
    curve.kind_reason =
        fmt::format("the global batch is {} at every size, {}", *global(curve.points[0]),
                    all_equal(curve.points, accum)   ? "the local batch shrinks with it"
                    : all_equal(curve.points, micro) ? "so that a rank passes fewer micro-batches at a larger one"
                                                     : "the micro-batch and the accumulation change with it");
  } else if (all_equal(curve.points, local) && all_equal(curve.points, accum)) {
    curve.kind = ScalingKind::kWeak;
    curve.kind_reason =
        fmt::format("the local batch is {} at every size, the global batch grows with it", *local(curve.points[0]));
  } else if (!is_known(curve.points, local) && all_equal(curve.points, of_device) && all_equal(curve.points, accum)) {
    curve.kind = ScalingKind::kWeak;
    curve.kind_reason = fmt::format(
        "the share of a device in the batch is {:.4g} at every size, the global batch grows "
        "with it",
        *of_device(curve.points[0]));
  } else if (!is_known(curve.points, local) && all_equal(curve.points, of_node) && all_equal(curve.points, accum)) {
    curve.kind = ScalingKind::kWeak;
    curve.kind_reason = fmt::format("the batch of a node is {:g} at every size, the global batch grows with it",
                                    *of_node(curve.points[0]));
  } else if (!is_known(curve.points, local)) {
    curve.kind = ScalingKind::kUnknown;
    curve.kind_reason = is_known(curve.points, global)
                            ? "the global batch changes, the local batch is not known at every size"
                            : "neither the local nor the global batch is known at every size";
  } else {
    curve.kind = ScalingKind::kMixed;
    curve.kind_reason = all_equal(curve.points, local)
                            ? "gradient accumulation changes along the curve"
                            : "neither the local nor the global batch is the same at every size";
  }
}

Curve make_curve(std::vector<Point> points, const std::vector<std::string>& differing) {
  Curve curve;
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return std::tuple(a.size, a.devices, a.setup.global_batch) < std::tuple(b.size, b.devices, b.setup.global_batch);
  });
  curve.points = std::move(points);
  label_curve(curve, differing);
  return curve;
}

/// Points of equal key, keys without a value left out.
template <typename Get> std::map<int64_t, std::vector<size_t>> points_by(const std::vector<Point>& points, Get get) {
  std::map<int64_t, std::vector<size_t>> sets;
  for (size_t i = 0; i < points.size(); ++i)
    if (const auto key = get(points[i])) sets[*key].push_back(i);
  return sets;
}

/// Several batches at one size: a weak curve for each local batch, a strong one for each global batch that tells more
/// than the weak ones do.
std::vector<Curve> split_by_batch(std::vector<Point> points) {
  if (sizes_of(points).size() == points.size()) return {make_curve(std::move(points), {})};
  std::vector<Curve> curves;
  std::vector<bool> is_covered(points.size(), false);
  const auto take = [&](const std::vector<size_t>& members, size_t min_sizes) {
    std::vector<Point> chosen;
    bool has_new = false;
    for (const size_t i : members) {
      chosen.push_back(points[i]);
      has_new |= !is_covered[i];
    }
    const size_t num_sizes = sizes_of(chosen).size();
    if (num_sizes != chosen.size() || num_sizes < 2 || (!has_new && num_sizes < min_sizes)) return;
    for (const size_t i : members) is_covered[i] = true;
    curves.push_back(make_curve(std::move(chosen), {}));
  };
  for (const auto& [local, members] :
       points_by(points, [](const Point& point) { return point.setup.samples_per_device; }))
    take(members, 2);
  for (const auto& [global, members] : points_by(points, [](const Point& point) { return point.setup.global_batch; }))
    take(members, 3);
  for (size_t i = 0; i < points.size(); ++i)
    if (!is_covered[i]) curves.push_back(make_curve({points[i]}, {}));
  return curves;
}

/// Several ranks on the cores of one machine: a larger size divides it further and adds nothing.
bool has_shared_cores(const Curve& curve) {
  const bool is_one_machine = std::all_of(curve.points.begin(), curve.points.end(), [](const Point& point) {
    return point.nodes == 1 && is_on_cpu(point.setup);
  });
  return is_one_machine &&
         std::any_of(curve.points.begin(), curve.points.end(), [](const Point& point) { return point.devices > 1; });
}

/// "a: stopped after 11 of 40 steps": such runs count with the steps they have.
void add_stopped(Curve& curve, const std::vector<RunSummary>& runs, const std::vector<size_t>& members) {
  constexpr size_t kMaxNamed = 4;
  std::vector<std::string> stopped;
  for (const size_t index : members)
    if (runs[index].state == "stopped") stopped.push_back(stopped_text(runs[index]));
  if (stopped.empty()) return;
  const size_t num_more = stopped.size() > kMaxNamed ? stopped.size() - kMaxNamed : 0;
  stopped.resize(stopped.size() - num_more);
  curve.stopped.push_back(fmt::format("{}{}.", core::join(stopped, "; "),
                                      num_more > 0 ? fmt::format("; and {} more were stopped", num_more) : ""));
}

/// What a reader must know about the configuration of a curve's runs.
void add_remarks(Curve& curve, const std::vector<RunSummary>& runs, bool has_known_beside) {
  if (curve.shares_cores)
    curve.remarks.emplace_back(
        "The ranks shared the cores of one machine (`launch` or `sweep --local` without accelerators): a larger size "
        "divides the same cores further. Efficiency and speed-up here are of shared cores and say nothing about nodes; "
        "node-hours are those of the one machine.");
  std::vector<size_t> members;
  for (const Point& point : curve.points) members.insert(members.end(), point.runs.begin(), point.runs.end());
  add_stopped(curve, runs, members);
  const auto num_unknown = std::count_if(members.begin(), members.end(), [&](size_t index) {
    return runs[index].options.empty() && runs[index].format != kTableRow;
  });
  if (num_unknown > 1)
    curve.remarks.push_back(
        fmt::format("{} runs here do not tell their options: that they ran one configuration is taken on trust, from "
                    "what their logs and names say.",
                    num_unknown));
  if (num_unknown > 0 && has_known_beside)
    curve.remarks.emplace_back(
        "Runs whose options are not known were not counted as repeats of those whose options are recorded.");
  std::vector<std::string> following;
  for (const auto& [name, values] : schedule_values(runs, members))
    if (values.size() > 1) {
      std::vector<std::string> texts;
      for (const std::string& value : values) texts.push_back(setting_text(value));
      following.push_back(fmt::format("{} ({})", name, core::join(texts, ", ")));
    }
  if (!following.empty())
    curve.remarks.push_back(fmt::format("These options follow the size without changing the work of a step: {}.",
                                        core::join(following, "; ")));
}

/// Failed runs give way to whole ones of the same point.
void drop_failed(Point& point, const std::vector<RunSummary>& runs, std::vector<LeftOut>& left_out) {
  std::vector<size_t> whole;
  for (const size_t index : point.runs)
    if (!has_failed(runs[index])) whole.push_back(index);
  if (whole.empty() || whole.size() == point.runs.size()) return;
  for (const size_t index : point.runs)
    if (has_failed(runs[index]))
      left_out.push_back(
          {index, "failed",
           fmt::format("{} after {}", failure_text(runs[index]),
                       core::counted(static_cast<size_t>(runs[index].num_steps), "step")),
           "the point stands on its other runs; the failed one only shows that this size does not always finish"});
  point.runs = whole;
}

/// Median steps of runs further apart than this are no repeats of one another.
constexpr double kMaxRatio = 100;

/// The most of these runs whose medians lie within kMaxRatio of one another, of equally many
/// the fastest; ascending in time.
std::vector<size_t> agreeing_runs(std::vector<size_t> members, const std::vector<RunSummary>& runs) {
  const auto median_of = [&](size_t index) { return runs[index].series->median_ms; };
  std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) { return median_of(a) < median_of(b); });
  size_t best = 0, best_size = 0;
  for (size_t first = 0, end = 0; first < members.size(); ++first) {
    while (end < members.size() && median_of(members[end]) <= kMaxRatio * median_of(members[first])) ++end;
    if (end - first > best_size) best = first, best_size = end - first;
  }
  return {members.begin() + static_cast<ptrdiff_t>(best), members.begin() + static_cast<ptrdiff_t>(best + best_size)};
}

/// What was left out because runs of one size do not agree, and whether nobody can say which of them to believe.
struct Disagreements {
  std::vector<LeftOut>& left_out;
  std::string first_undecided{};  ///< The words on the first point that was left out as a whole.
};
constexpr const char* kUnitHint = "write the unit into the column's name (step_time_s, step_time_ms)";

/// Runs of one size whose steps differ a hundredfold are not pooled: those that agree stay. Where the unit was guessed
/// most likely that is why, and none stays.
void drop_disagreeing(Point& point, const std::vector<RunSummary>& runs, Disagreements& disagreements) {
  std::vector<size_t> kept = agreeing_runs(point.runs, runs), rest = point.runs;
  std::erase_if(rest, [&](size_t index) { return std::find(kept.begin(), kept.end(), index) != kept.end(); });
  if (rest.empty()) return;
  const auto numbers_of = [&](size_t index, size_t other) {
    return fmt::format(
        "its steps take {:g} ms and those of {}, a run of the same size, {:g} ms: more than {:g}-fold apart they are "
        "no repeats and are not pooled",
        runs[index].series->median_ms, runs[other].name, runs[other].series->median_ms, kMaxRatio);
  };
  const bool is_guessed =
      std::any_of(point.runs.begin(), point.runs.end(), [&](size_t index) { return runs[index].is_unit_guessed; });
  if (!is_guessed) {
    const char* const conclusion = agreeing_runs(rest, runs).size() < kept.size()
                                       ? "the point stands on the runs that agree; what was different in this one must "
                                         "be found out before it counts"
                                       : "no more runs agree with the one than with the other: the point stands on the "
                                         "faster, and a repeat would tell which is the rule";
    for (const size_t index : rest)
      disagreements.left_out.push_back({index, "far off", numbers_of(index, kept.front()), conclusion});
    point.runs = std::move(kept);
    return;
  }
  if (disagreements.first_undecided.empty())
    disagreements.first_undecided =
        fmt::format("{}: {}", runs[rest.front()].name, numbers_of(rest.front(), kept.front()));
  for (const auto& [part, other] : {std::pair(&kept, rest.front()), std::pair(&rest, kept.front())})
    for (const size_t index : *part)
      disagreements.left_out.push_back(
          {index, "unit unknown",
           numbers_of(index, other) +
               "; the unit of the times is unknown, and most likely some are seconds and some milliseconds",
           fmt::format("nothing can be said about this size: {}", kUnitHint)});
  point.runs.clear();
}

/// Settles which runs each point stands on; points without any are gone.
void settle_points(std::vector<Group>& groups, const std::vector<RunSummary>& runs, Disagreements& disagreements) {
  for (Group& group : groups) {
    for (Point& point : group.points) {
      drop_failed(point, runs, disagreements.left_out);
      drop_disagreeing(point, runs, disagreements);
    }
    std::erase_if(group.points, [](const Point& point) { return point.runs.empty(); });
  }
  std::erase_if(groups, [](const Group& group) { return group.points.empty(); });
}

std::vector<Curve> curves_of_identity(const std::vector<RunSummary>& runs, const std::vector<size_t>& members,
                                      bool is_by_devices, Disagreements& disagreements) {
  std::vector<Group> groups = make_groups(runs, members, is_by_devices, {});
  if (const auto parting = parting_names(runs, members, groups); !parting.empty())
    groups = make_groups(runs, members, is_by_devices, parting);
  settle_points(groups, runs, disagreements);
  std::vector<Point> all;
  std::vector<const Configuration*> configurations;
  for (const Group& group : groups) {
    all.insert(all.end(), group.points.begin(), group.points.end());
    configurations.push_back(&group.configuration);
  }
  const bool each_single =
      std::all_of(groups.begin(), groups.end(), [](const Group& group) { return group.points.size() == 1; });
  std::vector<Curve> curves;
  if (groups.size() > 1 && each_single && sizes_of(all).size() == all.size()) {
    std::vector<std::string> differing = differences(configurations);
    std::erase_if(differing, [](const std::string& one) {  // shown by the batches and the accumulation
      return core::starts_with(one, "micro-batch-size (");
    });
    curves.push_back(make_curve(std::move(all), differing));
  } else {
    for (Group& group : groups) {
      for (Curve& curve : split_by_batch(std::move(group.points))) {
        curve.traits = distinction(group.configuration, configurations);
        curves.push_back(std::move(curve));
      }
    }
  }
  const bool has_known =
      std::any_of(groups.begin(), groups.end(), [](const Group& group) { return group.configuration.has_options; });
  for (Curve& curve : curves) {
    curve.is_by_devices = is_by_devices;
    curve.shares_cores = has_shared_cores(curve);
    add_remarks(curve, runs, has_known);
  }
  return curves;
}

/// Sizes are devices when all runs that could share a curve lie on one node (or do not tell their nodes) but on
/// different numbers of devices.
bool is_sized_by_devices(const std::vector<RunSummary>& runs, const std::vector<size_t>& members) {
  std::set<int64_t> nodes, devices;
  for (const size_t index : members) {
    nodes.insert(runs[index].setup.nodes.value_or(0));
    devices.insert(runs[index].setup.devices.value_or(0));
  }
  return nodes.size() == 1 && !devices.contains(0) && (devices.size() > 1 || nodes.contains(0));
}

/// A run of unknown size stands alone: without a size nobody knows what it repeats.
Curve unsized_curve(const std::vector<RunSummary>& runs, size_t index, Disagreements& disagreements) {
  Curve curve = std::move(curves_of_identity(runs, {index}, false, disagreements).front());
  curve.kind_reason =
      "the source does not tell how many nodes it ran on (--meta gives it by the path, --devices-per-node by the "
      "devices)";
  curve.traits.push_back(runs[index].name);
  return curve;
}

}  // namespace

void complete_batches(record::RunSetup& setup, double samples_per_step) {
  if (!setup.global_batch && std::isfinite(samples_per_step) && samples_per_step > 0)
    setup.global_batch = static_cast<int64_t>(std::llround(samples_per_step));
  const bool is_plain = model_parallel_layout(setup.layout).empty();
  if (!setup.global_batch && setup.samples_per_device && setup.devices && is_plain)
    setup.global_batch = *setup.samples_per_device * *setup.devices;
  if (!setup.samples_per_device && setup.global_batch && setup.devices && *setup.devices > 0 && is_plain &&
      *setup.global_batch % *setup.devices == 0)
    setup.samples_per_device = *setup.global_batch / *setup.devices;
}

std::string failure_text(const RunSummary& run) {
  return run.message.empty() ? fmt::format("it {}", run.state) : fmt::format("it {} ({})", run.state, run.message);
}

std::string stopped_text(const RunSummary& run) {
  std::string planned;
  for (const char* option : {"max_steps", "train_iters"})
    if (const auto found = run.options.find(option); found != run.options.end())
      if (const auto steps = core::parse_int(found->second); steps && *steps > run.num_steps)
        planned = fmt::format(" of {}", *steps);
  return fmt::format("{}: stopped after {}{} step{}{}", run.name, run.num_steps, planned,
                     run.num_steps == 1 && planned.empty() ? "" : "s",
                     run.message.empty() ? "" : fmt::format(" ({})", run.message));
}

bool has_failed(const RunSummary& run) { return run.state == "failed" || run.state == "died"; }

std::vector<Curve> group_runs(const std::vector<RunSummary>& runs, std::vector<LeftOut>& left_out) {
  std::map<std::string, std::vector<size_t>> identities;
  for (size_t index = 0; index < runs.size(); ++index) {
    const RunSummary& run = runs[index];
    if (run.setup.is_profiled)
      left_out.push_back(
          {index, "profiled", "a profiler ran",
           "its step times include the profiler's own work: profiles are never mixed with measurements"});
    else if (!run.series && (!run.collective_points.empty() || !run.latency_points.empty()))
      continue;  // these benchmarks have sections of their own
    else if (!run.series)
      left_out.push_back(
          {index, run.only_evaluated ? "evaluation" : "no steps", run.unusable,
           run.format == logs::to_text(logs::LogFormat::kBench)
               ? "a report reads training runs, collectives and latencies; the file itself has the table of this case"
               : "it says nothing about speed"});
    else
      identities[identity_of(run)].push_back(index);
  }
  std::vector<Curve> curves;
  Disagreements disagreements{.left_out = left_out};
  for (auto& [identity, members] : identities) {
    const bool is_by_devices = is_sized_by_devices(runs, members);
    std::vector<size_t> sized, unsized;
    for (const size_t index : members)
      (is_by_devices || runs[index].setup.nodes.value_or(0) > 0 ? sized : unsized).push_back(index);
    std::vector<Curve> found;
    if (!sized.empty()) found = curves_of_identity(runs, sized, is_by_devices, disagreements);
    for (const size_t index : unsized) {
      if (unsized.size() <= kMaxUnsized) {
        found.push_back(unsized_curve(runs, index, disagreements));
        continue;
      }
      left_out.push_back({index, "size unknown", "the source does not tell how many nodes it ran on",
                          "its step times are in the table of runs; it joins a curve once --meta (by the path) or "
                          "--devices-per-node gives the number"});
    }
    for (Curve& curve : found) {
      curve.id = fmt::format("curve-{}", curves.size() + 1);
      curves.push_back(std::move(curve));
    }
  }
  name_curves(curves, runs);
  if (curves.empty() && !disagreements.first_undecided.empty())
    throw DataError(
        fmt::format("report: {}", disagreements.first_undecided),
        fmt::format("most likely one holds seconds and the other milliseconds: {}, or give one of the two only",
                    kUnitHint));
  return curves;
}

}  // namespace lockstep::analysis
