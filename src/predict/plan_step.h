#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "draw/document.h"
#include "predict/machine.h"
#include "predict/validation.h"
#include "tasks/tasks.h"

namespace lockstep::predict {

/// What a training command computes, holds and sends on so many nodes: taken from the page of its dry run, so that
/// prediction and run cannot disagree about it.
struct PlannedStep {
  int64_t nodes = 0, num_ranks = 0;
  std::string task{}, model{}, precision{};
  bool allows_tf32 = false;     ///< For most of the products of fp32 numbers.
  double flops_per_rank = 0;    ///< Model FLOPs of a step, forward and backward.
  double recompute_factor = 1;  ///< Executed over model FLOPs.
  double moved_bytes = 0;       ///< Read and written by operators beside matrix products; 0: not counted.
  double repeated_bytes = 0;    ///< Of these, what each tensor rank does although one could.
  int64_t global_batch = 0;
  std::optional<int64_t> tokens_per_sample{};
  int64_t num_micro = 1;
  int64_t tp = 1, pp = 1, dp = 1;
  double bubble = 0;  ///< Idle time of the schedule over the mean work of a stage: stages with more work are in it.
  double parameters_per_rank = 0;
  std::vector<double> gradient_bucket_bytes{};  ///< Both passes of a rank's buckets (reduced and gathered, or reduced).
  bool is_gradient_sharded = false;             ///< Reduced by shards, and parameters gathered.
  double tensor_bytes = 0;                      ///< Through a ring of the tensor ranks, without the factor (k - 1) / k.
  int64_t num_tensor_calls = 0;
  double pipe_message_bytes = 0;       ///< The largest.
  std::optional<int64_t> num_steps{};  ///< Of the whole training, where the command tells.
  double memory_bytes = 0;             ///< Of the fullest rank: memory_bytes of the dry run.

  bool operator==(const PlannedStep&) const = default;
};

/// Reads a dry run's page. LOCKSTEP_CHECK that the page has what every task's page has.
PlannedStep planned_step(const std::string& task, const tasks::DryRunPage& page, int64_t nodes, int64_t num_ranks);

/// A command to predict, parsed but for its size.
struct PlannedCommand {
  std::vector<std::string> words{};            ///< "train", "gpt", "--config", ...
  std::optional<double> samples_per_device{};  ///< Weak scaling: the global batch follows the devices.
};

/// The words of a command for so many ranks.
std::vector<std::string> words_for(const PlannedCommand& command, int64_t num_ranks);

/// The step of a full command line ("train", "gpt", ...) on so many nodes. UsageError where it cannot be.
PlannedStep plan_one(std::vector<std::string> words, int64_t nodes, int64_t ranks_per_node);

/// The steps of a command on a machine's nodes. Sizes that the command cannot have (a batch that does not divide) are
/// left out and named in `refused`; UsageError where none is left.
std::vector<PlannedStep> plan_steps(const PlannedCommand& command, const Machine& machine,
                                    const std::vector<int64_t>& nodes, std::vector<std::string>& refused);

/// What the machine's memory leaves a rank, as --dry-run judges: of a board sold with so many GB the driver shows about
/// as many GiB, and keeps a part.
double usable_memory_bytes(const Machine& machine);

/// By step.
std::vector<bool> fit_memory(const std::vector<PlannedStep>& steps, const Machine& machine);

/// "yes", or how much too much a rank of the step holds.
std::string fits_text(const PlannedStep& step, const Machine& machine);

/// The model's view of planned steps: prior, sizes and compute at the first of them.
struct PlannedModel {
  Setting setting{};
  std::vector<Size> sizes{};
  ComputePrior compute{};
  std::string contention_source{};  ///< Of the setting's contentions, where the machine tells any.
  std::vector<KnownFact> facts{};
  InputRates input{};
};

/// UsageError where the machine has no peak for the precision.
PlannedModel model_of(const std::vector<PlannedStep>& steps, const Machine& machine);

/// A measured step of the command: seconds on so many of the machine's nodes.
struct MeasuredStep {
  int64_t nodes = 0;
  double step_s = 0;
};

/// What measured steps of a command say; without any the draws are the prior's.
struct Calibration {
  std::vector<CurvePoint> points{};
  double largest_nodes = 0, reference_s = 0;
  std::optional<double> growth_work{};  ///< Of the Setting: that of the last measured step.
  std::vector<Draw> draws{};
  std::optional<Plateau> plateau{};
  std::vector<std::string> notes{};
};
Calibration calibrate(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                      const std::vector<MeasuredStep>& measured, const Sampling& sampling = {});

/// Draws for all planned steps; `measured` sizes must be planned (UsageError). Without measurements everything is the
/// prior's.
CurvePrediction predict_steps(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                              const std::vector<MeasuredStep>& measured, const Sampling& sampling = {});
CurvePrediction predict_calibrated(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                                   const Calibration& calibration);

/// Predicts `changed`, a command with other flags (batch, layout, precision), from steps that were measured of `base`,
/// at least one. What the measurements say of rates, noise and compute holds for both; work, bubbles and traffic are
/// those of each plan, and products follow the peaks of their precisions.
CurvePrediction predict_changed(const std::vector<PlannedStep>& base, const std::vector<MeasuredStep>& measured,
                                const std::vector<PlannedStep>& changed, const Machine& machine);
/// The same by a calibration on `base`, the first of the steps that it was made with.
CurvePrediction predict_changed(const PlannedStep& base, const Calibration& calibration,
                                const std::vector<PlannedStep>& changed, const Machine& machine);

/// How well the time of products in the precision of `step` is known against those in that of `base`, as a standard
/// deviation of its logarithm; 0 for one precision.
double precision_log_sd(const PlannedStep& step, const PlannedStep& base, const Machine& machine);

/// The view of changed steps from a calibration on `base`: what predict_changed predicts.
PlannedModel changed_model(const PlannedStep& base, const Calibration& calibration,
                           const std::vector<PlannedStep>& changed, const Machine& machine);

/// The first of a model's steps by the first draws of a calibration, at most so many (forecast.h).
std::vector<double> drawn_steps(const PlannedModel& model, const Calibration& calibration, size_t num_draws);

/// Memory of the fullest rank at each size, and whether it fits the machine.
draw::Table memory_table(const std::vector<PlannedStep>& steps, const Machine& machine);
core::Json memory_json(const std::vector<PlannedStep>& steps, const Machine& machine);

}  // namespace lockstep::predict
