#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/process.h"

namespace lockstep::cli {

/// One rank that the launcher starts.
struct RankCommand {
  int rank = 0;
  core::ProcessOptions process{};      ///< Streams are set by run_rank_group.
  std::filesystem::path error_file{};  ///< Where the rank may leave its message as torchrun's ranks do.
};

struct GroupConfig {
  bool has_prefix = true;                       ///< "[rank N] " before each line but those of rank 0's standard output.
  std::chrono::milliseconds kill_grace{10000};  ///< From SIGTERM to SIGKILL, once a rank has failed.
  /// The same, once a rank was lost to a signal: the others can save nothing without it, and those that wait for it may
  /// not see the SIGTERM, but find out by themselves which it was and tell it (hw::time_to_tell_of_lost_rank).
  std::chrono::milliseconds lost_rank_grace{10000};
  std::chrono::milliseconds settle{
      2000};  ///< How long to wait for a cause when the first to end is a rank that lost its peer.
  std::filesystem::path run_folder_file{};  ///< Where rank 0 names the folder of its run, so that a failure can be
                                            ///< noted in its record; empty: nowhere.
};

/// Starts all ranks, passes their output and our signals on, and returns the exit code of the group.
///
/// 0: all ranks ended with 0. 75: all ended well, one or more with 75. Else a rank failed: the others get SIGTERM,
/// after kill_grace or lost_rank_grace SIGKILL; the first rank that failed (one that lost its peer, code 3, counts only
/// when no rank shows a cause) is named on standard error with host, exit code or signal and its last warning or error,
/// and its code is returned (128 + n for signal n). SIGINT, SIGTERM, SIGUSR1, SIGUSR2 go to the ranks, SIGHUP as
/// SIGTERM; a second SIGINT kills them. None outlives the call.
int run_rank_group(const std::vector<RankCommand>& commands, const GroupConfig& config);

}  // namespace lockstep::cli
