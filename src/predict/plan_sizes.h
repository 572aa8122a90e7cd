#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "predict/plan_step.h"

namespace lockstep::predict {

/// Plans of the sizes asked for, of those measured, and where one alone is left a small one beside it, which tells what
/// its efficiency is against. UsageError where no size that was asked for is legal, or one that was measured is not.
std::vector<PlannedStep> plan_sizes(const PlannedCommand& command, const Machine& machine,
                                    const std::vector<int64_t>& asked, const std::vector<MeasuredStep>& measured,
                                    std::vector<std::string>& refused);

/// Which batch was taken where the pipeline idles for more than a tenth of a step, and that this follows from it; ""
/// for others.
std::string bubble_text(const std::vector<PlannedStep>& steps);

}  // namespace lockstep::predict
