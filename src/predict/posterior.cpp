#include "predict/posterior.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::predict {
namespace {

// Contention, fixed time and traffic explain the same few steps: the states move slowly where all are open.
constexpr int kSlicesOfContention = 10;

std::vector<Size> sizes_of(std::span<const Measured> measured) {
  std::vector<Size> sizes;
  for (const Measured& one : measured) sizes.push_back(one.size);
  return sizes;
}

/// Likelihood of one state, with compute_s integrated out, and the normal law of compute_s given the rest.
struct Fit {
  double log_likelihood = -std::numeric_limits<double>::infinity();
  double compute_s = 0, compute_sd = 0;
};

class Likelihood {
 public:
  Likelihood(const Setting& setting, double reference_step_s, std::span<const Measured> measured)
      : measured_(measured), model_(setting, reference_step_s, sizes_of(measured)) {}

  Fit operator()(const Latents& latents) const {
    const double noise = model_.noise(latents);
    double xx = 0, xy = 0, yy = 0;  // of relative residuals y - compute_s x
    const auto add = [&](double x, double y) { xx += x * x, xy += x * y, yy += y * y; };
    for (size_t i = 0; i < measured_.size(); ++i) {
      const Terms terms = model_.terms(latents, i);
      const double scale = 1 / (measured_[i].step_s * noise);
      add(terms.scaled * scale, (measured_[i].step_s - terms.constant()) * scale);
    }
    Fit fit{.compute_s = xy / xx, .compute_sd = 1 / std::sqrt(xx)};
    if (fit.compute_s > 0)
      fit.log_likelihood =
          -0.5 * (yy - xy * xy / xx) - static_cast<double>(measured_.size()) * std::log(noise) - 0.5 * std::log(xx);
    return fit;
  }

 private:
  std::span<const Measured> measured_;
  CostModel model_;
};

/// Standard normal numbers. Latents of some curves alone have streams of their own, so that the others do not depend on
/// them.
class LatentNumbers {
 public:
  LatentNumbers(uint64_t seed, const std::string& use)
      : common_(core::stream_key(seed, use)), of_tables_(core::stream_key(seed, use + " of special latents")),
        of_contention_(core::stream_key(seed, use + " of contention")),
        of_precision_(core::stream_key(seed, use + " of precision")) {}
  core::CounterRng& common() { return common_; }
  Latents latents() {
    Latents latents;
    for (size_t i = 0; i < latents.size(); ++i)
      latents[i] = (i < kNumCommonLatents  ? common_
                    : i < kNumTableLatents ? of_tables_
                    : i < kPrecisionRatio  ? of_contention_
                                           : of_precision_)
                       .normal();
    return latents;
  }

 private:
  core::CounterRng common_, of_tables_, of_contention_, of_precision_;
};

/// One step of elliptical slice sampling: the new state is a point of an ellipse through the old one and a draw from
/// the prior.
void slice(const Likelihood& likelihood, LatentNumbers& numbers, Latents& latents, Fit& fit) {
  const Latents direction = numbers.latents();
  core::CounterRng& rng = numbers.common();
  const double threshold = fit.log_likelihood + std::log(1 - rng.uniform());
  double angle = rng.uniform(0, 2 * std::numbers::pi);
  double low = angle - 2 * std::numbers::pi, high = angle;
  while (high - low > 1e-12) {
    Latents candidate;
    for (size_t i = 0; i < candidate.size(); ++i)
      candidate[i] = latents[i] * std::cos(angle) + direction[i] * std::sin(angle);
    const Fit candidate_fit = likelihood(candidate);
    if (candidate_fit.log_likelihood > threshold) {
      latents = candidate;
      fit = candidate_fit;
      return;
    }
    (angle < 0 ? low : high) = angle;
    angle = rng.uniform(low, high);
  }
}
}  // namespace

std::vector<Draw> sample_prior(const ComputePrior& prior, const Sampling& sampling) {
  LatentNumbers numbers(sampling.seed, "predict prior");
  std::vector<Draw> draws(static_cast<size_t>(sampling.num_draws));
  for (Draw& draw : draws) {
    draw.latents = numbers.latents();
    draw.compute_s = prior.median_s * std::exp(prior.log_sd * numbers.common().normal());
  }
  return draws;
}

std::vector<Draw> sample_prior_below(const Setting& setting, double reference_step_s, const ComputePrior& prior,
                                     std::span<const Measured> bounds, const Sampling& sampling) {
  constexpr int kMostTries = 50;
  constexpr double kLeastShare = 0.01;  // of a bound, where all else takes longer than it
  const CostModel model(setting, reference_step_s, sizes_of(bounds));
  const auto most_compute_s = [&](const Latents& latents) {
    double most_s = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < bounds.size(); ++i) {
      const Terms terms = model.terms(latents, i);
      most_s = std::min(most_s,
                        std::max(kLeastShare * bounds[i].step_s, bounds[i].step_s - terms.constant()) / terms.scaled);
    }
    return most_s;
  };
  LatentNumbers numbers(sampling.seed, "predict prior");
  std::vector<Draw> draws(static_cast<size_t>(sampling.num_draws));
  for (Draw& draw : draws)
    for (int tries = 0; tries < kMostTries; ++tries) {
      draw.latents = numbers.latents();
      const double most_s = most_compute_s(draw.latents),
                   compute_s = prior.median_s * std::exp(prior.log_sd * numbers.common().normal());
      draw.compute_s = std::min(compute_s, most_s);
      if (compute_s <= most_s) break;
    }
  return draws;
}

std::vector<Measured> compute_bound(std::span<const Measured> measured) {
  std::vector<Measured> free;
  for (const Measured& one : measured)
    if (!one.is_input_bound()) free.push_back(one);
  return free;
}

std::vector<Draw> sample_posterior(const Setting& setting, double reference_step_s, std::span<const Measured> measured,
                                   const Sampling& sampling) {
  LOCKSTEP_CHECK(!measured.empty(), "nothing measured");
  const Likelihood likelihood(setting, reference_step_s, measured);
  LatentNumbers numbers(sampling.seed, "predict posterior");
  Latents latents{};
  // Measurements that no small noise explains: begin where the noise allows for them.
  Fit fit = likelihood(latents);
  for (int widened = 0; widened < 8 && !std::isfinite(fit.log_likelihood); ++widened) {
    latents[kGrowth] -= 1, latents[kGradientBytes] -= 1, latents[kFixedShare] -= 1;
    fit = likelihood(latents);
  }
  if (!std::isfinite(fit.log_likelihood))
    throw DataError(
        fmt::format("predict: the traffic of a step ({:.3g} s between nodes, {:.3g} s inside one) takes longer "
                    "than the measured step ({:.3g} s), however much of it is hidden",
                    setting.inter_s + setting.between_rings_s, setting.intra_s, measured[0].step_s),
        "check the unit of the times, the parameters of the model and the system");
  std::vector<Draw> draws;
  draws.reserve(static_cast<size_t>(sampling.num_draws));
  const int num_slices = setting.has_doubted_contention() ? kSlicesOfContention : 1;
  for (int i = 0; i < sampling.num_burn_in + sampling.num_draws; ++i) {
    for (int times = 0; times < num_slices; ++times) slice(likelihood, numbers, latents, fit);
    if (i < sampling.num_burn_in) continue;
    double compute_s = fit.compute_s + fit.compute_sd * numbers.common().normal();
    if (compute_s <= 0) compute_s = fit.compute_s;
    draws.push_back({latents, compute_s});
  }
  return draws;
}

}  // namespace lockstep::predict
