#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/param_spec.h"
#include "models/task.h"
#include "models/two_towers.h"
#include "step_times.h"
#include "train/precision.h"

namespace lockstep::bench {

struct StepNetwork {
  std::unique_ptr<models::TwoTowers> towers;
  std::vector<config::ParamSpec> specs;
};

/// The main of a program that times contrastive training steps on given weights and batches, with the classes the
/// trainer uses. Prints
/// {"step_ms": [...], "cpu_ms": [...], "losses": [...], "peak_bytes": N}. `build` makes the network, `read_batch` one
/// batch out of batches.safetensors (tensors without the ".index" of their names).
int step_main(int argc, char** argv, const StepOptions& defaults,
              const std::function<StepNetwork(const StepOptions&, at::Device, const train::Precision&)>& build,
              const std::function<models::Batch(const std::map<std::string, at::Tensor>&)>& read_batch);

}  // namespace lockstep::bench
