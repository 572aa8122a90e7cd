#pragma once
#include <cstdint>
#include <optional>

#include "config/run_options.h"
#include "core/options.h"

namespace lockstep::tasks {

/// Every option of `train regress` beside those of RunOptions.
struct RegressOptions : config::RunOptions {
  RegressOptions() {
    task = "regress";
    model = "linear";
    precision = "fp32";
    lr = 0.02;
  }
  std::optional<int64_t> max_steps;  // --max-steps
  int64_t num_features = 8;          // --features
  double noise = 0.01;               // --noise
  int64_t micro_batch_size = 64;     // --batch-size
  int64_t train_num_samples = 4096;  // --train-num-samples
  int64_t epochs = 1;                // --epochs
};

/// Declares every flag of `train regress` for the fields of `options`.
core::OptionSet declare_regress_options(RegressOptions& options);

/// What a run must know of the options.
config::RunFacts regress_run_facts(const RegressOptions& options);

}  // namespace lockstep::tasks
