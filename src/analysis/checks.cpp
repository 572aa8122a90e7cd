// The honesty checks: each says what was found with its number and what would mend it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/cells.h"
#include "analysis/checks.h"
#include "analysis/collectives.h"
#include "analysis/peak.h"
#include "analysis/settings.h"
#include "analysis/text.h"
#include "core/counted.h"
#include "core/strings.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
constexpr double kMinEffectiveSteps = 30, kMinMeasuredS = 60;
constexpr double kMaxHalfWidth = 0.02, kMinElbow = 0.5;
constexpr double kMaxBilledRatio = 1.03, kMaxDataStall = 0.02;
constexpr double kMaxSlowestShare = 0.3, kMinStragglerExcess = 0.01;
constexpr double kMaxUnexplained = 0.1, kMinLoss = 0.01;
constexpr double kMaxTelemetry = 0.01;
constexpr size_t kMinRankIntervals = 5;

/// A new check of a point is a row with its function, in a file of its own; one that reads runs or the whole curve has
/// a row alone, and its function is called in check_curve or check_whole.
constexpr CheckInfo kChecks[] = {
    {"M01", "few-steps", "fewer than 30 effective steps, or 60 s, were measured"},
    {"M02", "warm-up", "more than half of a run is warm-up, or its quarters differ"},
    {"M03", "wide-interval",
     "half width of the 95 % interval above 2 %, or no interval; runs that agree better than each of them is known, or "
     "are too short for an interval of their own"},
    {"M04", "single-run", "one job at this size"},
    {"M05", "mixed-config", "work, software or environment changes along the curve"},
    {"M06", "synthetic-data", "the input was made up"},
    {"M07", "dispatch-limited", "single steps show launch pacing"},
    {"M08", "peak-mismatch", "the peak does not fit the device (sparsity, module for die, another number format)"},
    {"M09", "impossible", "efficiency above 102 %, MFU above 100 % of either peak, a bandwidth that no memory has"},
    {"M10", "median-contaminated", "fewer than half of the steps are undisturbed"},
    {"M11", "stall", "capability more than 3 % above billed, or more than 2 % of the time waiting for data"},
    {"M12", "straggler, slow-node",
     "one rank, or one host, is slowest in 30 % of the intervals beyond its share by chance, by at least 1 % of the "
     "step"},
    {"M13", "unexplained", "more than 10 % of the time lost against the base has no phase to its name"},
    {"M14", "base", "the base is missing, flagged itself, or above one node"},
    {"M15", "beyond-evidence", "an application asks for a size that was not measured"},
    {"M16", "profiler-on", "a profiler ran, or a debugging variable was set"},
    {"M17", "skipped, failed-run",
     "a loss was not finite, or steps were skipped because gradients were not; only failed runs at this size"},
    {"M18", "telemetry", "measuring itself, the phase `telemetry` of the steps, took more than 1 % of the step time"},
    {"M19", "unnamed-jobs", "several runs of one size do not all name their job"},
};

/// Share of the intervals above which a rank or host is slow; even ones are the slowest in a share of `chance`.
double max_slowest_share(double chance) { return chance + kMaxSlowestShare * (1 - chance); }

/// Adds flags of one point, all with its name.
struct Adder {
  const Curve& curve;
  Point& point;
  void operator()(const char* code, const char* name, std::string sentence, std::string fix) const {
    point.flags.push_back({code, name, point_name(curve, point), std::move(sentence), std::move(fix)});
  }
};

void check_length(const Adder& add, const std::vector<RunSummary>& runs) {
  double effective = 0, seconds = 0;
  for (const size_t index : add.point.runs) {
    effective += runs[index].series->effective_steps * runs[index].steps_per_row;
    seconds += runs[index].measured_s;
  }
  if (effective < kMinEffectiveSteps || seconds < kMinMeasuredS)
    add("M01", "few-steps",
        fmt::format("{:.1f} effective steps over {:.1f} s were measured; {:.0f} steps and {:.0f} s are wanted",
                    effective, seconds, kMinEffectiveSteps, kMinMeasuredS),
        "run more steps");
}

