#pragma once
#include <filesystem>

#include "record/checkpoint_manifest.h"

namespace lockstep::train {

/// The weights behind what the user named: the file itself, or of a checkpoint folder or a run folder (its newest whole
/// checkpoint) the model file, whose manifest goes to `manifest`. CheckpointError when a folder holds no whole checkpoint.
std::filesystem::path weight_file(const std::filesystem::path& named, record::CheckpointManifest& manifest);

}  // namespace lockstep::train
