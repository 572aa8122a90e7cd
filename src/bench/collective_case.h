#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// All-reduce and its relatives over all ranks, in sizes from --minbytes to --maxbytes; UsageError for one rank alone,
/// which would measure nothing.
std::unique_ptr<BenchCase> make_collective_case(const BenchContext& context);

}  // namespace lockstep::bench
