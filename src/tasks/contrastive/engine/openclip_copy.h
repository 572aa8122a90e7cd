#pragma once
#include <filesystem>

#include "checkpoint/manifest.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::tasks {

/// --save-format openclip: writes what the checkpoint `folder` of an epoch's end holds as epoch_K.pt beside it, as
/// OpenCLIP saves a run of several ranks, which it resumes on any number of them; with --save-most-recent
/// epoch_latest.pt, too. Checkpoints within an epoch have no copy. Copies that --keep does not cover are removed.
void save_openclip_copy(const ContrastiveOptions& options, const std::filesystem::path& folder,
                        const checkpoint::CheckpointManifest& manifest);

}  // namespace lockstep::tasks
