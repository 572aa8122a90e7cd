#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "config/run_options.h"
#include "remote/run_sync.h"

namespace lockstep::train {

/// A run whose files may come from elsewhere.
struct LocalRun {
  std::filesystem::path folder;
  std::string name;
  bool is_resume = false;
};

/// Tests that --remote-sync can be written, and fetches what --resume wants from elsewhere into the run's folder:
/// afterwards the run begins as if it had always been here. Returns the checkpoint that --resume names by an address.
/// UsageError for a run that has a copy already and is not resumed; RemoteError. For rank 0.
std::optional<std::filesystem::path> bring_run_here(const config::RunOptions& options, const LocalRun& run);

/// The thread that copies the run to --remote-sync; nothing without the flag. `attempt`: of the run's claim on its
/// checkpoints; 0: it has none. For rank 0.
std::unique_ptr<remote::RunSync> start_sync(const config::RunOptions& options, const LocalRun& run, int attempt);

}  // namespace lockstep::train
