#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "nn/gradient_sink.h"
#include "parallel/grad_sync.h"
#include "plan/bucket_plan.h"

namespace lockstep::parallel {
namespace {

bool is_narrow(const at::Tensor& tensor) { return at::elementSize(tensor.scalar_type()) < at::elementSize(at::kFloat); }

/// Part `part` of `num_parts` equal ones.
at::Tensor part_of(const at::Tensor& flat, int64_t num_parts, int64_t part) {
  const int64_t count = flat.numel() / num_parts;
  return flat.narrow(0, part * count, count);
}

/// ddp and zero1: gradients in flat buckets. Parameters lie in flat memory of the same layout where they are gathered
/// or have masters.
class BucketGradSync final : public GradSync {
 public:
  BucketGradSync(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis, int64_t bucket_bytes,
                 bool is_sharded, const MasterOptions& masters);
  ~BucketGradSync() override;
  void begin_step() override;
  void begin_micro(bool is_last) override;
  void finish() override;
  void publish_params() override;
  void wait_params() override;
  std::function<void()> wait_where_used(const std::vector<comm::NamedTensor>& parameters) override;
  int64_t num_buckets() const override { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    // its view into the bucket: param.grad() itself, or the fp32 sum that param.grad() is added to
    at::Tensor gradient = {};
    bool is_summed_apart = false;
    size_t bucket = 0;
    bool has_gradient = false;  // `gradient` holds one of this step
    bool has_arrived = false;   // its gradient of this step is complete
    bool is_waited_where_used = false;
  };
  struct Bucket {
    plan::Bucket planned;  // slots name parameters by index
    at::Tensor gradients;
    at::Tensor parameters = {};  // undefined where they stay in their own memory
    at::Tensor masters = {};     // fp32, of this rank's shard
    size_t num_missing = 0;
    bool is_sent = false, is_waited_where_used = false;  // the latter: all of its parameters are
    comm::Work reduction = {}, gathering = {};
  };
  /// Gradients by way of autograd, and products that are added to the bucket at once.
  struct Hook final : torch::autograd::PostAccumulateGradHook, nn::GradientSink {
    Hook(BucketGradSync& owner, size_t index) : owner_(owner), index_(index) {}
    void operator()(const torch::autograd::Variable&) override {
      if (std::exchange(is_added_, false)) return;  // autograd has none for it, and calls from another thread
      owner_.take_from_autograd(index_);
      is_complete();
    }
    Sum begin(const at::Tensor&) override {
      const Parameter& parameter = owner_.parameters_[index_];
      owner_.check_not_sent(parameter);
      return {parameter.gradient, !parameter.has_gradient};
    }
    void added() override { is_added_ = owner_.parameters_[index_].has_gradient = true; }
    void is_complete() override { owner_.gradient_is_final(index_); }
    BucketGradSync& owner_;
    size_t index_;
    bool is_added_ = false;  // a product, in the backward pass under way
  };

  int64_t num_shards() const { return is_sharded_ ? data_axis_.size() : 1; }
  at::Tensor own_shard(const at::Tensor& flat) const {
    return part_of(flat, num_shards(), is_sharded_ ? data_axis_.rank() : 0);
  }
  void make_buckets(int64_t bucket_bytes);
  void place_gradients(Bucket& bucket, size_t index);
  void place_parameters(Bucket& bucket);
  void list_segments();
  void check_not_sent(const Parameter& parameter) const;
  void take_from_autograd(size_t index);
  void gradient_is_final(size_t index);
  void send_ready_buckets(bool all);
  void check_views() const;

  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  comm::Comm& data_axis_;
  bool is_sharded_;
  MasterOptions masters_;
  bool is_last_micro_ = false;
  size_t next_bucket_ = 0;  // buckets leave in this order on every rank, whatever order backward takes
};

BucketGradSync::BucketGradSync(const std::vector<comm::NamedTensor>& parameters, comm::Comm& data_axis,
                               int64_t bucket_bytes, bool is_sharded, const MasterOptions& masters)
    : data_axis_(data_axis), is_sharded_(is_sharded), masters_(masters) {
  for (const auto& named : parameters) {
    if (!named.tensor->requires_grad()) continue;
    LOCKSTEP_CHECK(named.tensor->is_leaf() && named.tensor->is_non_overlapping_and_dense(),
                   "parallel: parameter '{}' is no dense leaf", named.name);
    parameters_.push_back({.name = named.name,
                           .tensor = *named.tensor,
                           .is_summed_apart = masters.fp32_gradients && is_narrow(*named.tensor)});
  }
  make_buckets(bucket_bytes);
  list_segments();
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].tensor, std::make_unique<Hook>(*this, i));
}

