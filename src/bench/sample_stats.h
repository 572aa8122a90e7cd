#pragma once
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "core/json.h"

namespace lockstep::bench {

/// One time per iteration from the times of all ranks: "avg", "min", "max" or "rank0". Collective.
std::vector<double> combine_ranks(comm::Comm& world, const std::vector<double>& samples, const std::string& how);

/// {"num_samples", "median", "p90", "p99" (from 100 samples on), "min", "max", "mean", "median_95", "p90_95", "p99_95"
/// (95 % intervals that hold under autocorrelation, where the samples are enough for them), "notes"} of samples that
/// are finite and above 0.
core::Json statistics_of(std::span<const double> samples);

}  // namespace lockstep::bench
