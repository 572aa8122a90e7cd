#pragma once
#include <memory>
#include <string>

#include "bench/bench_case.h"

namespace lockstep::bench {

/// The case that the options name.
std::unique_ptr<BenchCase> make_case(const BenchContext& context);
std::string case_name(commands::BenchCaseName which);

}  // namespace lockstep::bench
