#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "record/steps.h"

namespace lockstep::record {

/// Weighted running mean and last value, as OpenCLIP's log lines use them.
class AverageMeter {
 public:
  void update(double value, double weight = 1);
  void reset() { *this = AverageMeter(); }
  double last() const { return last_; }
  double average() const { return average_; }
  bool is_empty() const { return weight_ == 0; }

 private:
  double last_ = 0, average_ = 0, sum_ = 0, weight_ = 0;
};

/// What OpenCLIP 3.3.0 says after a training step, without the prefix of the logger.
struct OpenClipTrainLine {
  struct Loss {
    std::string name{};  ///< "contrastive_loss", "loss"
    double last = 0, average = 0;
  };
  int64_t epoch = 0;             ///< From 0.
  int64_t samples_in_epoch = 0;  ///< Seen so far in this epoch, over all ranks.
  int64_t samples_per_epoch = 0;
  double percent_of_epoch = 0;
  double data_s = 0;   ///< Mean over the log window.
  double batch_s = 0;  ///< Likewise.
  double samples_per_s = 0;
  double samples_per_s_per_rank = 0;
  double lr = 0;
  double logit_scale = 0;
  std::vector<Loss> losses{};
};

/// "Train Epoch: 0 [  512/10000 (5%)] Data (t): 0.012 Batch (t): 0.340, 1505.88/s, 1505.88/s/gpu LR: 0.000100 Logit
/// Scale: 14.286
/// ..."
std::string format_train_line(const OpenClipTrainLine& line);

/// "Eval Epoch: 1 imagenet-zeroshot-val-top1: 0.1234\t..."
std::string format_eval_summary(int64_t epoch, const NamedNumbers& metrics);

/// Scalars of one logged step under OpenCLIP's names: train/data_time, train/batch_time (last values, in seconds),
/// train/samples_per_second, train/samples_per_second_per_gpu, train/scale, train/lr, then train/<loss> for each loss.
NamedNumbers openclip_train_scalars(const OpenClipTrainLine& line, double last_data_s, double last_batch_s);

}  // namespace lockstep::record
