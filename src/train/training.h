#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "config/param_spec.h"
#include "models/task.h"
#include "optim/adamw.h"
#include "optim/grad_norm.h"
#include "optim/loss_scaler.h"
#include "optim/optimizer.h"
#include "parallel/grad_sync.h"
#include "train/checkpointer.h"
#include "train/fault_injection.h"
#include "train/phase_clock.h"
#include "train/precision.h"
#include "train/shared_hashing.h"
#include "train/step_runner.h"
#include "train/stored_tensors.h"

namespace lockstep::train {

/// Of the step with this number, from 0, before which the run saw so many samples.
using LearningRate = std::function<double(int64_t step, int64_t samples_seen)>;

/// Where ranks hold different parameters: over whom squared norms add up, and what of this rank's counts (copies count
/// on one rank, padding on none).
struct NormShare {
  /// nullptr: every rank holds all, or the part that GradSync::partition() says, and all count.
  comm::Comm* ranks = nullptr;
  /// Of each of the optimiser's segments, in their order, so many elements, the first.
  std::vector<int64_t> counted = {};
};

/// Norm of the gradients, clipping, update, loss scale, parameters on their way to all ranks. Nothing waits for the
/// device. `scaler` may be nullptr.
optim::GradSummary update_parameters(parallel::GradSync& sync, optim::Optimizer& optimizer, optim::LossScaler* scaler,
                                     double lr, double grad_clip_norm, const NormShare& norm = {});

/// L2 norm of all parameters of the model (of fp32 copies, where there are some), and number of elements of its
/// gradient that are 0, of a model that ranks share as `norm` says: 0-dim fp64, on every rank. Nothing waits for the
/// device. Collective over norm.ranks.
at::Tensor params_norm(const optim::Optimizer& optimizer, const NormShare& norm);
at::Tensor num_zeros_in_gradient(const optim::Optimizer& optimizer, const NormShare& norm);

/// What an optimiser of this rank updates; decay groups and bounds by `specs`, which name every segment.
std::vector<optim::Segment> optimizer_segments(const parallel::Partition& partition,
                                               const std::vector<config::ParamSpec>& specs);

/// All that the steps of one rank work with. Members depend on those before them.
struct Training {
  std::unique_ptr<Precision> precision;
  std::unique_ptr<models::Task> task;
  std::unique_ptr<models::Task> faulty_task;  ///< The task as steps see it, where a test asked for a fault.
  std::unique_ptr<parallel::GradSync> sync;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::LossScaler> scaler;  ///< Only where the precision needs one.
  std::unique_ptr<StepRunner> runner;
  comm::Comm* data_axis = nullptr;  ///< The ranks that hold copies of this rank's parameters.
  LearningRate learning_rate;       ///< Of a training run.
  NormShare norm;
  TensorLayout layout;
  /// Where its weights come from, if that is TrainingHooks::snapshot and nothing more is taken of it.
  std::optional<RestoredCheckpoint> weights_from;

  /// See update_parameters: with the gradients that the runner left.
  optim::GradSummary update(double lr, double grad_clip_norm) {
    return update_parameters(*sync, *optimizer, scaler.get(), lr, grad_clip_norm, norm);
  }
};

/// Parameters that zero1 gathers are waited for unit by unit of the network, and where none are, the precision casts
/// all weights at once. To be called when task, precision and sync are there, none of which may be used after another's
/// end.
void prepare_parameter_reads(Training& training);

/// All that a checkpoint of it holds. `training` outlives the result.
CheckpointState checkpoint_state(const Training& training);

/// What a new run takes of a checkpoint of another one.
enum class SnapshotUse { kAll, kWeightsAndPosition, kWeights };

/// The checkpoint of another run that a new one begins with.
struct Snapshot {
  std::filesystem::path folder = {};  ///< By manifests and sizes of files. Empty: there is none.
  SnapshotUse use = SnapshotUse::kAll;
  ChooseFunction choose = {};  ///< By the files themselves: perhaps another one.
};

/// What a run adds to the steps it builds.
struct TrainingHooks {
  PhaseClock* phases = nullptr;  ///< Outlives the training.
  std::optional<Fault> fault = std::nullopt;
  bool is_restored = false;  ///< A checkpoint of this run will fill everything: no other weights are read.
  /// What AdamW goes on with instead of what the flags say: that of a file of OpenCLIP, see RunCheckpoints::find_adamw.
  std::optional<optim::AdamWConfig> adamw = std::nullopt;
  LongWaits waits = {};                  ///< While files of weights are read.
  Snapshot snapshot = {};                ///< Else: where weights alone come from, unless it is restored, too.
  nn::WorkRecorder* recorder = nullptr;  ///< Of its steps, of which there is one rank; outlives the training.
  std::function<void(const std::string&)> on_recording = {};  ///< See StepRunnerParts.
};

/// What a runner of `training` works with; ranks of different `data_rank` draw different random numbers.
StepRunnerParts step_runner_parts(const Training& training, int data_rank, const TrainingHooks& hooks);

}  // namespace lockstep::train
