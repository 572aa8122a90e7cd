#pragma once
#include <string>
#include <vector>

#include "predict/table_curves.h"

namespace lockstep::predict {

/// What cannot be of a layout that a table tells: more ranks a copy of the model than a size has devices, and more
/// memory than a device has, in sentences. Layouts that were assumed and models that are not known have no doubts.
std::vector<std::string> layout_doubts(const MeasuredCurve& curve, const std::vector<CurvePoint>& calibration);

}  // namespace lockstep::predict
