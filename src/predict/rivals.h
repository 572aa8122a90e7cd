#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "predict/posterior.h"

namespace lockstep::predict {

/// What one would draw without a model. Each is fitted to the measurements alone.
enum class Rival {
  kConstantEfficiency,  ///< Work per device and second stays that of the largest measured size.
  kAmdahl,              ///< A serial share: the time of one unit of work grows as a line in the number of nodes.
  kLogLinear,           ///< The logarithm of that time is a line in the logarithm of the number of nodes.
};
inline constexpr Rival kRivals[] = {Rival::kConstantEfficiency, Rival::kAmdahl, Rival::kLogLinear};
std::string_view rival_name(Rival rival);        ///< "constant efficiency"
std::string_view rival_short_name(Rival rival);  ///< "constant"

/// The step at a size by a rival; nothing where it needs two sizes and has one, or gives no positive time.
std::optional<double> rival_step_s(Rival rival, std::span<const Measured> measured, const Size& size);

}  // namespace lockstep::predict
