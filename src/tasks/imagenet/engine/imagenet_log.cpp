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

std::optional<double> value_of(const train::Metrics& metrics, const std::string& wanted) {
  for (const auto& [name, value] : metrics)
    if (name == wanted) return value;
  return std::nullopt;
}

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
    const auto average_top1 = value_of(metrics, "ema_top1_pct"), average_top5 = value_of(metrics, "ema_top5_pct");
    return fmt::format(" * Acc@1 {:.3f} Acc@5 {:.3f}", or_not_a_number(value_of(metrics, "top1_pct")),
                       or_not_a_number(value_of(metrics, "top5_pct"))) +
           (average_top1
                ? fmt::format("; of the average {:.3f} and {:.3f}", *average_top1, or_not_a_number(average_top5))
                : "");
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

std::string evaluation_table(const train::Metrics& metrics) {
  const bool has_average = value_of(metrics, "ema_top1_pct").has_value();
  std::string table = has_average ? fmt::format("{:<10} {:>12} {:>12}\n", "", "weights", "average") : "";
  table += fmt::format("{:<10} {:>12.0f}\n", "pictures", or_not_a_number(value_of(metrics, "num_samples")));
  table += fmt::format("{:<10} {:>12.0f}\n", "failed", value_of(metrics, "num_failed").value_or(0));
  struct Row {
    const char *title, *name;
    int digits;
  };
  for (const Row& row : {Row{"top-1 (%)", "top1_pct", 3}, Row{"top-5 (%)", "top5_pct", 3}, Row{"loss", "loss", 5}}) {
    table += fmt::format("{:<10} {:>12.{}f}", row.title, or_not_a_number(value_of(metrics, row.name)), row.digits);
    if (has_average)
      table +=
          fmt::format(" {:>12.{}f}", or_not_a_number(value_of(metrics, fmt::format("ema_{}", row.name))), row.digits);
    table += "\n";
  }
  return table;
}

std::unique_ptr<train::LogFormat> make_imagenet_log_format() { return std::make_unique<ImagenetLogFormat>(); }

}  // namespace lockstep::tasks
