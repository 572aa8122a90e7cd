#pragma once
#include <memory>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// Saving and loading of a model with its optimiser through train::Checkpointer, in a folder of its own below --dir
/// that is removed afterwards.
std::unique_ptr<BenchCase> make_checkpoint_case(const BenchContext& context);

}  // namespace lockstep::bench
