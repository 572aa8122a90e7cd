#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <map>
#include <string>

#include "record/openclip_log.h"
#include "record/steps.h"
#include "train/metrics.h"
#include "train/telemetry.h"

namespace lockstep::train {

struct TrainLogConfig {
  int64_t steps_per_epoch = 1;
  int64_t samples_per_step = 1;  ///< Over all ranks.
  int64_t tokens_per_step = 0;   ///< Nominal: samples x context length; 0 where there is no text.
  int64_t total_steps = 1;
  int world_size = 1;
  int64_t log_every_n_steps = 100;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  bool to_tensorboard = false;
  double train_flops_per_step = 0;  ///< Of the model, over all ranks.
};

/// The steps since the log line before.
struct LogWindow {
  const TrainLogConfig& config;
  const StepValues& values;                                       ///< Of the last of them.
  const record::AverageMeter &loss, &batch_s, &data_s;            ///< `loss` is of the epoch so far.
  const std::map<std::string, record::AverageMeter>& loss_parts;  ///< "contrastive_loss", ...; of the epoch so far.
  int64_t num_skipped = 0, num_nan = 0;  ///< Steps without an update; losses that are no numbers.
  /// Mean loss of the window's steps that were updated; of its last step where none was.
  double mean_loss = 0;
};

/// Log lines and names of scalars as the program has them that a task takes after.
class LogFormat {
 public:
  virtual ~LogFormat() = default;
  /// Whether a line follows this step.
  virtual bool is_due(const TrainLogConfig& config, int64_t step) const = 0;
  virtual std::string step_line(const LogWindow& window) const = 0;
  virtual Metrics scalars(const LogWindow& window) const = 0;
  virtual std::string result_line(int64_t epoch, int64_t step, const Metrics& metrics) const = 0;
  /// What a task's own scalars add to the record of a step.
  virtual void add_to_record(const StepValues&, record::StepRecord&) const {}
};

}  // namespace lockstep::train
