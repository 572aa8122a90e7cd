#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "train/checkpoint_state.h"
#include "train/checkpointer_writer.h"
#include "train/held_files.h"
#include "train/parts_index.h"

namespace lockstep::train {

/// The ranks hold different things: each writes its own, and each reads what it needs.
bool is_in_parts(const CheckpointState& state);

/// The same test of the files of the model alone: a checkpoint may have been copied without the others.
checkpoint::VerifyFunction of_model(checkpoint::VerifyFunction verify);

/// CheckpointError that names the files of a checkpoint that are not what its manifest says, as `verify` finds.
void require_whole(const std::filesystem::path& folder, const checkpoint::VerifyFunction& verify);

/// Names of the files of the model and of the optimiser in a checkpoint.
std::vector<std::string> model_files(const checkpoint::CheckpointManifest& manifest);
std::vector<std::string> optimizer_files(const checkpoint::CheckpointManifest& manifest);

/// What this rank writes of a checkpoint. model.safetensors and optimizer.safetensors where rank 0 writes all of it,
/// else model-RANK-of-RANKS.safetensors and the like of those ranks that have something to write. Tensors of optimiser
/// files: KIND.NAME for all that the optimiser keeps of a segment (exp_avg, step, ...), and master.NAME where the
/// segment is a master copy; parts of a shard are flat, in the order of the parameter's memory.
std::vector<WrittenFile> files_to_write(const CheckpointState& state, int rank, int num_ranks);

/// The files of a checkpoint that hold a model or an optimiser, and which part lies in which of them.
struct StoredIn {
  std::filesystem::path folder;
  std::vector<std::string> files;
  const PartsIndex& parts;
  const HeldFiles* held = nullptr;  ///< Those of them that need not be read any more.
};

/// Fills parameters and buffers, or what the optimiser holds, from those files that hold something of it, whoever wrote
/// them. CheckpointError names what is missing, too much or of another shape; nothing was changed then.
ReadCounts read_model(const StoredIn& stored, const CheckpointState& state);
ReadCounts read_optimizer(const StoredIn& stored, const CheckpointState& state);
/// The model of a checkpoint in `folder`.
void read_model_of(const std::filesystem::path& folder, const CheckpointState& state);

/// What they read.
FileParts model_parts(const CheckpointState& state);
FileParts optimizer_parts(const CheckpointState& state);

/// What the optimiser holds, for sending it to ranks that hold the same.
std::vector<at::Tensor> optimizer_tensors(const CheckpointState& state);

}  // namespace lockstep::train
