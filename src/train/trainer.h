#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "core/error.h"
#include "core/json.h"
#include "optim/grad_norm.h"
#include "train/batch_source.h"
#include "train/phase_clock.h"
#include "train/telemetry.h"
#include "train/train_log.h"
#include "train/training.h"
#include "train/training_task.h"

namespace lockstep::train {

/// A flag that ends a run before its length, as log lines write it, and the steps of that length.
struct EarlyEnd {
  std::string flag;
  int64_t planned_steps = 0;
};

/// How long a run is and what happens when. Steps are optimiser steps.
struct TrainerConfig {
  int64_t steps_per_epoch = 1;
  int64_t num_epochs = 1;
  std::optional<int64_t> max_steps;   ///< Ends earlier, wherever that is in an epoch.
  std::optional<EarlyEnd> early_end;  ///< What set max_steps where it is not the length that was asked for.
  int64_t samples_per_step = 1;       ///< Over all ranks.
  int64_t micro_batches_per_step = 1;
  double grad_clip_norm = 0;  ///< 0: none.
  int64_t log_every_n_steps = 100;
  bool logs_params_norm = false,
       logs_num_zeros = false;         ///< Of the steps that log_every_n_steps divides, and the last.
  int64_t save_frequency_epochs = 1;   ///< 0: only at the end.
  int64_t save_every_n_steps = 0;      ///< 0: off.
  int64_t check_replicas_steps = 500;  ///< 0: never.
  uint64_t seed = 0;
  std::string flags_to_resume = "--resume latest";  ///< Of the command that goes on with the run when it is stopped.

  int64_t total_steps() const { return steps_per_epoch * num_epochs; }
  int64_t last_step() const { return max_steps ? std::min(*max_steps, total_steps()) : total_steps(); }
};

/// Where a run stands between two steps: with parameters, optimiser and scaler all that a checkpoint must hold.
struct TrainerPosition {
  int64_t step = 0;
  int64_t samples_seen = 0;
  core::Json data;  ///< Of the loader.
};

/// Means of this rank over the steps of a log interval.
struct IntervalTimes {
  int64_t step = 0;  ///< Last of the interval.
  int64_t num_steps = 0;
  double step_ms = 0;
  PhaseTimes phases;
  int64_t last_run_step = 0;  ///< Times are read some steps late: what the machine counted since the interval before is
                              ///< of the steps up to here,
  int64_t num_run_steps = 0;  ///< and of so many.
};

/// What a run does around the steps. Collective calls say so; all ranks make them in one order.
class TrainerCallbacks {
 public:
  virtual ~TrainerCallbacks() = default;
  virtual void before_step(int64_t step) = 0;  ///< Also after the last, with the number of steps.
  virtual void record_first_step(const PhaseTimes& times) = 0;
  virtual void record_interval(const IntervalTimes& times) = 0;  ///< Collective; once per log interval.
  /// Collective; may go on writing in the background. False, on all ranks, where nothing is being saved.
  virtual bool save(const TrainerPosition& position) = 0;
  virtual void finish_saving() = 0;  ///< Waits until what was saved is durable.
  /// Collective; after each epoch, and where --max-steps ends within one, which then counts as done. Is the model to be
  /// saved because it is one of the best?
  virtual bool evaluate(const EvaluationTime& when) = 0;
  virtual bool is_time_up() = 0;  ///< Asked after each step: that one rank says so is enough.
};

/// What the trainer works with. Owned by the caller, outlives the trainer.
struct TrainerParts {
  Training& training;
  BatchSource& batches;
  comm::Comm& world;
  at::Device device;
  PhaseClock& phases;
  TrainLog* log;  ///< Rank 0 only.
  TrainerCallbacks& callbacks;
};

/// The training loop of every task.
class Trainer {
 public:
  Trainer(const TrainerConfig& config, const TrainerParts& parts, const TrainerPosition& start);
  /// kOk when the run is complete or its time is up, kRequeue when it was asked to stop (saved before).
  ExitCode run();

 private:
  void step();
  ExitCode finish();
  void log_stop(const std::string& why) const;
  std::vector<models::Batch> next_micro_batches();
  /// Adds to the outcome what is logged of some steps only.
  optim::GradSummary update(double lr, StepOutcome& outcome);
  StopRequest own_request();
  void take_own_request();
  void push_telemetry(const StepOutcome& outcome, const optim::GradSummary& gradients, double lr);
  void digest(const std::vector<StepValues>& values);
  void at_boundaries();
  EvaluationTime evaluation_now() const;
  void end_interval();
  void save();

  TrainerConfig config_;
  TrainerParts parts_;
  TrainerPosition position_;
  StopRequest stop_request_ = StopRequest::kNone;  // of all ranks, until it is met
  Telemetry telemetry_;
  int64_t num_digested_ = 0;  // steps whose values have been read
  IntervalTimes interval_;    // sums since the last end_interval
  int64_t interval_begin_;    // first step that ran since then
  int64_t last_saved_step_ = -1;
};

}  // namespace lockstep::train
