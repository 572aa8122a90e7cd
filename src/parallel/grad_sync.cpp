#include "parallel/grad_sync.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "core/error.h"
#include "plan/bucket_plan.h"

namespace lockstep::parallel {
namespace {

class NoneGradSync final : public GradSync {
 public:
  explicit NoneGradSync(std::vector<comm::NamedTensor> parameters) : parameters_(std::move(parameters)) {}
  void begin_step() override {
    for (auto& parameter : parameters_) parameter.tensor->mutable_grad() = at::Tensor();
  }
  void begin_micro(bool) override {}
  void finish() override {}
  void publish_params() override {}
  int64_t num_buckets() const override { return 0; }

 private:
  std::vector<comm::NamedTensor> parameters_;
};

class DdpGradSync final : public GradSync {
 public:
  DdpGradSync(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis, int64_t bucket_bytes, bool reduce_in_fp32);
  ~DdpGradSync() override;
  void begin_step() override;
  void begin_micro(bool is_last) override;
  void finish() override;
  void publish_params() override {}
  int64_t num_buckets() const override { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    const void* gradient_memory = nullptr;  // where its gradient must stay
    size_t bucket = 0;
    bool has_arrived = false;  // its gradient of this step is complete
  };
  struct Bucket {
    at::Tensor flat;
    at::Tensor wide;  // fp32 copy on its way; undefined unless reducing in fp32
    size_t num_parameters = 0;
    size_t num_missing = 0;
    bool is_sent = false;
    comm::Work work;
  };
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    Hook(DdpGradSync& owner, size_t index) : owner_(owner), index_(index) {}
    void operator()(const torch::autograd::Variable&) override { owner_.gradient_is_final(index_); }
    DdpGradSync& owner_;
    size_t index_;
  };

  void make_buckets(int64_t bucket_bytes);
  void gradient_is_final(size_t index);
  void send_ready_buckets(bool all);
  void check_views() const;

  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  comm::Comm& data_axis_;
  bool reduce_in_fp32_;
  bool is_last_micro_ = false;
  size_t next_bucket_ = 0;  // buckets leave in this order on every rank, whatever order backward takes
};

DdpGradSync::DdpGradSync(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis, int64_t bucket_bytes,
                         bool reduce_in_fp32)
    : data_axis_(data_axis), reduce_in_fp32_(reduce_in_fp32) {
  for (const auto& named : parameters) {
    if (!named.tensor->requires_grad()) continue;
    LOCKSTEP_CHECK(named.tensor->is_leaf() && named.tensor->is_non_overlapping_and_dense(),
                   "parallel: parameter '{}' is no dense leaf", named.name);
    parameters_.push_back({.name = named.name, .tensor = *named.tensor});
  }
  make_buckets(bucket_bytes);
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].tensor, std::make_unique<Hook>(*this, i));
}

DdpGradSync::~DdpGradSync() {
  for (auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
}

void DdpGradSync::make_buckets(int64_t bucket_bytes) {
  const c10::NoGradGuard no_grad;
  std::vector<plan::BucketItem> items;
  for (const auto& parameter : parameters_)
    items.push_back({.name = parameter.name, .num_elements = parameter.tensor.numel(),
                     .dtype = c10::toString(parameter.tensor.scalar_type()),
                     .element_bytes = static_cast<int64_t>(parameter.tensor.element_size())});
  for (const plan::Bucket& planned : plan::plan_buckets(items, bucket_bytes)) {
    const auto& first = parameters_[static_cast<size_t>(planned.slots.front().item)].tensor;
    Bucket& bucket = buckets_.emplace_back();
    bucket.flat = at::zeros({planned.num_elements}, first.options().requires_grad(false).memory_format(std::nullopt));
    bucket.num_parameters = planned.slots.size();
    for (const plan::BucketSlot& slot : planned.slots) {
      Parameter& parameter = parameters_[static_cast<size_t>(slot.item)];
      LOCKSTEP_CHECK(parameter.tensor.device() == first.device(), "parallel: parameter '{}' lies on {}, its bucket on {}",
                     parameter.name, parameter.tensor.device().str(), first.device().str());
      // The parameter's own strides: fused optimisers pair memory, not indices.
      const at::Tensor view = bucket.flat.as_strided(parameter.tensor.sizes(), parameter.tensor.strides(), slot.offset);
      parameter.tensor.mutable_grad() = view;
      parameter.gradient_memory = view.data_ptr();
      parameter.bucket = buckets_.size() - 1;
    }
  }
}

void DdpGradSync::begin_step() {
  for (auto& parameter : parameters_) parameter.has_arrived = false;
  for (auto& bucket : buckets_) {
    bucket.flat.zero_();
    bucket.num_missing = bucket.num_parameters;
    bucket.is_sent = false;
    bucket.work = {};
  }
  is_last_micro_ = false;
  next_bucket_ = 0;
}

void DdpGradSync::begin_micro(bool is_last) { is_last_micro_ = is_last; }

void DdpGradSync::gradient_is_final(size_t index) {
  if (!is_last_micro_) return;
  Parameter& parameter = parameters_[index];
  Bucket& bucket = buckets_[parameter.bucket];
  LOCKSTEP_CHECK(!bucket.is_sent, "parallel: parameter '{}' received a second gradient after its bucket was sent",
                 parameter.name);
  if (parameter.has_arrived) return;
  parameter.has_arrived = true;
  if (--bucket.num_missing == 0) send_ready_buckets(/*all=*/false);
}

void DdpGradSync::send_ready_buckets(bool all) {
  for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    if (!all && bucket.num_missing > 0) return;
    bucket.is_sent = true;
    const bool is_wide =
        reduce_in_fp32_ && data_axis_.size() > 1 && at::elementSize(bucket.flat.scalar_type()) < at::elementSize(at::kFloat);
    if (is_wide) bucket.wide = bucket.flat.to(at::kFloat);
    bucket.work = data_axis_.all_reduce(is_wide ? bucket.wide : bucket.flat, comm::ReduceOp::kAverage);
  }
}

void DdpGradSync::check_views() const {
  for (const auto& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    LOCKSTEP_CHECK(gradient.defined() && gradient.data_ptr() == parameter.gradient_memory,
                   "parallel: the gradient of '{}' has left its bucket (somebody replaced param.grad())", parameter.name);
  }
}

void DdpGradSync::finish() {
  LOCKSTEP_CHECK(is_last_micro_, "parallel: finish() before the last micro-batch");
  check_views();
  const c10::NoGradGuard no_grad;
  send_ready_buckets(/*all=*/true);  // parameters that took no part: their slices hold zeros
  for (auto& bucket : buckets_) {
    bucket.work.wait();
    if (!bucket.wide.defined()) continue;
    bucket.flat.copy_(bucket.wide);
    bucket.wide = at::Tensor();
  }
  is_last_micro_ = false;
}

}  // namespace

std::unique_ptr<GradSync> make_grad_sync_none(std::vector<comm::NamedTensor> parameters) {
  return std::make_unique<NoneGradSync>(std::move(parameters));
}

std::unique_ptr<GradSync> make_grad_sync_ddp(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                             int64_t bucket_bytes, bool reduce_in_fp32) {
  return std::make_unique<DdpGradSync>(parameters, data_axis, bucket_bytes, reduce_in_fp32);
}

}  // namespace lockstep::parallel