void check_runs(const Adder& add, const std::vector<RunSummary>& runs) {
  for (const size_t index : add.point.runs) {
    const RunSummary& run = runs[index];
    const stats::SeriesSummary& series = *run.series;
    if (series.is_warmup_too_long)
      add("M02", "warm-up",
          fmt::format("more than half of {} lies in warm-up ({:.0f} of {:.0f} steps)", run.name,
                      static_cast<double>(series.num_warmup_steps) * run.steps_per_row,
                      static_cast<double>(series.num_steps) * run.steps_per_row),
          "run longer, or give --warmup-steps when the detection is wrong");
    else if (!series.is_steady)
      add("M02", "warm-up",
          fmt::format("{} is not steady: the medians of its quarters differ{}", run.name,
                      series.drift_per_1000_steps
                          ? fmt::format(", drift {:+.1f} % per 1,000 steps", 100 * *series.drift_per_1000_steps)
                          : ""),
          "look at its step trace; run longer or on quiet nodes");
    if (series.is_dispatch_limited)
      add("M07", "dispatch-limited",
          fmt::format("single steps of {} show launch pacing, not execution; only sums over blocks hold", run.name),
          "synchronise with the device at least every ten steps");
    if (series.elbow < kMinElbow)
      add("M10", "median-contaminated",
          fmt::format("only {:.0f} % of the steps of {} are undisturbed: its median lies in the tail",
                      100 * series.elbow, run.name),
          "compare minima or repeat on a quieter machine");
    if (run.num_nonfinite_losses > 0)
      add("M17", "skipped",
          fmt::format("{} has {} whose loss is not finite", run.name, core::counted(run.num_nonfinite_losses, "step")),
          "mend the training before trusting its speed");
    if (run.num_skipped_steps > 0)
      add("M17", "skipped",
          fmt::format("{} skipped {}, whose gradients were not finite (the first {} step {})", run.name,
                      core::counted(run.num_skipped_steps, "step"), run.steps_per_row > 1 ? "at or before" : "is",
                      run.first_skipped_step),
          "mend the training, or measure behind the steps in which the loss scale settles");
    if (run.state == "failed" || run.state == "died")
      add("M17", "failed-run",
          fmt::format("{} {}{}; {} of it {} all there is of this size", run.name, run.state,
                      run.message.empty() ? "" : " (" + run.message + ")",
                      core::counted(static_cast<size_t>(run.num_steps), "step"), run.num_steps == 1 ? "is" : "are"),
          "run this size to its end");
  }
}

/// Runs that agree better than each of them is known, and runs without an interval of their own.
void check_own_intervals(const Adder& add, const std::vector<RunSummary>& runs, double half) {
  const RunSummary* widest = nullptr;
  double most = 0;
  size_t num_without = 0;
  for (const size_t index : add.point.runs) {
    const auto& own = runs[index].series->median_interval;
    if (!own)
      ++num_without;
    else if (const double own_half = (own->high - own->low) / 2 / runs[index].series->median_ms; own_half > most)
      most = own_half, widest = &runs[index];
  }
  if (add.point.runs.size() < 2) return;
  if (widest != nullptr && most > kMaxHalfWidth && most > half)
    add("M03", "wide-interval",
        fmt::format("{} by itself is known to +-{:.1f} % only, the point is given as +-{:.1f} %: its {} runs may agree "
                    "by chance",
                    widest->name, 100 * most, 100 * half, add.point.runs.size()),
        "take the larger one for the uncertainty; more steps in each run");
  if (num_without > 0)
    add("M03", "wide-interval",
        fmt::format("{} of {} runs have too few steps for an interval of their own: that they agree may be chance",
                    num_without, add.point.runs.size()),
        "more steps in each run");
}

void check_repeats(const Adder& add, const std::vector<RunSummary>& runs) {
  const Point& point = add.point;
  if (!point.num_allocations)
    add("M19", "unnamed-jobs",
        fmt::format("the {} runs do not all name their job: whether they are independent repeats or shared one cannot "
                    "be known, and the interval takes them for independent",
                    point.runs.size()),
        "repeat in several jobs, with records that name them");
  else if (*point.num_allocations < 2)
    add("M04", "single-run",
        point.runs.size() > 1
            ? fmt::format("{} runs shared one job: the spread between jobs is unknown", point.runs.size())
            : "one run: the spread between runs, usually larger than within one, is unknown",
        "repeat in at least two more jobs, in random order of sizes");
  if (const auto& interval = point.estimate.median_interval) {
    const double half = (interval->high - interval->low) / 2 / point.estimate.median_ms;
    if (half > kMaxHalfWidth)
      add("M03", "wide-interval", fmt::format("the 95 % interval of the step time is +-{:.1f} %", 100 * half),
          "more steps, and more repeats");
    check_own_intervals(add, runs, half);
  } else if (!point.no_interval.empty()) {
    add("M03", "wide-interval", point.no_interval, "find out why they differ, and repeat");
  } else {
    add("M03", "wide-interval", "there are too few steps for an interval", "more steps, and more repeats");
  }
}

