#pragma once
#include "comm/comm.h"
#include "core/options.h"
#include "train/train_request.h"

namespace lockstep::train {

/// Every rank must run the same program with the same options and LOCKSTEP_GPU_KERNELS; only its place, threads and
/// logs are its own. EnvironmentError (another program) or UsageError (other options) on every rank, with both values
/// and the rank. Collective.
void require_same_start(comm::Comm& world, const core::OptionSet& set, const SoftwareVersions& versions);

}  // namespace lockstep::train
