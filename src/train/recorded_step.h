#pragma once
#include <functional>
#include <memory>

#include "train/step_runner.h"

namespace lockstep::train {

/// Makes a runner of the given parts.
using MakeRunner = std::function<std::unique_ptr<StepRunner>(const StepRunnerParts& parts)>;

/// The runner that `make` makes; where `parts` have a recorder, one that records its steps and replays them: two steps
/// of a form (sizes and types of the batches) go the plain way, the third as a rehearsal, and from the fourth on the
/// recording is replayed, with the numbers of the plain way. Steps of a form that cannot be recorded, which is told in
/// the log once, go the plain way, and so do forms behind the fourth. Gradients lie where the plain runner leaves them.
std::unique_ptr<StepRunner> make_recorded_step(const StepRunnerParts& parts, const MakeRunner& make);

}  // namespace lockstep::train
