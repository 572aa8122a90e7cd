#include "nn/tensor_parallel.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <optional>

#include "core/error.h"
#include "nn/compute_type.h"
#include "nn/gpu_kernels.h"
#include "nn/product.h"
#include "nn/tensor_parallel_internal.h"
#include "nn/weight_use_internal.h"

namespace lockstep::nn {
namespace {

using internal::as_rows;
using internal::Pending;
using internal::start_gather;
using internal::start_reduction;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kShardKey = "shard";

struct HeldShard : torch::CustomClassHolder {
  explicit HeldShard(const ShardCtx& context) : shard(context) {}
  ShardCtx shard;
};

void hold(AutogradContext* context, const ShardCtx& shard) {
  context->saved_data[kShardKey] = c10::IValue::make_capsule(c10::make_intrusive<HeldShard>(shard));
}

ShardCtx held(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<HeldShard>(context->saved_data[kShardKey].toCapsule())->shard;
}

Pending start_scatter(const at::Tensor& partial, const ShardCtx& shard) {
  const at::Tensor dense = partial.contiguous();
  auto sizes = dense.sizes().vec();
  LOCKSTEP_CHECK(sizes[0] % shard.size() == 0, "{} tokens among {} ranks", sizes[0], shard.size());
  sizes[0] /= shard.size();
  Pending pending{at::empty(sizes, dense.options())};
  pending.work = shard.tp->reduce_scatter_into(pending.result, dense);
  return pending;
}

/// Overwrites `partial`, which must be nobody else's.
Pending start_sum(const at::Tensor& partial, const ShardCtx& shard) {
  Pending pending{partial.contiguous()};
  pending.work = shard.tp->all_reduce(pending.result);
  return pending;
}

}  // namespace

namespace internal {

Pending start_gather(const at::Tensor& part, const ShardCtx& shard) {
  const at::Tensor dense = part.contiguous();
  auto sizes = dense.sizes().vec();
  sizes[0] *= shard.size();
  Pending pending{at::empty(sizes, dense.options())};
  pending.work = shard.tp->all_gather_into(pending.result, dense);
  return pending;
}

Pending start_reduction(const at::Tensor& own_partial, const ShardCtx& shard) {
  return shard.splits_tokens() ? start_scatter(own_partial, shard) : start_sum(own_partial, shard);
}

}  // namespace internal

namespace {

at::Tensor reduced_copy(const at::Tensor& partial, const ShardCtx& shard) {
  if (shard.splits_tokens()) return start_scatter(partial, shard).wait();
  return start_sum(partial.clone(at::MemoryFormat::Contiguous), shard).wait();
}

struct Enter : torch::autograd::Function<Enter> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const ShardCtx& shard) {
    hold(context, shard);
    return shard.splits_tokens() ? start_gather(x, shard).wait() : x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {reduced_copy(gradients[0], held(context)), at::Tensor()};
  }
};

struct Leave : torch::autograd::Function<Leave> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& partial, const ShardCtx& shard) {
    hold(context, shard);
    return reduced_copy(partial, shard);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const ShardCtx shard = held(context);
    return {shard.splits_tokens() ? start_gather(gradients[0], shard).wait() : gradients[0], at::Tensor()};
  }
};

struct ColumnLinear : torch::autograd::Function<ColumnLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ShardCtx& shard) {
    const at::Tensor typed_weight = internal::weight_like(x, weight);
    hold(context, shard);
    internal::keep_use(context, weight);
    context->saved_data["has_bias"] = bias.has_value();
    context->save_for_backward({x, typed_weight, weight});
    return linear_layer(shard.splits_tokens() ? start_gather(x, shard).wait() : x, typed_weight,
                        bias.value_or(at::Tensor()));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const ShardCtx shard = held(context);
    const auto saved = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous();
    Pending x = shard.splits_tokens() ? start_gather(saved[0], shard) : Pending{saved[0]};
    const at::Tensor rows = as_rows(gradient);
    auto x_sizes = gradient.sizes().vec();
    x_sizes.back() = saved[1].size(1);
    Pending x_gradient = start_reduction(product(rows, saved[1]).view(x_sizes), shard);
    const at::Tensor weight_gradient =
        internal::weight_gradient(*internal::kept_use(context), saved[2], rows, as_rows(x.wait()).contiguous());
    const at::Tensor bias_gradient =
        context->saved_data["has_bias"].toBool() ? column_sums(rows, rows.scalar_type()) : at::Tensor();
    return {x_gradient.wait(), weight_gradient, bias_gradient, at::Tensor()};
  }
};

}  // namespace

at::Tensor enter_shared(const at::Tensor& x, const ShardCtx& shard) {
  return shard.is_alone() ? x : Enter::apply(x, shard);
}

at::Tensor leave_shared(const at::Tensor& partial, const ShardCtx& shard) {
  return shard.is_alone() ? partial : Leave::apply(partial, shard);
}

at::Tensor column_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ShardCtx& shard) {
  if (shard.is_alone()) return linear_layer(x, weight, bias);
  const auto optional_bias = bias.defined() ? std::optional<at::Tensor>(in_compute_type(bias)) : std::nullopt;
  return ColumnLinear::apply(in_compute_type(x), weight, optional_bias, shard);
}

}  // namespace lockstep::nn
