#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "predict/posterior.h"

namespace lockstep::predict {

struct CurvePoint;
struct MeasuredCurve;

/// A rate of all devices together that the last two measured sizes did not exceed: something that devices share may
/// limit it at every larger size, too.
struct Plateau {
  double devices = 0;     ///< Of the largest measured size: the plateau begins there.
  double work_per_s = 0;  ///< Of all devices, in work of a Size.
  double share = 0;       ///< Probability that it limits larger sizes.
  double step_s(const Size& size) const { return size.work * size.devices / work_per_s; }
};

/// Nothing where the devices that the largest measured size added gave a tenth or more of what they could.
std::optional<Plateau> plateau_of(std::span<const Measured> measured);

/// What such a plateau may be, in sentences; "" where there is none.
std::string plateau_text(const MeasuredCurve& curve, const std::vector<CurvePoint>& points);

}  // namespace lockstep::predict
