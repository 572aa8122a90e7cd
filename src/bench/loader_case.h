#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// The data path by itself: reading, decoding and batching of --train-data, one row for each number of --workers; with
/// --think-ms a pause between the batches stands for the device.
std::unique_ptr<BenchCase> make_loader_case(const BenchContext& context);

}  // namespace lockstep::bench
