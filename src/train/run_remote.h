#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/held_checkpoint.h"
#include "config/run_options.h"
#include "remote/run_sync.h"

namespace lockstep::train {

/// A run whose files may come from elsewhere.
struct LocalRun {
  std::filesystem::path folder;
  std::string name;
  bool is_resume = false;
};

/// Tests that --remote-sync can be written, and fetches what a resumed run needs from its copy there into its folder:
/// afterwards the run begins as if it had always been here. UsageError for a run that has a copy already and is not
/// resumed; RemoteError. Returns the highest attempt that has a claim there; 0: none. For rank 0.
int bring_run_here(const config::RunOptions& options, const LocalRun& run);

/// The same of the checkpoint that --resume names by an address; where it lies now.
std::filesystem::path bring_checkpoint_here(const std::string& address, const std::filesystem::path& run_folder);

/// The thread that copies the run to --remote-sync; nothing without the flag. `attempt`: of the run's claim on its
/// checkpoints; 0: it has none. `held` outlives it. For rank 0.
std::unique_ptr<remote::RunSync> start_sync(const config::RunOptions& options, const LocalRun& run, int attempt,
                                            checkpoint::HeldCheckpoint& held);

}  // namespace lockstep::train
