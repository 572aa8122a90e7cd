// Parts of a run's summary that come from other files than its steps, and its epochs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/run.h"
#include "core/strings.h"
#include "record/measured_steps.h"
#include "stats/statistics.h"

namespace lockstep::analysis {
namespace {
/// Meters that do not contain one another: the whole of a device or of a processor package, and its memory.
bool counts_towards_energy(const std::string& meter) {
  return core::starts_with(meter, "nvml") || core::starts_with(meter, "rapl-package") ||
         core::starts_with(meter, "rapl-dram");
}

std::string meter_kind(const std::string& meter) {
  const size_t dash = meter.rfind('-');
  const bool has_number = dash != std::string::npos && core::parse_int(meter.substr(dash + 1)).has_value();
  return has_number ? meter.substr(0, dash) : meter;
}

/// What a rank does by itself; its whole step where the record does not tell the parts.
std::vector<double> work_of(const record::RankTimesRecord& record) {
  if (record.compute_ms.size() != record.step_ms.size()) return record.step_ms;
  std::vector<double> work = record.compute_ms;
  for (size_t rank = 0; rank < work.size(); ++rank)
    if (const double wait = record::value_or_nan(record.data_wait_ms, rank); std::isfinite(wait)) work[rank] += wait;
  return work;
}

/// Own work of every rank in an interval that counts: from `first_step` on, of as many ranks as `num_ranks` (0: any),
/// all known. Else empty.
std::vector<double> counted_work(const record::RankTimesRecord& record, int64_t first_step, size_t num_ranks) {
  if (record.step < first_step || record.step_ms.size() < 2) return {};
  if (num_ranks > 0 && record.step_ms.size() != num_ranks) return {};  // another attempt at another size
  std::vector<double> work = work_of(record);
  if (!std::all_of(work.begin(), work.end(), [](double ms) { return std::isfinite(ms) && ms >= 0; })) return {};
  return work;
}

/// "nvml (8 GPUs, of which the run used 4)" where meters of GPUs that others may have used were added, too.
std::string gpu_scope(const record::RunSetup& setup, const std::map<std::string, std::set<std::string>>& gpus_by_host) {
  size_t num_metered = 0;
  for (const auto& [host, meters] : gpus_by_host) num_metered += meters.size();
  const bool is_known = setup.devices && setup.nodes && static_cast<size_t>(*setup.nodes) == gpus_by_host.size();
  if (is_known && static_cast<size_t>(*setup.devices) == num_metered) return "nvml";
  if (is_known && static_cast<size_t>(*setup.devices) < num_metered)
    return fmt::format("nvml ({} GPUs, of which the run used {}: the energy of all is counted)", num_metered,
                       *setup.devices);
  return fmt::format("nvml ({} GPUs)", num_metered);
}

/// Wall clock of an interval; of records that do not tell it, by the clock of its steps. NaN: unknown.
double seconds_of(const record::SystemInterval& interval, const record::StepColumns& steps) {
  if (interval.seconds) return *interval.seconds;
  if (steps.time_s.size() != steps.size()) return NAN;
  const auto row_of = [&](int64_t step) {
    return static_cast<size_t>(std::lower_bound(steps.step.begin(), steps.step.end(), step) - steps.step.begin());
  };
  const size_t first = row_of(interval.step - interval.num_steps + 1), last = row_of(interval.step);
  if (last >= steps.size() || steps.step[last] != interval.step) return NAN;
  const double begin =
      first > 0 ? steps.time_s[first - 1] : steps.time_s[first] - record::value_or_nan(steps.step_ms, first) / 1e3;
  return steps.time_s[last] - begin;
}

struct EpochSpan {
  size_t first = 0, last = 0;
  double samples = 0;
};

/// Rows of each epoch in order; empty when epochs are unknown or come again.
std::vector<std::pair<int, EpochSpan>> epoch_spans(const record::StepColumns& steps) {
  std::vector<std::pair<int, EpochSpan>> spans;
  if (steps.epoch.size() != steps.size() || steps.time_s.size() != steps.size()) return {};
  for (size_t row = 0; row < steps.size(); ++row) {
    if (steps.epoch[row] < 0 || !std::isfinite(steps.time_s[row])) return {};
    if (spans.empty() || spans.back().first != steps.epoch[row]) {
      if (!spans.empty() && steps.epoch[row] < spans.back().first) return {};
      spans.push_back({steps.epoch[row], {row, row, 0}});
    }
    EpochSpan& span = spans.back().second;
    span.last = row;
    if (row < steps.samples.size() && std::isfinite(steps.samples[row]))
      span.samples += steps.samples[row] * record::steps_since_row_before(steps, row);
  }
  return spans;
}
}  // namespace

std::vector<const record::SystemInterval*> measured_intervals(const record::RunData& run, int64_t first_step) {
  std::vector<const record::SystemInterval*> whole, reaching;
  for (const record::SystemInterval& interval : run.system) {
    if (interval.step - interval.num_steps + 1 >= first_step) whole.push_back(&interval);
    if (interval.step >= first_step) reaching.push_back(&interval);
  }
  return whole.empty() ? reaching : whole;
}

std::optional<EnergyUse> energy_use(const record::RunData& run, int64_t first_step, double samples_per_step) {
  EnergyUse use;
  std::map<std::string, double> steps_by_host;
  std::set<std::string> kinds;
  std::map<std::string, std::set<std::string>> gpus_by_host;
  double seconds = 0;
  for (const record::SystemInterval* interval : measured_intervals(run, first_step)) {
    bool is_metered = false;
    for (const auto& [meter, joules] : interval->energy_j) {
      if (!counts_towards_energy(meter) || !std::isfinite(joules) || joules < 0) continue;
      use.joules += joules;
      if (core::starts_with(meter, "nvml"))
        gpus_by_host[interval->host].insert(meter);
      else
        kinds.insert(meter_kind(meter));
      is_metered = true;
    }
    if (!is_metered) continue;
    steps_by_host[interval->host] += static_cast<double>(interval->num_steps);
    seconds += seconds_of(*interval, run.steps);
  }
  if (!gpus_by_host.empty()) kinds.insert(gpu_scope(run.setup, gpus_by_host));
  if (steps_by_host.empty() || use.joules <= 0) return std::nullopt;
  double steps = 0;
  for (const auto& [host, count] : steps_by_host) steps += count;
  steps /= static_cast<double>(steps_by_host.size());
  use.num_hosts = steps_by_host.size();
  use.samples = steps * samples_per_step;
  use.seconds = seconds / static_cast<double>(steps_by_host.size());
  use.scope = core::join(std::vector<std::string>(kinds.begin(), kinds.end()), ", ");
  return use;
}

/// Of a log without times of day: the training part of each epoch but the first.
static std::vector<EpochTimes> summed_epochs(const record::RunData& run) {
  std::vector<EpochTimes> epochs;
  const double batch = run.setup.global_batch ? static_cast<double>(*run.setup.global_batch) : record::kUnknown;
  for (auto at = run.epoch_sums.begin(); at != run.epoch_sums.end(); ++at)
    if (at != run.epoch_sums.begin())
      epochs.push_back({.epoch = at->first,
                        .total_s = record::kUnknown,
                        .train_s = at->second.seconds,
                        .samples = batch * static_cast<double>(at->second.num_steps)});
  return epochs;
}

std::vector<EpochTimes> epoch_times(const record::RunData& run) {
  const auto spans = epoch_spans(run.steps);
  if (spans.empty()) return summed_epochs(run);
  std::vector<EpochTimes> epochs;
  for (size_t i = 1; i < spans.size(); ++i) {
    const auto& [epoch, span] = spans[i];
    const EpochSpan& before = spans[i - 1].second;
    // The last epoch is whole only when it is as long as the others.
    if (i + 1 == spans.size() && span.samples < 0.999 * before.samples) continue;
    const double end = run.steps.time_s[span.last];
    const double first_s = run.steps.step_ms[span.first] * record::steps_since_row_before(run.steps, span.first) / 1e3;
    EpochTimes times{
        .epoch = epoch, .total_s = end - run.steps.time_s[before.last], .train_s = 0, .samples = span.samples};
    times.train_s = std::min(times.total_s, end - run.steps.time_s[span.first] + first_s);
    if (times.total_s > 0 && times.train_s > 0) epochs.push_back(times);
  }
  return epochs;
}

std::optional<RankSkew> rank_skew(const record::RunData& run, int64_t first_step) {
  RankSkew sum;
  double total = 0;
  size_t num_ranks = 0;
  for (const record::RankTimesRecord& record : run.rank_times) {
    const std::vector<double> work = counted_work(record, first_step, num_ranks);
    if (work.empty()) continue;
    num_ranks = work.size();
    const double count = static_cast<double>(std::max<int64_t>(1, record.num_steps)),
                 most = *std::max_element(work.begin(), work.end());
    sum.over_mean_ms += (most - stats::mean(work)) * count;
    sum.over_median_ms += (most - stats::median(work)) * count;
    sum.step_ms += stats::median(record.step_ms) * count;
    total += count;
  }
  if (total == 0) return std::nullopt;
  return RankSkew{.over_mean_ms = sum.over_mean_ms / total,
                  .over_median_ms = sum.over_median_ms / total,
                  .step_ms = sum.step_ms / total};
}

std::vector<RankShare> rank_shares(const record::RunData& run, int64_t first_step, size_t& num_intervals) {
  std::vector<RankShare> ranks;
  double total = 0;
  num_intervals = 0;
  for (const record::RankTimesRecord& record : run.rank_times) {
    const std::vector<double> work = counted_work(record, first_step, ranks.size());
    if (work.empty()) continue;
    if (ranks.empty()) ranks.resize(work.size());
    const double count = static_cast<double>(std::max<int64_t>(1, record.num_steps));
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].step_ms += record.step_ms[rank] * count;
      ranks[rank].data_wait_ms += record::value_or_nan(record.data_wait_ms, rank) * count;
      ranks[rank].compute_ms += record::value_or_nan(record.compute_ms, rank) * count;
      ranks[rank].comm_wait_ms += record::value_or_nan(record.comm_wait_ms, rank) * count;
      ranks[rank].work_ms += work[rank] * count;
      if (rank < record.hosts.size()) ranks[rank].host = record.hosts[rank];
    }
    ranks[static_cast<size_t>(std::max_element(work.begin(), work.end()) - work.begin())].slowest_share += 1;
    total += count;
    ++num_intervals;
  }
  if (num_intervals == 0) return {};
  std::vector<double> works, steps;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    RankShare& share = ranks[rank];
    share.rank = static_cast<int>(rank);
    for (double* sum : {&share.step_ms, &share.data_wait_ms, &share.compute_ms, &share.comm_wait_ms, &share.work_ms})
      *sum /= total;
    share.slowest_share /= static_cast<double>(num_intervals);
    works.push_back(share.work_ms);
    steps.push_back(share.step_ms);
  }
  const double middle = stats::median(works), step = stats::median(steps);
  for (RankShare& share : ranks) share.excess = (share.work_ms - middle) / step;
  return ranks;
}

}  // namespace lockstep::analysis
