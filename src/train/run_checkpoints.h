#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/held_checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
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
  /// `data` joined over the ranks. False where nothing is being saved; rank 0 has warned.
  bool save(const TrainerPosition& position, const core::Json& data);
  /// Notes the place of the model among the best of the run by an evaluation, see config::BestCheckpoints. True where
  /// it is one of them and has yet to be saved.
  bool rank(const EvaluationTime& when, const Metrics& metrics);
  /// Behind the last save: removes what neither its age nor its rank keeps, if this attempt saved or ranked anything.
  /// `waited_for`: what the other ranks wait for meanwhile. Collective.
  void remove_superfluous(const std::string& waited_for = "old checkpoints are removed");
  /// What it says stays.
  checkpoint::HeldCheckpoint& held() { return held_; }
  /// Epochs that lie behind what restore() found; 0: it found none.
  int64_t epochs_done() const { return epochs_done_; }
  /// Of the claim that restore() made; 0 before.
  int attempt() const { return checkpointer_ ? checkpointer_->attempt() : 0; }
  /// CheckpointError where the last one could not be written.
  void finish_saving();

 private:
  std::optional<checkpoint::CheckpointManifest> starting_manifest(const Snapshot& snapshot) const;
  /// From a snapshot of another run, which may have had another global batch, or from nothing.
  TrainerPosition start(const Training& training, const Snapshot& snapshot);
  /// From the file of OpenCLIP that --resume names.
  RestoredCheckpoint import_openclip(const Training& training);
  core::Json resume_facts() const;
  void say_fresh_start() const;
  /// On rank 0: is the checkpoint one of the best?
  bool enter_ranking(const checkpoint::RankedCheckpoint& candidate);

  RunContext& run_;
  checkpoint::HeldCheckpoint held_;
  int64_t steps_per_epoch_ = 0, epochs_done_ = 0;
  int64_t saved_step_ = -1;  // of the newest checkpoint that is, or is being, saved, or that was read
  std::string saved_name_;   // "": it lies elsewhere; rank 0 knows, others may not see the folder
  bool has_saved_or_ranked_ = false;
  std::optional<optim::AdamWConfig> adamw_;
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace lockstep::train