/// Of rows of a table, which tell neither steps nor what happened in them.
void check_rows(const Adder& add) {
  const Point& point = add.point;
  if (point.runs.size() < 2) {
    add("M04", "single-run", "one value: how much a repeat would differ is unknown",
        "repeat in at least two more jobs, a row for each");
    return;
  }
  if (!point.num_allocations)
    add("M19", "unnamed-jobs",
        fmt::format("the {} rows do not all name their job: the interval takes them for independent",
                    point.runs.size()),
        "repeat in several jobs, named in a column job");
  if (const auto& interval = point.estimate.median_interval) {
    const double half = (interval->high - interval->low) / 2 / point.estimate.median_ms;
    if (half > kMaxHalfWidth)
      add("M03", "wide-interval",
          fmt::format("the 95 % interval of {} rows is +-{:.1f} %", point.runs.size(), 100 * half), "more repeats");
  } else if (!point.no_interval.empty()) {
    add("M03", "wide-interval", point.no_interval, "find out why they differ, and repeat");
  }
}

void check_work(const Adder& add) {
  const Point& point = add.point;
  if (point.setup.is_synthetic.value_or(false))
    add("M06", "synthetic-data", "the input was made up: reading and decoding cost nothing here",
        "add a control run on real data");
  const double ratio = point.slow_ratio * point.pause_ratio;
  if (ratio > kMaxBilledRatio)
    add("M11", "stall",
        fmt::format(
            "the rate of the median step is {:.1f} % above the billed one: time is lost between or in single steps",
            100 * (ratio - 1)),
        "look at the step trace for checkpoints, evaluations or slow steps");
  if (point.data_wait_share > kMaxDataStall)
    add("M11", "stall", fmt::format("{:.1f} % of the time went into waiting for data", 100 * point.data_wait_share),
        "more loader threads, or faster storage; compare with synthetic data");
}

/// The measurement's own time, which a run without records would not spend.
void check_telemetry(const Adder& add) {
  const auto found = add.point.phases_ms.find("telemetry");
  if (found == add.point.phases_ms.end() || !std::isfinite(found->second)) return;
  const double step_ms = add.point.estimate.mean_ms, share = found->second / step_ms;
  if (share > kMaxTelemetry)
    add("M18", "telemetry",
        fmt::format(
            "measuring itself took {:.1f} % of the step time ({} of {} ms); {:.0f} % is the most that is wanted",
            100 * share, figure_text(found->second, 3), figure_text(step_ms, 3), 100 * kMaxTelemetry),
        "take longer steps (larger batches): the time to record one hardly depends on its length");
}

void check_ranks(const Adder& add, const RunSummary& run) {
  const double max_share = max_slowest_share(1 / static_cast<double>(run.ranks.size()));
  const bool has_one_host = std::all_of(run.ranks.begin(), run.ranks.end(),
                                        [&](const RankShare& rank) { return rank.host == run.ranks.front().host; });
  for (const RankShare& rank : run.ranks) {
    if (rank.slowest_share <= max_share || rank.excess < kMinStragglerExcess) continue;
    add("M12", "straggler",
        fmt::format("rank {}{} of {} was the slowest in {:.0f} % of the intervals, {:.1f} % above the median rank",
                    rank.rank, rank.host.empty() ? "" : " on " + rank.host, run.name, 100 * rank.slowest_share,
                    100 * rank.excess),
        has_one_host ? "look at what else ran on this machine, and at the cores that the ranks were bound to"
                     : "check that node, and exclude it");
  }
}

