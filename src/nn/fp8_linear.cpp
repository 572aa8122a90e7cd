#include "nn/fp8_linear.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <optional>
#include <utility>

#include "nn/bias_activation.h"
#include "nn/compute_type.h"
#include "nn/gpu_kernels.h"
#include "nn/tensor_parallel.h"
#include "nn/tensor_parallel_internal.h"

namespace lockstep::nn {
namespace {

using internal::as_rows;
using internal::Pending;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What forward and backward of a layer have in common; owned by the graph.
struct Context : torch::CustomClassHolder {
  Context(Fp8Linear& linear, const ShardCtx& context, Fp8Split how)
      : layer(linear), shard(context), split(how), has_backward(c10::GradMode::is_enabled()) {}

  bool gathers_input() const { return split == Fp8Split::kColumn && shard.splits_tokens(); }
  bool gathers_gradient() const { return split == Fp8Split::kRow && shard.splits_tokens(); }
  /// Who holds the other parts of an operand: of the input in a column layer and of the gradient in a row layer only
  /// where tokens are split.
  comm::Comm* sharers(Fp8Operand operand) const {
    const bool is_whole =
        operand == (split == Fp8Split::kColumn ? Fp8Operand::kInput : Fp8Operand::kGradient) && !shard.splits_tokens();
    return is_whole || shard.is_alone() ? nullptr : shard.tp;
  }

  Fp8Linear& layer;
  ShardCtx shard;
  Fp8Split split;
  bool has_backward;  ///< The pass backward wants transposes.
};

/// All ranks' tokens, as bytes: no transport knows types of 8 bits.
struct PendingFp8 {
  Pending bytes;
  Fp8Tensor own;
  Fp8Tensor wait_rows() {
    if (!bytes.result.defined()) return {as_rows(own.bits), own.inverse_scale, own.transposed};
    return {as_rows(bytes.wait().view(own.bits.scalar_type())), own.inverse_scale};
  }
};

PendingFp8 start_gather(const Fp8Tensor& own, bool gathers, const ShardCtx& shard) {
  return {gathers ? internal::start_gather(own.bits.view(at::kByte), shard) : Pending{}, own};
}

at::Tensor with_rows_of(const at::Tensor& rows, const at::Tensor& like, int64_t ranks) {
  auto sizes = like.sizes().vec();
  sizes.front() *= ranks;
  sizes.back() = rows.size(1);
  return rows.view(sizes);
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* autograd, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, c10::intrusive_ptr<Context> context) {
    const bool gathers = context->gathers_input();
    const Fp8Tensor own = context->layer.quantize(x, Fp8Operand::kInput, context->sharers(Fp8Operand::kInput),
                                                  /*is_transposed=*/context->has_backward && !gathers);
    PendingFp8 input = start_gather(own, gathers, context->shard);
    const Fp8Tensor& narrow_weight = context->layer.weight(weight, context->sharers(Fp8Operand::kWeight));
    const at::Tensor rows = fp8_product(input.wait_rows(), narrow_weight, x.scalar_type(), context->layer.engine(),
                                        /*is_fast=*/true, bias.value_or(at::Tensor()));
    // Where the transpose is there it is all that the backward pass needs.
    autograd->save_for_backward({own.transposed.defined() ? own.transposed : own.bits, own.inverse_scale, weight});
    autograd->saved_data["has_bias"] = bias.has_value();
    autograd->saved_data["is_transposed"] = own.transposed.defined();
    autograd->saved_data["context"] = c10::IValue::make_capsule(context);
    const at::Tensor y = with_rows_of(rows, x, gathers ? context->shard.size() : 1);
    return context->split == Fp8Split::kRow && !context->shard.is_alone()
               ? internal::start_reduction(y, context->shard).wait()
               : y;
  }

  static variable_list backward(AutogradContext* autograd, const variable_list& gradients) {
    const auto context = c10::static_intrusive_pointer_cast<Context>(autograd->saved_data["context"].toCapsule());
    const auto saved = autograd->get_saved_variables();
    const at::Tensor& weight = saved[2];
    const at::ScalarType type = gradients[0].scalar_type();
    const Fp8Engine engine = context->layer.engine();
    const bool gathers = context->gathers_gradient();
    const Fp8Tensor own =
        context->layer.quantize(gradients[0], Fp8Operand::kGradient, context->sharers(Fp8Operand::kGradient),
                                /*is_transposed=*/!gathers);
    const bool is_transposed = autograd->saved_data["is_transposed"].toBool();
    PendingFp8 input = start_gather({saved[0], saved[1]}, !is_transposed && context->gathers_input(), context->shard);
    const Fp8Tensor gradient = start_gather(own, gathers, context->shard).wait_rows();
    const at::Tensor rows =
        fp8_product(gradient, context->layer.transposed_weight(weight, context->sharers(Fp8Operand::kWeight)), type,
                    engine, /*is_fast=*/false);
    const bool reduces = context->split == Fp8Split::kColumn && !context->shard.is_alone();
    Pending x_gradient{with_rows_of(rows, gradients[0], gathers ? context->shard.size() : 1)};
    if (reduces) x_gradient = internal::start_reduction(x_gradient.result, context->shard);
    const Fp8Tensor x = input.wait_rows();
    const at::Tensor weight_gradient = fp8_product(gradient.transpose(), is_transposed ? x : x.transpose(),
                                                   weight.scalar_type(), engine, /*is_fast=*/false);
    at::Tensor bias_gradient;
    if (autograd->saved_data["has_bias"].toBool())
      bias_gradient = column_sums(as_rows(gradients[0].contiguous()), gradients[0].scalar_type());
    return {x_gradient.wait(), weight_gradient, bias_gradient, at::Tensor()};
  }
};

}  // namespace

at::Tensor fp8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Fp8Linear& layer,
                      const ShardCtx& shard, Fp8Split split) {
  const at::Tensor typed_x = in_compute_type(x);
  const auto context = c10::make_intrusive<Context>(layer, shard, split);
  const bool sums_parts = split == Fp8Split::kRow && !shard.is_alone();  // a bias is added once, behind the sum
  if (!bias.defined() || sums_parts) {
    const at::Tensor y = LinearFunction::apply(typed_x, weight, std::nullopt, context);
    return bias.defined() ? add_bias(y, bias) : y;
  }
  return LinearFunction::apply(typed_x, weight, bias.to(typed_x.scalar_type()), context);
}

}  // namespace lockstep::nn
