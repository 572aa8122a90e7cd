#pragma once
#include "core/error.h"
#include "train/train_request.h"

namespace lockstep::train {

/// Joins the ranks, builds network, data, optimiser and record, and trains. Returns kOk or kRequeue; errors are thrown
/// and noted in the run record.
ExitCode train(const TrainRequest& request, const SoftwareVersions& versions);

}  // namespace lockstep::train
