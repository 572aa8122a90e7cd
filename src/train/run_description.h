#pragma once
#include <cstdint>

#include "core/json.h"
#include "train/run_context.h"

namespace lockstep::train {

/// What run.json says of an attempt (docs/record.md), beside what is measured.
core::Json describe_attempt(const RunContext& run, int64_t steps_per_epoch, int64_t num_buckets);

}  // namespace lockstep::train
