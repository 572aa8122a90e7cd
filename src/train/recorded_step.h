#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "train/step_runner.h"

namespace lockstep::train {

/// Makes a runner of the given parts.
using MakeRunner = std::function<std::unique_ptr<StepRunner>(const StepRunnerParts& parts)>;

/// The runner that `make` makes; where `parts` have a recorder, one that records its steps and replays them: two steps
/// of a form (sizes and types of the batches) go the plain way, the third as a rehearsal, and from the fourth on the
/// recording is replayed, with the numbers of the plain way. Steps of a form that cannot be recorded, which is told in
/// the log once, go the plain way, and so do forms behind the fourth. Gradients lie where the plain runner leaves them.
std::unique_ptr<StepRunner> make_recorded_step(const StepRunnerParts& parts, const MakeRunner& make);

/// What the record says of CUDA graphs until steps are told of (StepRunnerParts::on_recording): "off", "not with
/// several ranks", "no step was recorded"; "" where the device has none. `cuda_graphs`: --cuda-graphs {auto,off}.
std::string recording_at_start(std::string_view cuda_graphs, bool is_cuda, int num_ranks);

}  // namespace lockstep::train
