#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// Matrix products, copies, triads, attention and layer norms; every rank runs them at the same time, the slowest
/// counts. Sums up the highest rate of each precision: the measured peak.
std::unique_ptr<BenchCase> make_op_case(const BenchContext& context);

}  // namespace lockstep::bench
