#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/rng.h"
#include "stats/distributions.h"

namespace lockstep::stats {

/// A made-up series of step times whose truth is known. Steps of 100 ms x (1 + noise), noise = sigma x g(z), where z is
/// a normal AR(1) series.
struct SyntheticSeries {
  enum class Tail {
    kNormal,
    kLognormal,
    kPareto
  };  ///< g(z) = z; exp(0.8 z) - 1; (1 - Phi(z))^(-1/3) - 1: finite variance, infinite skew.

  std::string name;
  size_t num_steps = 200;
  double rho = 0;  ///< Lag-1 autocorrelation of z.
  double sigma = 0.01;
  double white_share = 0;  ///< Of the variance of z: independent noise on top of the autoregressive one.
  Tail tail = Tail::kNormal;
  double warmup_excess =
      0;  ///< Extra time of the first step, falling linearly to a fifth of it at warmup_steps - 1; 0 afterwards.
  size_t warmup_steps = 0;
  double decay_steps = 0;  ///< Above 0: exponential decay of the extra time instead, with this constant.
  size_t spike_every = 0;  ///< Each so-many-th step takes 1.5 times as long.
  size_t shift_step = 0;   ///< From here on all takes (1 + shift) times as long.
  double shift = 0;
  double drift = 0;  ///< Relative growth from the first to the last step.

  double quantile_of_noise(double z) const {
    if (tail == Tail::kLognormal) return std::expm1(0.8 * z);
    if (tail == Tail::kPareto) return std::pow(normal_cdf(-z), -1.0 / 3) - 1;
    return z;
  }

  std::vector<double> make(uint64_t trace) const {
    core::CounterRng random(core::stream_key(trace, name));
    std::vector<double> series;
    double z = random.normal();
    for (size_t i = 0; i < num_steps; ++i) {
      if (i > 0) z = rho * z + std::sqrt(1 - rho * rho) * random.normal();
      const double at = static_cast<double>(i);
      const double noise =
          white_share > 0 ? std::sqrt(1 - white_share) * z + std::sqrt(white_share) * random.normal() : z;
      double factor = 1 + sigma * quantile_of_noise(noise);
      if (decay_steps > 0)
        factor += warmup_excess * std::exp(-at / decay_steps);
      else if (i < warmup_steps)
        factor += warmup_excess * (1 - 0.8 * at / static_cast<double>(warmup_steps - 1));
      if (spike_every > 0 && (i + 1) % spike_every == 0) factor *= 1.5;
      if (shift_step > 0 && i >= shift_step) factor *= 1 + shift;
      series.push_back(100 * factor * (1 + drift * at / static_cast<double>(num_steps)));
    }
    return series;
  }

  /// First step whose extra time is below one standard deviation of the noise.
  size_t warmup_end() const {
    if (decay_steps > 0) return static_cast<size_t>(std::ceil(decay_steps * std::log(warmup_excess / sigma)));
    return warmup_steps;
  }

  /// Median of a steady step before any shift. Spikes lie above all other steps, so the median of the mixture is the
  /// quantile 1 / (2 - 2 / k) of the others.
  double true_median() const {
    const double share = spike_every > 0 ? 1.0 / static_cast<double>(spike_every) : 0;
    return 100 * (1 + sigma * quantile_of_noise(normal_quantile(0.5 / (1 - share))));
  }

  double true_mean() const {
    double noise = 0;
    if (tail == Tail::kLognormal) noise = std::exp(0.32) - 1;
    if (tail == Tail::kPareto) noise = 0.5;
    const double share = spike_every > 0 ? 1.0 / static_cast<double>(spike_every) : 0;
    return 100 * (1 + sigma * noise) * (1 + 0.5 * share);
  }
};

}  // namespace lockstep::stats
