#pragma once
#include <filesystem>

#include "checkpoint/manifest.h"

namespace lockstep::train {

/// The checkpoint that the user named, or the newest whole one of the run that was named. CheckpointError when there is
/// none, or where a file of the model is damaged, which is named.
std::filesystem::path checkpoint_folder(const std::filesystem::path& named);

/// The weights behind what the user named: the file itself, or of a checkpoint folder or a run folder (its newest whole
/// checkpoint) the model file, whose manifest goes to `manifest`, or the weights in a folder of Hugging Face's.
/// CheckpointError when a folder holds no whole checkpoint.
std::filesystem::path weight_file(const std::filesystem::path& named, checkpoint::CheckpointManifest& manifest);

}  // namespace lockstep::train
