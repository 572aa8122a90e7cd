#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include "nn/gradient_sink.h"
#include "parallel/grad_sync.h"

namespace lockstep::parallel {
namespace {

/// Gradients after a step's first one are added to it where they are made.
struct AddingHook final : torch::autograd::PostAccumulateGradHook, nn::GradientSink {
  void operator()(const torch::autograd::Variable&) override {}
  Sum begin(const at::Tensor& parameter) override { return {parameter.grad()}; }
  void added() override {}
  void is_complete() override {}
};

class NoneGradSync final : public GradSync {
 public:
  explicit NoneGradSync(std::vector<comm::NamedTensor> parameters) : parameters_(std::move(parameters)) {
    std::erase_if(parameters_, [](const auto& parameter) { return !parameter.tensor->requires_grad(); });
    for (const auto& parameter : parameters_)
      partition_.segments.push_back({.name = parameter.name, .parameter = *parameter.tensor});
    for (const auto& parameter : parameters_) hooked_.push_back(*parameter.tensor);
    for (const at::Tensor& tensor : hooked_)
      torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::make_unique<AddingHook>());
  }
  ~NoneGradSync() override {
    for (const at::Tensor& tensor : hooked_) torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
  }
  void begin_step() override {
    for (auto& parameter : parameters_) parameter.tensor->mutable_grad() = at::Tensor();
  }
  void begin_micro(bool) override {}
  void finish() override {}
  void publish_params() override {}
  void wait_params() override {}
  std::function<void()> wait_where_used(const std::vector<comm::NamedTensor>&) override { return {}; }
  int64_t num_buckets() const override { return 0; }

 private:
  std::vector<comm::NamedTensor> parameters_;
  std::vector<at::Tensor> hooked_;  // may outlive the network
};

}  // namespace

std::unique_ptr<GradSync> make_grad_sync_none(std::vector<comm::NamedTensor> parameters) {
  return std::make_unique<NoneGradSync>(std::move(parameters));
}

}  // namespace lockstep::parallel