BucketGradSync::~BucketGradSync() {
  for (auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
}

void BucketGradSync::make_buckets(int64_t bucket_bytes) {
  const c10::NoGradGuard no_grad;
  std::vector<plan::BucketItem> items;
  for (const auto& parameter : parameters_)
    items.push_back({.name = parameter.name,
                     .num_elements = parameter.tensor.numel(),
                     .dtype = c10::toString(parameter.tensor.scalar_type()),
                     .element_bytes = static_cast<int64_t>(
                         parameter.is_summed_apart ? at::elementSize(at::kFloat) : parameter.tensor.element_size())});
  for (auto& planned : plan::plan_buckets(items, bucket_bytes, num_shards())) {
    Bucket& bucket = buckets_.emplace_back(Bucket{.planned = std::move(planned), .gradients = {}});
    place_gradients(bucket, buckets_.size() - 1);
    const bool has_masters =
        masters_.has_masters && is_narrow(parameters_[static_cast<size_t>(bucket.planned.slots.front().item)].tensor);
    if (is_sharded_ || has_masters) place_parameters(bucket);
    if (has_masters) bucket.masters = own_shard(bucket.parameters).to(at::kFloat);
  }
}

void BucketGradSync::place_gradients(Bucket& bucket, size_t index) {
  const Parameter& first = parameters_[static_cast<size_t>(bucket.planned.slots.front().item)];
  const auto type = first.is_summed_apart ? at::kFloat : first.tensor.scalar_type();
  bucket.gradients = at::zeros({bucket.planned.num_elements}, at::TensorOptions(first.tensor.device()).dtype(type));
  for (const plan::BucketSlot& slot : bucket.planned.slots) {
    Parameter& parameter = parameters_[static_cast<size_t>(slot.item)];
    LOCKSTEP_CHECK(parameter.tensor.device() == first.tensor.device(),
                   "parallel: parameter '{}' lies on {}, its bucket on {}", parameter.name,
                   parameter.tensor.device().str(), first.tensor.device().str());
    // The parameter's own strides: fused optimisers pair memory, not indices.
    parameter.gradient = bucket.gradients.as_strided(parameter.tensor.sizes(), parameter.tensor.strides(), slot.offset);
    if (!parameter.is_summed_apart) parameter.tensor.mutable_grad() = parameter.gradient;
    parameter.bucket = index;
  }
}

void BucketGradSync::place_parameters(Bucket& bucket) {
  const Parameter& first = parameters_[static_cast<size_t>(bucket.planned.slots.front().item)];
  bucket.parameters = at::zeros({bucket.planned.num_elements},
                                at::TensorOptions(first.tensor.device()).dtype(first.tensor.scalar_type()));
  for (const plan::BucketSlot& slot : bucket.planned.slots) {
    at::Tensor& tensor = parameters_[static_cast<size_t>(slot.item)].tensor;
    const auto view = bucket.parameters.as_strided(tensor.sizes(), tensor.strides(), slot.offset);
    view.copy_(tensor.detach());
    tensor.set_data(view);
  }
}

void BucketGradSync::list_segments() {
  const c10::NoGradGuard no_grad;
  partition_.shards = is_sharded_ ? &data_axis_ : nullptr;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.parameters.defined()) {  // whole parameters with their own shapes
      for (const plan::BucketSlot& slot : bucket.planned.slots) {
        const Parameter& parameter = parameters_[static_cast<size_t>(slot.item)];
        partition_.segments.push_back(
            {.name = parameter.name, .parameter = parameter.tensor, .gradient = parameter.gradient});
      }
      continue;
    }
    const auto updated = bucket.masters.defined() ? bucket.masters : own_shard(bucket.parameters);
    const auto gradients = own_shard(bucket.gradients);
    for (const auto& part : plan::shard_segments(bucket.planned, num_shards(), is_sharded_ ? data_axis_.rank() : 0))
      partition_.segments.push_back({.name = parameters_[static_cast<size_t>(part.item)].name,
                                     .parameter = updated.narrow(0, part.shard_offset, part.num_elements),
                                     .gradient = gradients.narrow(0, part.shard_offset, part.num_elements),
                                     .offset = part.item_offset});
  }
  std::reverse(partition_.segments.begin(), partition_.segments.end());  // buckets begin with the last parameter
}

void BucketGradSync::begin_step() {
  for (auto& bucket : buckets_)
    if (!bucket.is_waited_where_used) bucket.gathering.wait();
  for (auto& parameter : parameters_) parameter.has_arrived = parameter.has_gradient = false;
  for (auto& bucket : buckets_) {
    if (!parameters_[static_cast<size_t>(bucket.planned.slots.front().item)].is_summed_apart)
      bucket.gradients.zero_();  // else see take_from_autograd
    bucket.num_missing = bucket.planned.slots.size();
    bucket.is_sent = false;
    bucket.reduction = {};
  }
  is_last_micro_ = false;
  next_bucket_ = 0;
}

void BucketGradSync::begin_micro(bool is_last) { is_last_micro_ = is_last; }

