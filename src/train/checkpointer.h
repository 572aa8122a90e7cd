#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/comm.h"
#include "core/json.h"
#include "train/checkpoint_reader.h"
#include "train/checkpoint_state.h"
#include "train/shared_hashing.h"

namespace lockstep::train {

class CheckpointWriter;

struct CheckpointerConfig {
  std::filesystem::path run_folder;
  int64_t num_kept = 0;    ///< Newest checkpoints that stay; 0: all.
  int64_t num_newest = 1;  ///< Of them, those that stay also where they were saved for their rank alone.
  std::function<bool(const checkpoint::CheckpointManifest&)> is_rolling = {};  ///< Of WriterConfig.
  std::string code_version;
  int64_t num_best = 0;                       ///< Those that stay beside them for their rank; see checkpoint::Ranking.
  checkpoint::SavedFunction on_saved = {};    ///< Called on rank 0 in the thread that writes.
  checkpoint::SavedFunction on_removal = {};  ///< Called on rank 0 before a whole checkpoint is removed.
  core::Json who;                             ///< Who claims the checkpoints (host, job), for humans.
  int lowest_attempt = 1;                     ///< Of the claim: above all that are known elsewhere.
  /// Whether a checkpoint (its name) stays for now though it is superfluous; asked in the thread that writes.
  std::function<bool(const std::string& name)> is_held = {};
  LongWaits waits = {};  ///< While checkpoints are written, tested and read.
};

/// Whether an epoch ends with the checkpoint's step; false for tasks without epochs.
bool ends_epoch(const checkpoint::CheckpointManifest& manifest);

/// Writes and reads <run>/checkpoints/step-<n>.a<attempt>/{model,optimizer}*.safetensors and manifest.json.
///
/// Every file is hashed, written under a temporary name, fsynced and renamed; the manifest comes last, when the files
/// of all ranks are there, and makes the folder a checkpoint. A checkpoint of any number of parts is read by any number
/// of ranks that share the model in any way.
class Checkpointer {
 public:
  /// Claims the run's checkpoints for this attempt (rank 0). EnvironmentError where ranks that write parts do not see
  /// rank 0's files. Collective.
  Checkpointer(const CheckpointerConfig& config, const CheckpointState& state, comm::Comm& world);
  ~Checkpointer();

  /// Copies the state and returns; a thread writes it. A save that is still under way is waited for, by all ranks and
  /// without a limit (LongWaits). A failing write (full disk) is a warning: the older checkpoints stay, training goes
  /// on. False, on all ranks, where its folder cannot be made. Collective.
  bool save(const CheckpointPosition& position);
  /// Waits for the save under way; false when the last one failed.
  bool wait();
  /// Whether the last one failed, as far as this rank knows by now.
  bool has_failed() const;
  /// Rank 0: once nothing is being written, removes what is neither new enough nor among the best. A failure is a
  /// warning.
  void remove_superfluous();

  /// The newest whole checkpoint of the run, each damaged one passed over with a warning; nothing when there is none at
  /// all. CheckpointError when all are damaged. Collective, as is the next.
  std::optional<RestoredCheckpoint> restore_latest();
  /// A particular checkpoint folder; CheckpointError when it is damaged or of another model.
  RestoredCheckpoint restore(const std::filesystem::path& folder);
  /// The one that `choose` names, which must name one.
  RestoredCheckpoint restore_chosen(const ChooseFunction& choose);
  /// One whose files have just been verified.
  RestoredCheckpoint load(const std::filesystem::path& folder);

  /// Warns where the file system has no room for what will be saved. Collective.
  void warn_without_room() const;

  int attempt() const { return attempt_; }

 private:
  void check_shared_folder() const;
  std::vector<std::pair<std::string, int>> files_of_others() const;
  std::optional<RestoredCheckpoint> continued(std::optional<RestoredCheckpoint> restored);

  CheckpointerConfig config_;
  CheckpointState state_;
  comm::Comm& world_;
  CheckpointReader reader_;
  int attempt_ = 0;
  int first_attempt_ = 1;                     // since which the run goes on without a break; see kFirstAttemptKey
  std::unique_ptr<CheckpointWriter> writer_;  // of ranks that write
};

}  // namespace lockstep::train
