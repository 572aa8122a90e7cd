#include "parallel/grad_sync_summed.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <numeric>

#include "parallel/sum_gradients.h"

namespace lockstep::parallel {
namespace {

class SummedGradSync final : public GradSync {
 public:
  SummedGradSync(std::vector<std::unique_ptr<GradSync>> data, std::vector<PartialGradients> partial)
      : data_(std::move(data)), partial_(std::move(partial)) {
    for (const auto& sync : data_) {
      const Partition& held = sync->partition();
      partition_.shards = held.shards;
      partition_.segments.insert(partition_.segments.end(), held.segments.begin(), held.segments.end());
    }
  }
  void begin_step() override {
    for (const auto& sync : data_) sync->begin_step();
  }
  void begin_micro(bool is_last) override {
    for (const auto& sync : data_) sync->begin_micro(is_last);
  }
  void finish() override {
    for (const auto& sync : data_) sync->finish();
    const c10::NoGradGuard no_grad;
    for (const PartialGradients& entry : partial_) {
      std::vector<at::Tensor> gradients;
      for (const optim::Segment& segment : partition_.segments)
        if (entry.parameters.contains(segment.name))
          gradients.push_back(segment.gradient.defined() ? segment.gradient : segment.parameter.grad());
      sum_gradients(gradients, *entry.group);
    }
  }
  void publish_params() override {
    for (const auto& sync : data_) sync->publish_params();
  }
  void wait_params() override {
    for (const auto& sync : data_) sync->wait_params();
  }
  std::function<void()> wait_where_used(const std::vector<comm::NamedTensor>& parameters) override {
    std::vector<std::function<void()>> waits;
    for (const auto& sync : data_)
      if (auto wait = sync->wait_where_used(parameters)) waits.push_back(std::move(wait));
    if (waits.empty()) return {};
    return [waits = std::move(waits)] {
      for (const auto& wait : waits) wait();
    };
  }
  int64_t num_buckets() const override {
    return std::accumulate(data_.begin(), data_.end(), int64_t{0},
                           [](int64_t sum, const auto& sync) { return sum + sync->num_buckets(); });
  }

 private:
  std::vector<std::unique_ptr<GradSync>> data_;
  std::vector<PartialGradients> partial_;
};

}  // namespace

std::unique_ptr<GradSync> make_grad_sync_summed(std::vector<std::unique_ptr<GradSync>> data,
                                                std::vector<PartialGradients> partial) {
  return std::make_unique<SummedGradSync>(std::move(data), std::move(partial));
}

}  // namespace lockstep::parallel
