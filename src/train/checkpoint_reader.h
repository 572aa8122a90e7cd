#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/comm.h"
#include "core/json.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_state.h"
#include "train/shared_hashing.h"

namespace lockstep::train {

/// Where a run stands between two steps. All random numbers are functions of seed and step, so there is no random
/// state.
struct CheckpointPosition {
  int64_t step = 0;   ///< Optimiser steps done.
  int64_t epoch = 0;  ///< Epochs completed.
  int64_t samples_seen = 0;
  core::Json data;   ///< Of the loader, joined over the ranks.
  core::Json extra;  ///< Whatever else the caller wants back.
};

/// Of CheckpointManifest::extra: CheckpointPosition::extra, beside what the Checkpointer itself keeps.
inline constexpr const char* kCallersExtraKey = "caller";
/// CheckpointPosition::extra of a checkpoint.
core::Json callers_extra(const checkpoint::CheckpointManifest& manifest);

struct RestoredCheckpoint {
  std::filesystem::path folder;
  CheckpointPosition position;
  int first_attempt = 1;  ///< Since which its run went on without a break; see kFirstAttemptKey.
  ReadCounts read = {};   ///< By this rank, of this checkpoint, tests included.
};

/// Names the folder of the checkpoint that is to be read, on rank 0; "": none. It gets what tests files.
using ChooseFunction = std::function<std::string(const checkpoint::VerifyFunction& verify)>;

/// Fills `state` from a checkpoint: model, optimiser and loss scale, or the model alone where it has no optimiser. Each
/// file is read once, by a rank that needs most of it, and hashed meanwhile (docs/parallelism.md). Calls are
/// collective.
class CheckpointReader {
 public:
  /// `world` outlives it.
  CheckpointReader(CheckpointState state, comm::Comm& world, LongWaits waits);
  /// The one that `choose` names. Nothing is taken before all its files were found whole, or those of the model where
  /// no others are read. An error of `choose` is thrown on every rank.
  std::optional<RestoredCheckpoint> take(const ChooseFunction& choose) const;
  /// The same of a folder whose files have just been verified.
  RestoredCheckpoint load(const std::filesystem::path& folder) const;

 private:
  std::set<std::string> files_to_keep(const checkpoint::CheckpointManifest& manifest) const;
  RestoredCheckpoint load(const std::filesystem::path& folder, const HeldFiles& held) const;
  ReadCounts read_once(comm::Comm* replicas, const std::vector<at::Tensor>& tensors,
                       const std::function<ReadCounts()>& read) const;

  CheckpointState state_;
  comm::Comm& world_;
  LongWaits waits_;
};

}  // namespace lockstep::train
