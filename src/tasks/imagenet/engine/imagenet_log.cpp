#include "tasks/imagenet/engine/imagenet_log.h"

#include <fmt/format.h>

#include <cmath>

#include "record/openclip_log.h"

namespace lockstep::tasks {
namespace {

/// What a line shows: its last value, and its mean since the start of the epoch.
struct EpochMeters {
  explicit EpochMeters(int64_t of_epoch = -1) : epoch(of_epoch) {}
  int64_t epoch;
  record::AverageMeter batch_s, data_s, top1, top5;
};

double or_not_a_number(const std::optional<double>& value) { return value.value_or(NAN); }

class ImagenetLogFormat final : public train::LogFormat {
 public:
  /// The first step of an epoch, every so many after it (as the example), and the last of the run.
  bool is_due(const train::TrainLogConfig& config, int64_t step) const override {
    return step % config.steps_per_epoch % config.log_every_n_steps == 0 || step + 1 == config.total_steps;
  }

  std::string step_line(const train::LogWindow& window) const override {
    const int64_t num_batches = window.config.steps_per_epoch, step = window.values.step;
    const auto num_digits = static_cast<int>(std::to_string(num_batches).size());
    return fmt::format(
        "Epoch: [{}][{:{}d}/{}]\tTime {:6.3f} ({:6.3f})\tData {:6.3f} ({:6.3f})\tLoss {:.4e} ({:.4e})\t"
        "Acc@1 {:6.2f} ({:6.2f})\tAcc@5 {:6.2f} ({:6.2f})",
        step / num_batches, step % num_batches + 1, num_digits, num_batches, meters_.batch_s.last(),
        meters_.batch_s.average(), meters_.data_s.last(), meters_.data_s.average(), window.loss.last(),
        window.loss.average(), meters_.top1.last(), meters_.top1.average(), meters_.top5.last(),
        meters_.top5.average());
  }

  train::Metrics scalars(const train::LogWindow& window) const override {
    return {{"train/loss", window.loss.last()},
            {"train/top1_pct", meters_.top1.last()},
            {"train/top5_pct", meters_.top5.last()},
            {"train/lr", window.values.lr},
            {"train/batch_time_s", meters_.batch_s.last()},
            {"train/data_time_s", meters_.data_s.last()}};
  }

  std::string result_line(int64_t, int64_t, const train::Metrics& metrics) const override {
    const auto value_of = [&](std::string_view wanted) {
      for (const auto& [name, value] : metrics)
        if (name == wanted) return value;
      return std::nan("");
    };
    const double average_top1 = value_of("ema_top1_pct");
    return fmt::format(" * Acc@1 {:.3f} Acc@5 {:.3f}", value_of("top1_pct"), value_of("top5_pct")) +
           (std::isnan(average_top1)
                ? ""
                : fmt::format("; of the average {:.3f} and {:.3f}", average_top1, value_of("ema_top5_pct")));
  }

  /// Called for every step, before its line: the meters of the epoch are filled here.
  void add_to_record(const train::StepValues& values, record::StepRecord& step) const override {
    if (const int64_t epoch = step.epoch.value_or(0); epoch != meters_.epoch) meters_ = EpochMeters(epoch);
    meters_.batch_s.update(values.step_ms / 1000);
    meters_.data_s.update(values.data_wait_ms / 1000);
    meters_.top1.update(or_not_a_number(values.find("top1_pct")));
    meters_.top5.update(or_not_a_number(values.find("top5_pct")));
    if (const auto part = values.find("cross_entropy")) step.losses = {{"cross_entropy", *part}};
  }

 private:
  mutable EpochMeters meters_;
};

}  // namespace

std::unique_ptr<train::LogFormat> make_imagenet_log_format() { return std::make_unique<ImagenetLogFormat>(); }

}  // namespace lockstep::tasks
