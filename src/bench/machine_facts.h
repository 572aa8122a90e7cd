#pragma once
#include "bench/bench_case.h"
#include "core/json.h"

namespace lockstep::bench {

/// What a number depends on besides the code: hosts, processors, memory, devices and threads of all ranks, and the
/// variables that steer transports and threads. Collective.
core::Json machine_facts(const BenchContext& context);

}  // namespace lockstep::bench
