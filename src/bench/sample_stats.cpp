#include "bench/sample_stats.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "stats/series.h"
#include "stats/statistics.h"

namespace lockstep::bench {

std::vector<double> combine_ranks(comm::Comm& world, const std::vector<double>& samples, const std::string& how) {
  std::vector<std::vector<double>> by_rank;
  for (const auto& text : world.gather_strings(core::Json(samples).dump()))
    by_rank.push_back(core::parse_json(text, "times of a rank").get<std::vector<double>>());
  std::vector<double> combined;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<double> times;
    for (const auto& rank : by_rank) times.push_back(rank.at(i));
    if (how == "rank0")
      combined.push_back(times[0]);
    else if (how == "min")
      combined.push_back(*std::min_element(times.begin(), times.end()));
    else if (how == "max")
      combined.push_back(*std::max_element(times.begin(), times.end()));
    else
      combined.push_back(stats::mean(times));
  }
  return combined;
}

core::Json statistics_of(std::span<const double> samples) {
  LOCKSTEP_CHECK(!samples.empty(), "no samples");
  const auto series = stats::summarise_series(samples, {.min_warmup_steps = 0, .warmup_steps = 0});
  core::Json out = {
      {"num_samples", samples.size()}, {"median", stats::median(samples)}, {"p90", stats::percentile(samples, 90)}};
  constexpr size_t kEnoughForP99 = 100;
  if (samples.size() >= kEnoughForP99) out["p99"] = stats::percentile(samples, 99);
  out["min"] = *std::min_element(samples.begin(), samples.end());
  out["max"] = *std::max_element(samples.begin(), samples.end());
  out["mean"] = stats::mean(samples);
  constexpr size_t kSingle = 1;  // else the intervals are those of block means
  const auto add = [&](const char* key, const std::optional<stats::Interval>& interval) {
    if (interval && series.block_steps == kSingle)
      out[key] = {{"low", interval->low}, {"high", interval->high}, {"method", interval->method}};
  };
  add("median_95", series.median_interval);
  add("p90_95", series.p90_interval);
  add("p99_95", series.p99_interval);
  out["notes"] = series.notes;
  return out;
}

}  // namespace lockstep::bench
