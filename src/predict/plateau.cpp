#include "predict/plateau.h"

#include <fmt/format.h>

#include <algorithm>

#include "predict/table_curves.h"

namespace lockstep::predict {
namespace {

// Nothing published keeps a tenth of the added devices and gets better behind it: sharing something is the likeliest
// reason. A rate that falls is as often a run that something else disturbed.
constexpr double kLeastGain = 0.1, kFallen = 0.9, kLimitsNext = 0.7, kFallenLimitsNext = 0.3;
constexpr double kSameSize = 1.01;  // of devices

double rate_of(const Measured& one) { return one.size.work * one.size.devices / one.step_s; }

/// The fastest measurement of the largest size, and of the largest one below it.
struct LastTwo {
  const Measured *last = nullptr, *before = nullptr;
};

LastTwo last_two(std::span<const Measured> measured) {
  LastTwo found;
  double largest = 0;
  for (const Measured& one : measured) largest = std::max(largest, one.size.devices);
  const auto take = [](const Measured*& best, const Measured& one) {
    const bool is_larger = best == nullptr || one.size.devices > kSameSize * best->size.devices;
    const bool is_smaller = best != nullptr && best->size.devices > kSameSize * one.size.devices;
    if (is_larger || (!is_smaller && rate_of(one) > rate_of(*best))) best = &one;
  };
  for (const Measured& one : measured) take(kSameSize * one.size.devices >= largest ? found.last : found.before, one);
  return found;
}
}  // namespace

std::optional<Plateau> plateau_of(std::span<const Measured> measured) {
  const auto [last, before] = last_two(measured);
  if (before == nullptr) return std::nullopt;
  const double gain = rate_of(*last) / rate_of(*before), most = last->size.devices / before->size.devices;
  if (gain - 1 >= kLeastGain * (most - 1)) return std::nullopt;
  return Plateau{.devices = last->size.devices,
                 .work_per_s = rate_of(*last),
                 .share = gain < kFallen ? kFallenLimitsNext : kLimitsNext};
}

std::string plateau_text(const MeasuredCurve& curve, const std::vector<CurvePoint>& points) {
  std::vector<Measured> measured;
  for (const CurvePoint& point : points) measured.push_back(point.measured);
  const std::optional<Plateau> plateau = plateau_of(measured);
  if (!plateau) return "";
  const auto [last, before] = last_two(measured);
  const auto size_of = [&](const Measured* one) { return points.at(static_cast<size_t>(one - measured.data())).size; };
  const double gain = rate_of(*last) / rate_of(*before);
  return fmt::format(
      "From {:g} to {:g} {} all devices together {} ({:.3g} times the rate): it may be the input, the file system, or "
      "work that is too small for so many; or the rate is that of one device, which its column should say ('per GPU'). "
      "The intervals of larger sizes reach a rate that does not grow any more.",
      size_of(before), size_of(last), curve.size_name, gain < kFallen ? "got slower" : "gained nothing", gain);
}

}  // namespace lockstep::predict
