#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/json.h"
#include "optim/adamw.h"
#include "train/checkpointer.h"
#include "train/run_context.h"
#include "train/trainer.h"

namespace lockstep::train {

/// What a run starts from, and what it saves. Calls are collective.
class RunCheckpoints {
 public:
  /// `run` outlives it.
  explicit RunCheckpoints(RunContext& run) : run_(run) {}

  /// UsageError where the run would start from a checkpoint of another model: refused before memory of devices is
  /// taken.
  void check_model(const Snapshot& snapshot);
  /// Betas, epsilon and weight decay of the file of OpenCLIP that the run goes on from, or once began with: OpenCLIP
  /// takes them from there, whatever the flags say. Every later checkpoint keeps them.
  const std::optional<optim::AdamWConfig>& find_adamw(const Snapshot& snapshot);
  /// `steps_per_epoch` 0: the run only evaluates. Opens the run's checkpoints; fills `training` from the run's own,
  /// from `snapshot`, or leaves it as it is.
  TrainerPosition restore(const Training& training, const Snapshot& snapshot, int64_t steps_per_epoch);
  /// `data` joined over the ranks.
  void save(const TrainerPosition& position, const core::Json& data);
  /// Epochs that lie behind what restore() found; 0: it found none.
  int64_t epochs_done() const { return epochs_done_; }
  /// Of the claim that restore() made; 0 before.
  int attempt() const { return checkpointer_ ? checkpointer_->attempt() : 0; }
  /// CheckpointError where the last one could not be written.
  void finish_saving();

 private:
  std::optional<checkpoint::CheckpointManifest> starting_manifest(const Snapshot& snapshot) const;
  /// From a snapshot of another run, which may have had another global batch, or from nothing.
  TrainerPosition start(const Snapshot& snapshot);
  /// From the file of OpenCLIP that --resume names.
  RestoredCheckpoint import_openclip(const Training& training);
  core::Json resume_facts() const;

  RunContext& run_;
  int64_t steps_per_epoch_ = 0, epochs_done_ = 0;
  std::optional<optim::AdamWConfig> adamw_;
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace lockstep::train
