#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "models/task.h"

namespace lockstep::train {

/// A fault that tests put into a run through the environment: LOCKSTEP_FAULT="slow-compute rank=1 from=5 to=20 ms=40".
struct Fault {
  enum class Kind {
    kSlowCompute,  ///< Forward takes `ms` longer.
    kThrow,        ///< Forward throws.
    kDie,          ///< The process ends without a word (SIGKILL).
    kHang,         ///< Forward never returns.
  } kind = Kind::kSlowCompute;
  int rank = 0;
  int64_t first_step = 0, end_step = INT64_MAX;  ///< Forward passes of this process, counted from 0.
  double ms = 0;
};

/// Nothing for an empty text; UsageError for one that cannot be read.
std::optional<Fault> parse_fault(const std::string& text);

/// `task` with the fault where it is this rank's, else nullptr. `task` must outlive the result.
std::unique_ptr<models::Task> with_fault(models::Task& task, const std::optional<Fault>& fault, int rank);

}  // namespace lockstep::train