/// Hosts most of whose ranks are slow: none of these needs to be the slowest often.
void check_hosts(const Adder& add, const RunSummary& run) {
  std::map<std::string, std::vector<const RankShare*>> hosts;
  for (const RankShare& rank : run.ranks) hosts[rank.host].push_back(&rank);
  if (hosts.size() < 2 || hosts.contains("")) return;
  for (const auto& [host, ranks] : hosts) {
    double share = 0;
    std::vector<double> own, others;
    for (const RankShare* rank : ranks) {
      share += rank->slowest_share;
      own.push_back(rank->excess);
    }
    for (const RankShare& rank : run.ranks)
      if (rank.host != host) others.push_back(rank.excess);
    const auto middle =
        own.begin() + static_cast<ptrdiff_t>((own.size() - 1) / 2);  // the lower one: of two ranks both must be slow
    std::nth_element(own.begin(), middle, own.end());
    const double excess = *middle - stats::median(others),
                 chance = static_cast<double>(ranks.size()) / static_cast<double>(run.ranks.size());
    if (ranks.size() < 2 || share <= max_slowest_share(chance) || excess < kMinStragglerExcess) continue;
    add("M12", "slow-node",
        fmt::format("host {} of {} held the slowest rank in {:.0f} % of the intervals; its {} ranks are {:.1f} % above "
                    "those of the other hosts",
                    host, run.name, 100 * share, ranks.size(), 100 * excess),
        "check that node, and exclude it");
  }
}

void check_stragglers(const Adder& add, const std::vector<RunSummary>& runs) {
  for (const size_t index : add.point.runs) {
    if (runs[index].num_rank_intervals < kMinRankIntervals) continue;
    check_ranks(add, runs[index]);
    check_hosts(add, runs[index]);
  }
}

/// Variables whose presence slows a run or changes what it measures.
void check_debugging(const Adder& add, const std::vector<RunSummary>& runs) {
  static const std::map<std::string, std::set<std::string>> kHarmless = {{"NCCL_DEBUG", {"", "WARN", "VERSION"}},
                                                                         {"TORCH_DISTRIBUTED_DEBUG", {"", "OFF"}},
                                                                         {"CUDA_LAUNCH_BLOCKING", {"", "0"}}};
  for (const size_t index : add.point.runs) {
    const auto software = software_facts(runs[index]);  // without what a run on processors does not read
    for (const auto& [name, harmless] : kHarmless) {
      const auto found = software.find(name);
      if (found == software.end() || harmless.contains(found->second)) continue;
      add("M16", "profiler-on", fmt::format("{} ran with {}={}", runs[index].name, name, found->second),
          "unset it for measurements");
    }
  }
}

void check_flops(const Adder& add) {
  const Point& point = add.point;
  if (std::isfinite(point.peak_tflops)) {
    const std::string doubt = peak_doubt(point.setup, {point.peak_tflops, point.peak_text});
    if (!doubt.empty())
      add("M08", "peak-mismatch", doubt, "give the dense peak of this very device with --peak-tflops");
  }
  if (point.mfu > 1)
    add("M09", "impossible", fmt::format("MFU is {:.1f} %", 100 * point.mfu),
        "check --fwd-gflops, the peak and the number of devices");
  if (point.mfu_measured > 1 && point.mfu <= 1)
    add("M09", "impossible",
        fmt::format("the model runs at {:.1f} % of what a matrix product reached on this device",
                    100 * point.mfu_measured),
        "measure the ceiling again");
  const bool is_above_base = add.curve.base && point.size > add.curve.points[*add.curve.base].size;
  if (point.efficiency.value > kMaxEfficiency && is_above_base &&
      (add.curve.kind == ScalingKind::kWeak || add.curve.kind == ScalingKind::kStrong))
    add("M09", "impossible",
        fmt::format("efficiency is {:.1f} %, above {:.0f} %", 100 * point.efficiency.value, 100 * kMaxEfficiency),
        "the base point is too slow, or the work differs; repeat the base");
}

void check_collectives(const Adder& add, const std::vector<RunSummary>& runs) {
  for (const CollectiveRow& row : collective_rows(add.point, runs))
    if (!row.doubt.empty())
      add("M09", "impossible", fmt::format("{} of {:.0f} bytes: {}", row.kind, row.bytes, row.doubt),
          "check what the byte count stands for");
}

