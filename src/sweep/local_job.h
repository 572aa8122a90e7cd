#pragma once
#include <string>

#include "sweep/run_outcome.h"
#include "sweep/sweep_state.h"

namespace lockstep::sweep {

/// Is this the id of a `lockstep sweep --local`, "local-PID"?
bool is_local_job(const std::string& id);

/// The job of a point that this process runs itself from now on.
JobRef own_local_job(const std::string& log);

/// Is the process of a local job still at work? On its own host: a process of that number that began when the job says;
/// one that was given the number later is another. Seen from another host: unless the record of this start says that
/// the run has ended, or its heartbeat is dead.
bool is_local_alive(const JobRef& job, const RunOutcome& outcome);

}  // namespace lockstep::sweep
