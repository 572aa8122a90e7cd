#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// Whole optimiser steps of `train clip` on made-up (or given) batches that lie on the device, without loader and log.
std::unique_ptr<BenchCase> make_step_case(const BenchContext& context);

}  // namespace lockstep::bench
