#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "config/flops.h"
#include "core/json.h"
#include "data/train_stream.h"
#include "train/batch_source.h"
#include "train/log_format.h"
#include "train/metrics.h"
#include "train/training.h"

namespace lockstep::train {

/// What a run and its record say about a task.
struct TaskFacts {
  int64_t num_parameters = 0;
  core::Json model = core::Json::object();  ///< More about the network: attempts[].model in run.json.
  /// What of the model and its optimiser a run that goes on must have the same, by name, where shapes of tensors do not
  /// tell it or not in words: checkpoints keep it.
  core::Json identity = core::Json::object();
  config::FlopCount forward;            ///< Of one sample.
  config::FlopCount processed{};        ///< The same without what training leaves out; 0: nothing is left out.
  int64_t sequence_length = 0;          ///< Tokens of one sample.
  bool is_convolutional = false;        ///< Most of its products are convolutions.
  bool is_synthetic = false;            ///< The data are made up.
  std::string sample_unit = "samples";  ///< What a sample is called.
  std::string layout;                   ///< "dp=4"
  bool has_epochs = true;  ///< Epochs are passes over the data, whose length a resumed run must keep; else they only
                           ///< say when to evaluate.
};

/// When in a run an evaluation takes place.
struct EvaluationTime {
  int64_t epochs_done = 0;  ///< OpenCLIP's number of the evaluation.
  int64_t steps_done = 0;
  bool is_last = false;  ///< No training follows: all that can be evaluated is due.
};

/// What a run trains: network with loss, optimiser, data, evaluation, log lines. Owns what it builds. Collective calls
/// say so; all ranks make them in one order.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;
  virtual TaskFacts facts() const = 0;
  /// Opens what training and evaluation read, makes an index where that is allowed, and tries what evaluation will read
  /// before hours of training go by. Steps of one epoch; 0 steps: there are no training data, the run only evaluates.
  /// Collective.
  virtual data::EpochSize open_data() = 0;
  /// What a new run begins with, where it begins with another one's checkpoint. Collective.
  virtual Snapshot find_snapshot() { return {}; }
  /// Network, loss, gradients, optimiser: called once, after open_data. Collective.
  virtual Training& build_training(const TrainingHooks& hooks) = 0;
  /// The training stream from `position` on (of an earlier one; null: from the start).
  virtual std::unique_ptr<BatchSource> open_train(const core::Json& position) = 0;
  /// What is due; empty: nothing. Collective.
  virtual Metrics evaluate(const EvaluationTime& when) = 0;
  virtual std::unique_ptr<LogFormat> log_format() const = 0;
};

}  // namespace lockstep::train
