#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "record/openclip_log.h"
#include "record/run_record.h"
#include "record/tensorboard.h"
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
  bool is_megatron = false;         ///< Lines of Megatron-LM instead of OpenCLIP's.
  double train_flops_per_step = 0;  ///< Of the model, over all ranks.
};

/// What rank 0 says and keeps of every step: steps.jsonl, OpenCLIP's log line, the progress line of a terminal,
/// TensorBoard scalars.
class TrainLog {
 public:
  /// `record` must outlive the log.
  TrainLog(const TrainLogConfig& config, record::RunRecord& record);

  void add(const StepValues& values);
  void add_result(int64_t epoch, int64_t step, const std::string& name, const record::NamedNumbers& metrics,
                  double seconds);
  int64_t num_skipped_steps() const { return num_skipped_steps_; }

 private:
  void record_step(const StepValues& values, bool is_skipped);
  void log_line(const StepValues& values);
  void log_megatron_line(const StepValues& values);
  void show_progress(const StepValues& values);

  TrainLogConfig config_;
  record::RunRecord& record_;
  std::unique_ptr<record::TensorBoardWriter> tensorboard_;
  record::AverageMeter loss_, batch_s_, data_s_;
  int64_t epoch_of_meters_ = -1;
  int64_t num_skipped_steps_ = 0;
  int64_t num_skipped_in_window_ = 0, num_nan_in_window_ = 0;
  double recent_step_ms_ = 0;  // exponential mean, for the remaining time
};

}  // namespace lockstep::train
