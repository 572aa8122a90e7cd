#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "config/run_options.h"
#include "train/joined_ranks.h"
#include "train/train_request.h"

namespace lockstep::train {

/// Where a run writes, and where it continues from.
struct RunFolder {
  std::filesystem::path path;  ///< <logs>/<name>
  std::string name;
  bool is_resume = false;      ///< --resume was given, or implied by a requeued SLURM job.
  bool resume_latest = false;  ///< The newest whole checkpoint of this run, or a fresh start where there is none.
  std::filesystem::path resume_path;  ///< A particular checkpoint, else empty.
  bool has_checkpoint = false;        ///< With is_resume: there is something to go on from, be it whole or not.
  int highest_attempt_of_copy = 0;    ///< That has a claim at --remote-sync.
  std::filesystem::path first_made;   ///< The run folder or the topmost folder above it that this start made; else "".

  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
};

/// What SLURM says of this start.
struct SlurmStart {
  int restart_count = 0;    ///< > 0: the job was requeued.
  std::string job_id = {};  ///< The same at each of its starts.
};

/// Names the run (OpenCLIP's automatic name from `time_text` when none is given). A folder that already holds a run is
/// a UsageError unless the run is resumed. A requeued job resumes the latest checkpoint, also where --resume names
/// another one, once it has saved one itself. A run of OpenCLIP goes on from its newest file until there is a
/// checkpoint of ours. For rank 0.
RunFolder choose_run_folder(const config::RunOptions& options, const config::RunFacts& facts,
                            const std::string& time_text, const SlurmStart& start);

/// A RunFolder as text and back, for the other ranks.
std::string to_text(const RunFolder& folder);
RunFolder run_folder_from_text(const std::string& text);

/// The folder of a run, the same on all ranks, with its log file. CheckpointError where it needs a checkpoint and has
/// none. Collective.
RunFolder open_run_folder(const TrainRequest& request, JoinedRanks& ranks);

/// The log that this rank writes: rank 0's, with --log-local one of the first rank of each node, as in OpenCLIP, where
/// the folder need not be rank 0's: it may lie on a disk of that node. Empty: none.
std::filesystem::path log_file_of(const RunFolder& folder, const config::RunOptions& options,
                                  const hw::RankInfo& place);

/// CheckpointError: a command that is not to begin without a checkpoint finds none.
[[noreturn]] void throw_needed_checkpoint(const RunFolder& folder);

/// Takes back the folders that a start made; nothing happens to a run folder that was there before. For rank 0.
void remove_new_folders(const RunFolder& folder);

/// Local time as 2026_01_31-12_00_00.
std::string time_text_now();

}  // namespace lockstep::train
