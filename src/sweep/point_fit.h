#pragma once
#include <string>

#include "sweep/points.h"

namespace lockstep::sweep {

/// Fills Point::fit of every point by a dry run of its command. `device_memory` names a GPU or a system ("H100 80GB",
/// "LUMI-G"); "" asks no device. Adds a warning for points that do not fit it, for inputs that are not on this machine,
/// and for tensor ranks on several nodes. UsageError where the command cannot be asked about that device.
void judge_points(Plan& plan, const std::string& device_memory);

}  // namespace lockstep::sweep
