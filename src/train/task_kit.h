#pragma once
#include <ATen/core/TensorBody.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/flops.h"
#include "core/json.h"
#include "data/train_stream.h"
#include "train/batch_source.h"
#include "train/retrieval.h"
#include "train/training.h"

namespace lockstep::train {

/// What the record of a run says about its task.
struct TaskFacts {
  int64_t num_parameters = 0;
  core::Json model = core::Json::object();  ///< More about the network: attempts[].model in run.json.
  config::FlopCount forward;                ///< Of one sample.
  config::FlopCount processed{};            ///< The same without what training leaves out; 0: nothing is left out.
  int64_t sequence_length = 0;              ///< Tokens of one sample.
  bool is_synthetic = false;                ///< The data are made up.
  std::string sample_unit = "samples";      ///< What a sample is called.
  std::string layout;                       ///< "dp=4"
};

/// All that a run needs to know of its task: network with loss, data, evaluation. Collective calls say so; all ranks
/// make them in one order.
class TaskKit {
 public:
  virtual ~TaskKit() = default;
  /// Network, loss, gradients, optimiser: built by the first call. Collective.
  virtual Training build_training(const TrainingHooks& hooks) = 0;
  /// Opens what training and evaluation read; makes an index where that is allowed. Collective.
  virtual void open_data() = 0;
  virtual TaskFacts facts() const = 0;
  /// What of the model no shape of a parameter tells, by name: checkpoints keep it, and a run that goes on must have
  /// the same.
  virtual core::Json model_facts() const { return core::Json::object(); }
  /// The ranks that hold copies of this rank's parameters.
  virtual comm::Comm& data_axis() = 0;
  /// Learning rate of every step of a run of so many.
  virtual LearningRate learning_rate(int64_t total_steps) const = 0;
  /// What a new run begins with, where it begins with another one's checkpoint: found and verified. Collective.
  virtual Snapshot find_snapshot() { return {}; }
  /// Epochs are passes over the data, whose length a resumed run must keep; else they only say when to evaluate.
  virtual bool has_epochs() const { return true; }
  /// Steps of one epoch; 0 steps: there are no training data, the run only evaluates.
  virtual data::EpochSize epoch_size() = 0;
  /// The training stream from `position` on (of an earlier loader; null: from the start).
  virtual std::unique_ptr<BatchSource> open_train(const core::Json& position) = 0;
  /// The positions of all ranks as one, which open_train of any rank takes.
  virtual core::Json join_positions(const std::vector<core::Json>& of_ranks) const = 0;
  /// Tries what evaluation will read, before hours of training go by. Collective.
  virtual void check_evaluation() = 0;
  /// What is due after so many epochs; empty: nothing. Collective.
  virtual Metrics evaluate(Training& training, int64_t epochs_done) = 0;
};

}  // namespace lockstep::train
