#pragma once
#include <filesystem>

#include "checkpoint/manifest.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::tasks {

/// --save-format openclip: writes what the checkpoint `folder` of an epoch's end holds as epoch_K.pt beside it, as
/// OpenCLIP saves a run of several ranks, which it resumes on any number of them; with --save-most-recent
/// epoch_latest.pt, too. Checkpoints within an epoch have no copy.
void save_openclip_copy(const ContrastiveOptions& options, const std::filesystem::path& folder,
                        const checkpoint::CheckpointManifest& manifest);
/// Removes the copy of a checkpoint that is about to be removed, where it has one. It stays where a later attempt
/// has a checkpoint of the same step: the copy is that one's. An earlier attempt's has none any more.
void remove_openclip_copy(const std::filesystem::path& folder, const checkpoint::CheckpointManifest& manifest);

}  // namespace lockstep::tasks
