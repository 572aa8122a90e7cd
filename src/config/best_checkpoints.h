#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// --save-top-performance N and what it ranks by. Fields of RunOptions; each task says in its constructor which metric
/// is its own.
struct BestCheckpointOptions {
  int64_t num_best = 0;          // --save-top-performance, 0 = off
  std::string data = "all";      // --top-k-checkpoint-select-dataset
  std::string metric = "_R@10";  // --top-k-checkpoint-select-metric
};

void declare_best_checkpoints(core::OptionSet& set, BestCheckpointOptions& options);

/// Which checkpoints a run keeps because they are the best.
struct BestCheckpoints {
  int64_t num_best = 0;                ///< 0: none.
  std::vector<std::string> metrics{};  ///< Their mean ranks.
  bool is_smaller_better = false;
};

/// By the metrics that the run's evaluations have, of the data that were asked for: the one whose name is the text of
/// the flag, else those whose names end with it, else those that contain it.
BestCheckpoints best_checkpoints(const BestCheckpointOptions& options, const std::vector<std::string>& metrics);

/// UsageError where no metric of the run is meant, or such that cannot be averaged; and for flags without effect.
void check_best_checkpoints(const BestCheckpointOptions& options, const std::vector<std::string>& metrics,
                            const core::OptionSet& set);

}  // namespace lockstep::config
