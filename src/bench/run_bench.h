#pragma once
#include <string>
#include <vector>

#include "commands/bench_options.h"
#include "core/error.h"
#include "core/json.h"

namespace lockstep::bench {

/// What only the program knows.
struct BenchFacts {
  std::vector<std::string> command = {};  ///< Words as typed, the program first.
  core::Json versions;
};

/// Runs `bench CASE` on this rank; rank 0 prints. After wrong values, which the table shows, the result is
/// kCommunication for collectives and kInternal elsewhere; errors are thrown.
ExitCode run_bench(const commands::BenchOptions& options, const BenchFacts& facts);

}  // namespace lockstep::bench
