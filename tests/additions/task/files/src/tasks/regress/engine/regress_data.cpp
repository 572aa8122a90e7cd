#include "tasks/regress/engine/regress_data.h"

#include <ATen/ATen.h>

#include "core/rng.h"

namespace lockstep::tasks {
namespace {

class RegressBatches final : public train::BatchSource {
 public:
  RegressBatches(const RegressOptions& options, const plan::BatchPlan& batch, int rank, at::Device device,
                 int64_t num_steps)
      : num_features_(options.num_features), noise_(options.noise), seed_(static_cast<uint64_t>(options.seed)),
        batch_(batch), rank_(rank), device_(device), num_steps_(num_steps) {
    core::CounterRng rng(core::stream_key(seed_, "law"));
    for (int64_t i = 0; i <= num_features_; ++i) law_.push_back(rng.uniform(-1, 1));  // the last one is b
  }

  models::Batch next(train::PhaseClock& phases) override {
    const int64_t num_samples = batch_.micro_batch_size;
    std::vector<float> rows;
    for (int64_t i = 0; i < num_samples; ++i) add_row(num_steps_ * batch_.global_batch + rank_ * num_samples + i, rows);
    ++num_steps_;
    phases.mark(train::Phase::kDataWait);
    models::Batch batch;
    batch.num_samples = num_samples;
    batch.audio_BS = at::from_blob(rows.data(), {num_samples, num_features_ + 1}, at::kFloat)
                         .to(device_, at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    phases.mark(train::Phase::kH2d);
    return batch;
  }
  core::Json position() const override { return {{"steps", num_steps_}}; }
  core::Json join_positions(const std::vector<core::Json>& of_ranks) const override { return of_ranks.front(); }

 private:
  void add_row(int64_t sample, std::vector<float>& rows) const {
    core::CounterRng rng(core::stream_key({seed_, static_cast<uint64_t>(sample)}));
    double y = law_.back() + noise_ * rng.normal();
    for (int64_t i = 0; i < num_features_; ++i) {
      const double x = rng.uniform(-1, 1);
      y += law_[static_cast<size_t>(i)] * x;
      rows.push_back(static_cast<float>(x));
    }
    rows.push_back(static_cast<float>(y));
  }

  int64_t num_features_;
  double noise_;
  uint64_t seed_;
  plan::BatchPlan batch_;
  int rank_;
  at::Device device_;
  int64_t num_steps_;
  std::vector<double> law_;
};

}  // namespace

std::unique_ptr<train::BatchSource> open_regress_data(const RegressOptions& options, const plan::BatchPlan& batch,
                                                      int rank, at::Device device, const core::Json& position) {
  const int64_t num_steps = position.is_null() ? 0 : position.at("steps").get<int64_t>();
  return std::make_unique<RegressBatches>(options, batch, rank, device, num_steps);
}

}  // namespace lockstep::tasks
