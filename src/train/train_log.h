#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "record/openclip_log.h"
#include "record/run_record.h"
#include "record/tensorboard.h"
#include "record/wandb.h"
#include "train/log_format.h"

namespace lockstep::train {

/// What rank 0 says and keeps of every step: steps.jsonl, log lines, the progress line of a terminal, TensorBoard
/// scalars.
class TrainLog {
 public:
  /// `record` must outlive the log. With `wandb` an offline run of Weights & Biases is written, too.
  TrainLog(const TrainLogConfig& config, std::unique_ptr<LogFormat> format, record::RunRecord& record,
           const std::optional<record::WandbRun>& wandb = std::nullopt);

  void add(const StepValues& values);
  void add_result(int64_t epoch, int64_t step, const std::string& name, const record::NamedNumbers& metrics,
                  double seconds);
  /// The run ends, with this code of its process.
  void finish(int exit_code);

 private:
  void record_step(const StepValues& values, bool is_skipped);
  void log_line(const StepValues& values);
  void show_progress(const StepValues& values);

  TrainLogConfig config_;
  std::unique_ptr<LogFormat> format_;
  record::RunRecord& record_;
  std::unique_ptr<record::TensorBoardWriter> tensorboard_;
  std::unique_ptr<record::WandbWriter> wandb_;
  record::AverageMeter loss_, batch_s_, data_s_;  // of the epoch; of the window
  record::AverageMeter updated_loss_;             // of the window's steps that were updated
  std::map<std::string, record::AverageMeter> loss_parts_;
  int64_t epoch_of_meters_ = -1;
  int64_t num_skipped_steps_ = 0;
  int64_t num_skipped_in_window_ = 0, num_nan_in_window_ = 0;
  double recent_step_ms_ = 0;  // exponential mean, for the remaining time
};

}  // namespace lockstep::train
