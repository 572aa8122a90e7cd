#include "predict/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

/// Devices of a node that compute at the same time.
double devices_at_once(const Machine& machine) {
  return static_cast<double>(machine.devices_at_a_time.value_or(machine.devices_per_node));
}

/// What ranks lose at the peak of products or memory need not be what those of a step lose, and on a host that others
/// use one of the two rates behind a contention may be far off.
Contention doubted(const Sourced& measured, const Machine& machine) {
  constexpr double kLogSd = 1;
  const double all = devices_at_once(machine);
  return {.measured = measured.value, .log_sd = measured.source.empty() || all <= 1 ? 0 : kLogSd, .most = all};
}

std::string contradiction_text(const char* key, const Contention& contention, Latent latent, const std::string& source,
                               std::span<const Draw> draws) {
  constexpr double kLearned = 0.75;  // of the prior's width: less was left open
  constexpr double kDiffers = 1.1;
  if (contention.log_sd == 0) return "";
  std::vector<double> latents, values;
  for (const Draw& draw : draws) {
    latents.push_back(draw.latents[latent]);
    values.push_back(contention.with_all(draw.latents[latent]));
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) { return stats::percentile_of_sorted(values, p); };
  const bool is_outside = contention.measured < at(5) || contention.measured > at(95);
  const bool differs = std::fabs(std::log(contention.measured / at(50))) > std::log(kDiffers);
  if (!is_outside || !differs || stats::sample_stddev(latents) > kLearned) return "";
  return fmt::format(
      "{} {:.3g} of {}: the measured steps say {:.3g} ({:.3g} to {:.3g} with 90 % probability) and are followed. Other "
      "work beside `bench op` may have disturbed it: measure it again on an idle machine. If it comes back, ranks that "
      "share cores disturb one another {} in a step than at the peak, and the steps are right.",
      key, contention.measured, source, at(50), at(5), at(95), contention.measured > at(50) ? "less" : "more");
}

void add_fact(const char* name, const Contention& contention, const std::string& source,
              std::vector<KnownFact>& facts) {
  if (contention.log_sd == 0) return;
  facts.push_back(
      {name, fmt::format("{:.3g} (what is above 1: x / {:.1f})", contention.measured, std::exp(contention.log_sd)),
       source});
}
}  // namespace

double crowding_of(double computing, const Machine& machine) {
  const double all = devices_at_once(machine);
  return all > 1 ? (std::clamp(computing, 1.0, all) - 1) / (all - 1) : 0;
}

Contention product_contention_of(const Machine& machine) { return doubted(machine.product_contention, machine); }

Contention memory_contention_of(const Machine& machine) { return doubted(machine.memory_contention, machine); }

std::vector<KnownFact> contention_facts(const Machine& machine) {
  std::vector<KnownFact> facts;
  add_fact("contention of products", product_contention_of(machine), machine.product_contention.source, facts);
  add_fact("contention of memory", memory_contention_of(machine), machine.memory_contention.source, facts);
  return facts;
}

std::vector<std::string> contention_texts(const Setting& setting, const std::string& source,
                                          std::span<const Draw> draws) {
  std::vector<std::string> texts;
  for (const std::string& text :
       {contradiction_text("product-contention", setting.product_contention, kProductContention, source, draws),
        contradiction_text("memory-contention", setting.memory_contention, kMemoryContention, source, draws)})
    if (!text.empty()) texts.push_back(text);
  return texts;
}

}  // namespace lockstep::predict
