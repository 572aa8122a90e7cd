#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// Time from an input on the host to a result on the host, by batch, precision, tower and starting point.
std::unique_ptr<BenchCase> make_latency_case(const BenchContext& context);

}  // namespace lockstep::bench
