#pragma once
#include <cstdint>
#include <optional>

#include "checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// Passes over the data that were completed; nothing of a run that counts none (GPT), whose `epoch` counts the
/// stretches between evaluations.
std::optional<int64_t> epochs_done(const CheckpointManifest& manifest);

}  // namespace lockstep::checkpoint