void BucketGradSync::check_not_sent(const Parameter& parameter) const {
  LOCKSTEP_CHECK(!is_last_micro_ || !buckets_[parameter.bucket].is_sent,
                 "parallel: parameter '{}' received a second gradient after its bucket was sent", parameter.name);
}

/// What autograd has added to param.grad().
void BucketGradSync::take_from_autograd(size_t index) {
  Parameter& parameter = parameters_[index];
  check_not_sent(parameter);
  if (parameter.is_summed_apart) {
    const c10::NoGradGuard no_grad;
    if (parameter.has_gradient)
      parameter.gradient.add_(parameter.tensor.grad());
    else
      parameter.gradient.copy_(parameter.tensor.grad());  // a pass over memory less than zero and sum
    parameter.tensor.mutable_grad() = at::Tensor();
  }
  parameter.has_gradient = true;
}

void BucketGradSync::gradient_is_final(size_t index) {
  Parameter& parameter = parameters_[index];
  if (!is_last_micro_ || parameter.has_arrived) return;
  parameter.has_arrived = true;
  if (--buckets_[parameter.bucket].num_missing == 0) send_ready_buckets(/*all=*/false);
}

void BucketGradSync::send_ready_buckets(bool all) {
  for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    if (!all && bucket.num_missing > 0) return;
    bucket.is_sent = true;
    bucket.reduction = is_sharded_ ? data_axis_.reduce_scatter_into(own_shard(bucket.gradients), bucket.gradients,
                                                                    comm::ReduceOp::kAverage)
                                   : data_axis_.all_reduce(bucket.gradients, comm::ReduceOp::kAverage);
  }
}

void BucketGradSync::check_views() const {
  for (const auto& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    const bool is_in_place = parameter.is_summed_apart
                                 ? !gradient.defined()
                                 : gradient.defined() && gradient.data_ptr() == parameter.gradient.data_ptr();
    LOCKSTEP_CHECK(is_in_place, "parallel: the gradient of '{}' has left its bucket (somebody replaced param.grad())",
                   parameter.name);
  }
}

void BucketGradSync::finish() {
  LOCKSTEP_CHECK(is_last_micro_, "parallel: finish() before the last micro-batch");
  check_views();
  wait_params();  // what no module of this step used
  for (auto& parameter : parameters_)
    if (parameter.is_summed_apart && !parameter.has_gradient) parameter.gradient.zero_();
  send_ready_buckets(/*all=*/true);  // parameters that took no part: their slices hold zeros
  for (auto& bucket : buckets_) bucket.reduction.wait();
  is_last_micro_ = false;
}

void BucketGradSync::publish_params() {
  const c10::NoGradGuard no_grad;
  for (size_t i = buckets_.size();
       i-- > 0;) {  // in the order of the forward pass: buckets begin with the last parameter
    Bucket& bucket = buckets_[i];
    if (bucket.masters.defined()) own_shard(bucket.parameters).copy_(bucket.masters);
    if (is_sharded_) bucket.gathering = data_axis_.all_gather_into(bucket.parameters, own_shard(bucket.parameters));
  }
}

void BucketGradSync::wait_params() {
  for (auto& bucket : buckets_) bucket.gathering.wait();
}

std::function<void()> BucketGradSync::wait_where_used(const std::vector<comm::NamedTensor>& parameters) {
  if (!is_sharded_) return {};
  std::set<size_t> used;
  for (Parameter& parameter : parameters_) {
    const bool is_named = std::any_of(parameters.begin(), parameters.end(),
                                      [&](const auto& named) { return named.tensor->is_same(parameter.tensor); });
    if (is_named) used.insert(parameter.bucket);
    parameter.is_waited_where_used |= is_named;
  }
  for (Bucket& bucket : buckets_)
    bucket.is_waited_where_used =
        std::all_of(bucket.planned.slots.begin(), bucket.planned.slots.end(),
                    [&](const auto& slot) { return parameters_[static_cast<size_t>(slot.item)].is_waited_where_used; });
  if (used.empty()) return {};
  return [this, used = std::vector<size_t>(used.begin(), used.end())] {
    for (const size_t index : used) buckets_[index].gathering.wait();
  };
}

}  // namespace

std::unique_ptr<GradSync> make_grad_sync_ddp(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                             int64_t bucket_bytes, const MasterOptions& masters) {
  return std::make_unique<BucketGradSync>(parameters, data_axis, bucket_bytes, /*is_sharded=*/false, masters);
}

std::unique_ptr<GradSync> make_grad_sync_zero1(std::vector<comm::NamedTensor> parameters, comm::Comm& data_axis,
                                               int64_t bucket_bytes, const MasterOptions& masters) {
  return std::make_unique<BucketGradSync>(parameters, data_axis, bucket_bytes, /*is_sharded=*/true, masters);
}

}  // namespace lockstep::parallel