/// Time lost per step against the base, and how much of it no phase explains.
void check_explained(const Curve& curve, Point& point) {
  const Point& base = curve.points[*curve.base];
  const auto ideal = ideal_step(curve, point);
  if (!ideal) return;
  const double ideal_ms = ideal->share * base.estimate.mean_ms, loss = point.estimate.mean_ms - ideal_ms;
  if (loss < kMinLoss * ideal_ms) return;
  double explained = 0;
  bool has_phases = false;
  for (const auto& [phase, ms] : point.phases_ms) {
    if (phase == "other" || !std::isfinite(ms) || !base.phases_ms.contains(phase)) continue;
    const double before = base.phases_ms.at(phase);
    if (std::isfinite(before)) explained += ms - ideal->share * before;
    has_phases = true;
  }
  const double share = (loss - explained) / loss;
  const Adder add{curve, point};
  if (!has_phases)
    add("M13", "unexplained",
        fmt::format("steps take {:.1f} ms {} and no phases were recorded to say why", loss, ideal->comparison),
        "record phases (lockstep does), or profile a few steps");
  else if (share > kMaxUnexplained)
    add("M13", "unexplained",
        fmt::format("steps take {:.1f} ms {}; {:.0f} % of that has no cause in the recorded phases", loss,
                    ideal->comparison, 100 * share),
        "profile a few steps at this size");
}

std::vector<std::string> software_differences(const Curve& curve, const std::vector<RunSummary>& runs) {
  std::vector<size_t> members;
  for (const Point& point : curve.points) members.insert(members.end(), point.runs.begin(), point.runs.end());
  const auto values = software_values(runs, members);
  std::vector<std::string> differing;
  for (const auto& [name, set] : values)
    if (set.size() > 1)
      differing.push_back(
          fmt::format("{} ({})", name, core::join(std::vector<std::string>(set.begin(), set.end()), ", ")));
  return differing;
}

std::vector<Flag> check_whole(const Curve& curve, const std::vector<RunSummary>& runs) {
  std::vector<Flag> flags;
  if (curve.kind == ScalingKind::kMixed)
    flags.push_back({"M05", "mixed-config", curve.name,
                     curve.kind_reason + "; only the time per sample may be compared",
                     "keep the local batch (weak) or the global batch (strong) and all else the same"});
  if (const auto differing = software_differences(curve, runs); !differing.empty())
    flags.push_back({"M05", "mixed-config", curve.name,
                     fmt::format("software or environment differs along the curve: {}", core::join(differing, "; ")),
                     "run all sizes with the same software and environment, or say why not"});
  if (!curve.base) {
    flags.push_back(
        {"M14", "base", curve.name, curve.base_reason, "run the base size, or name another with --base-nodes"});
    return flags;
  }
  const Point& base = curve.points[*curve.base];
  if (base.size > 1 && curve.points.size() > 1)
    flags.push_back({"M14", "base", curve.name,
                     fmt::format("the base has {}: what is lost below it is not seen", size_text(curve, base.size)),
                     "run one node too, or state that the model does not fit there"});
  if (const Point* doubted = superlinear_point(curve))
    flags.push_back(
        {"M14", "base", curve.name,
         fmt::format(
             "the efficiency of {:.1f} % at {} is more than there can be: the base is too slow, or the work differs",
             100 * doubted->efficiency.value, size_text(curve, doubted->size)),
         "repeat the base"});
  static const std::set<std::string> kSerious = {"M02", "M07", "M10", "M11", "M12", "M17"};
  for (const Flag& flag : base.flags)
    if (kSerious.contains(flag.code) && curve.points.size() > 1)
      flags.push_back({"M14", "base", curve.name,
                       fmt::format("the base point itself is flagged {} ({}): every efficiency here leans on it",
                                   flag.code, flag.name),
                       "repeat the base"});
  return flags;
}
}  // namespace

std::span<const CheckInfo> known_checks() { return kChecks; }

std::vector<Flag> check_curve(Curve& curve, const std::vector<RunSummary>& runs) {
  for (Point& point : curve.points) {
    const Adder add{curve, point};
    for (const CheckInfo& info : kChecks)
      if (info.check != nullptr) info.check(curve, point);
    if (point.is_of_table) {
      check_rows(add);
      check_flops(add);
      continue;
    }
    check_length(add, runs);
    check_runs(add, runs);
    check_repeats(add, runs);
    check_work(add);
    check_telemetry(add);
    check_stragglers(add, runs);
    check_debugging(add, runs);
    check_flops(add);
    check_collectives(add, runs);
    if (curve.base) check_explained(curve, point);
  }
  return check_whole(curve, runs);
}

}  // namespace lockstep::analysis
