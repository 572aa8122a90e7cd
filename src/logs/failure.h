#pragma once
#include <filesystem>

#include "record/run_data.h"

namespace lockstep::logs {

/// Looks into the end of another program's log for how it ended: a Python traceback, out of memory, NCCL, srun and
/// slurmstepd errors set state "failed"
/// ("stopped" for a cancelled job or one that ran into its time limit) and the message; nothing of the kind leaves the
/// run as it is.
void note_failure_of_log(const std::filesystem::path& file, record::RunData& run);

}  // namespace lockstep::logs
