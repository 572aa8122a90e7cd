#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/front/dry_run.h"

namespace lockstep::tasks {

/// How long a run over epochs is, as its options say.
struct RunLength {
  std::optional<int64_t> samples_per_epoch;  ///< Nothing: known when the data are opened.
  bool are_counted = false;  ///< In the data, of which only whole global batches are trained on; else asked for.
  int64_t global_batch = 1, epochs = 1;
  std::optional<int64_t> max_steps;
  std::string sample_name = "sample";  ///< Of one.
  std::string warmup;                  ///< "2000" steps, "5 epochs".
};

/// Adds steps_per_epoch and total_steps.
void add_length_facts(const RunLength& length, std::vector<DryRunFact>& facts);

}  // namespace lockstep::tasks
