#include "predict/forecast.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

constexpr double kDiscrepancyPerDoubling = 0.006;  // log time, what the model itself gets wrong
constexpr double kUnseenNetwork = 0.02;            // the same once a job leaves the only node that was measured
constexpr double kUnseenGroup = 0.02;              // the same once a job leaves the only group that was measured

double discrepancy_sd(const Setting& setting, const Size& size, double calibrated_nodes) {
  const double doublings = calibrated_nodes > 0 ? std::max(0.0, std::log2(size.nodes / calibrated_nodes)) : 0;
  const bool leaves_group =
      setting.group_nodes > 0 && size.nodes > setting.group_nodes && calibrated_nodes <= setting.group_nodes;
  const bool leaves_node = size.nodes > 1 && calibrated_nodes <= 1;
  return std::hypot(kDiscrepancyPerDoubling * doublings, leaves_group ? kUnseenGroup : 0,
                    leaves_node ? kUnseenNetwork : 0);
}

Interval interval_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) { return stats::percentile_of_sorted(values, p); };
  return {at(5), at(25), at(50), at(75), at(95)};
}

/// Of the unknowns that the setting has.
std::vector<Learned> learned_of(const Setting& setting, std::span<const Draw> draws) {
  std::vector<Learned> learned;
  for (size_t latent = 0; latent < kNumLatents; ++latent) {
    if (latent == kPrecisionRatio || (latent == kContention && setting.contention == 0) ||
        (latent == kVirtualStages && setting.are_virtual_stages_known) ||
        (latent == kProductContention && setting.product_contention.log_sd == 0) ||
        (latent == kMemoryContention && setting.memory_contention.log_sd == 0))
      continue;
    std::vector<double> values;
    for (const Draw& draw : draws) values.push_back(draw.latents[latent]);
    learned.push_back({static_cast<Latent>(latent), stats::mean(values), stats::sample_stddev(values)});
  }
  return learned;
}
}  // namespace

Forecast forecast(const Setting& setting, double reference_step_s, std::span<const Draw> draws,
                  std::span<const Size> sizes, double calibrated_nodes, const std::optional<Plateau>& plateau,
                  uint64_t seed) {
  const CostModel model(setting, reference_step_s, sizes);
  Forecast forecast{.learned = learned_of(setting, draws)};
  core::CounterRng rng(core::stream_key(seed, "predict forecast"));
  std::vector<double> errors(draws.size()), noises(draws.size());  // one error of the model for all sizes of a draw
  for (size_t draw = 0; draw < draws.size(); ++draw) errors[draw] = rng.normal(), noises[draw] = rng.normal();
  std::vector<bool> is_limited(draws.size());
  core::CounterRng limit_rng(core::stream_key(seed, "predict plateau"));
  for (size_t draw = 0; plateau && draw < draws.size(); ++draw) is_limited[draw] = limit_rng.uniform() < plateau->share;
  std::vector<double> totals(draws.size()), ratios(draws.size()), first(draws.size());
  std::array<std::vector<double>, kNumParts> parts;
  for (std::vector<double>& values : parts) values.resize(draws.size());
  for (size_t index = 0; index < sizes.size(); ++index) {
    const double sd = discrepancy_sd(setting, sizes[index], calibrated_nodes);
    const double least_s = plateau && sizes[index].devices >= plateau->devices ? plateau->step_s(sizes[index]) : 0;
    for (size_t draw = 0; draw < draws.size(); ++draw) {
      const Draw& one = draws[draw];
      Terms terms = model.terms(one.latents, index);
      for (const Part part : {kCompute, kBubble, kSkew}) terms.parts[part] *= one.compute_s;
      const double waited_s = std::min(setting.waited_s * sizes[index].work, terms.parts[kCompute]);
      terms.parts[kCompute] -= waited_s, terms.parts[kInput] += waited_s;
      double total = 0;
      for (size_t part = 0; part < kNumParts; ++part) total += parts[part][draw] = terms.parts[part];
      if (is_limited[draw] && total < least_s) {
        parts[kUnexplained][draw] += least_s - total;
        total = least_s;
      }
      if (total < sizes[index].input_s) {
        parts[kInput][draw] += sizes[index].input_s - total;
        total = sizes[index].input_s;
      }
      if (index == 0) first[draw] = total;
      totals[draw] =
          std::max(total * std::exp(sd * errors[draw] + model.noise(one.latents) * noises[draw]), sizes[index].input_s);
    }
    for (size_t draw = 0; draw < draws.size(); ++draw) ratios[draw] = totals[draw] / first[draw];
    PredictedStep step{.size = sizes[index], .step_s = interval_of(totals), .over_first = interval_of(ratios)};
    for (size_t part = 0; part < kNumParts; ++part) {
      const auto middle = parts[part].begin() + static_cast<ptrdiff_t>(parts[part].size() / 2);
      std::nth_element(parts[part].begin(), middle, parts[part].end());
      step.parts_s[part] = *middle;
    }
    forecast.steps.push_back(step);
  }
  return forecast;
}

std::vector<double> drawn_steps(const Setting& setting, double reference_step_s, std::span<const Draw> draws,
                                const Size& size) {
  const CostModel model(setting, reference_step_s, std::span(&size, 1));
  std::vector<double> steps_s;
  for (const Draw& draw : draws) {
    const Terms terms = model.terms(draw.latents, 0);
    steps_s.push_back(std::max(terms.scaled * draw.compute_s + terms.constant(), size.input_s));
  }
  return steps_s;
}

}  // namespace lockstep::predict
