#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// Runs points one after another on this machine through `lockstep launch`, each with all its ranks (nodes x ranks per
/// node); call with the lock held. The output of a point goes to its log; sweep.json is written after every change. A
/// point that fails does not stop the others; one that passes its time limit is asked to stop (checkpoint, state
/// "stopped"). SIGINT and SIGTERM are passed on to the running point, which saves a checkpoint; a second one ends it at
/// once. Returns the exit code: 0, the highest of the failed points, or 75 when a signal stopped the sweep.
int run_local(const std::filesystem::path& folder, SweepState& state, const std::vector<int64_t>& indexes);

}  // namespace lockstep::sweep
