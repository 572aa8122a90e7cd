#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "remote/open_store.h"

namespace lockstep::remote {

/// What was brought here from a run's copy.
struct FetchedRun {
  bool has_record = false;                          ///< Logs and claims, of a run that was not here.
  std::optional<std::filesystem::path> checkpoint;  ///< Newer than any that was here; its hashes fit its manifest.
  int highest_attempt = 0;                          ///< That has a claim at the copy; 0: none.
  std::optional<std::filesystem::path> openclip;    ///< Else OpenCLIP's newest file, where neither has a checkpoint.
};

/// Whether a store holds a run: its record or a checkpoint.
bool holds_run(ObjectStore& run_copy);

/// Brings the newest whole checkpoint of a run's copy into the run's folder where that has none as new, and the record
/// where the copy is ahead. A checkpoint whose files are missing or altered is passed over with a warning for the one
/// before. CheckpointError when all are damaged, and for files of OpenCLIP alone unless `takes_openclip`. RemoteError.
FetchedRun fetch_latest(ObjectStore& run_copy, const std::filesystem::path& run_folder, bool takes_openclip = false);

/// Brings one checkpoint, the folder at `address`, into checkpoints/ of the run's folder, verifies it and returns its
/// path; one that is there already and whole is not fetched again. Another one of its name is never replaced:
/// CheckpointError. So is a folder that is no checkpoint or is damaged.
std::filesystem::path fetch_checkpoint(const Address& address, const std::filesystem::path& run_folder,
                                       const ClientConfig& config = {});

}  // namespace lockstep::remote
