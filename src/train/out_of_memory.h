#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/system_failure.h"
#include "train/train_request.h"

namespace lockstep::train {

/// Whether an allocation failed, of a device or of the host.
bool is_out_of_memory(const std::exception& error);

/// The same as an EnvironmentError that tells what was planned for a rank of `num_ranks`.
EnvironmentError explain_out_of_memory(const std::exception& error, const TrainRequest& request, int64_t num_ranks);

/// What `work` returns; where memory runs out in it, or the system refuses a thread or a file, the explained error.
template <typename Work>
auto explaining_limits(const TrainRequest& request, const int64_t& num_ranks, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw explain_out_of_memory(error, request, num_ranks);
    if (const auto failure = core::system_failure_of(error)) throw *failure;
    throw;
  }
}

}  // namespace lockstep::train
