// Letters: B pictures, C input and O output channels, Y, X pixels, N all pixels that a result has.
#include "nn/pointwise_conv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "nn/compute_type.h"
#include "nn/product.h"
#include "nn/weight_use_internal.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kStride = "stride", *kSizes = "sizes";

/// The pixels that a convolution with this stride reads: [B, C, Y, X] -> a view of some of its rows and columns.
at::Tensor strided(const at::Tensor& x, int64_t stride) {
  return x.slice(2, 0, x.size(2), stride).slice(3, 0, x.size(3), stride);
}

/// [B, C, Y, X] -> [B Y X, C], dense.
at::Tensor pixel_rows(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast).permute({0, 2, 3, 1}).reshape({-1, x.size(1)});
}

/// Of the sum of gradients. A gradient that nothing else holds may be written to.
at::Tensor to_add_to(const at::Tensor& gradient) {
  const bool is_held_elsewhere = gradient.use_count() > 1 || gradient.storage().use_count() > 1;
  return is_held_elsewhere ? gradient.clone(at::MemoryFormat::ChannelsLast)
                           : gradient.contiguous(at::MemoryFormat::ChannelsLast);
}

/// Gives y, and x once more where `passes_input`.
struct PointwiseConv : torch::autograd::Function<PointwiseConv> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, int64_t stride,
                               bool passes_input) {
    const at::Tensor typed_weight = internal::parameter_like(x, weight);
    const bool trains_weight = weight.requires_grad();
    context->save_for_backward({trains_weight ? x : at::Tensor(), typed_weight, weight});
    context->saved_data[kStride] = stride;
    context->saved_data[kSizes] = x.sizes().vec();
    if (trains_weight) internal::keep_use(context, weight);
    const at::Tensor y = at::conv2d(x, typed_weight, {}, {stride, stride});
    return passes_input ? variable_list{y, x} : variable_list{y};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const int64_t stride = context->saved_data[kStride].toInt();
    const at::Tensor& dy = gradients[0];
    const at::Tensor rows_NO = pixel_rows(dy), weight_OC = saved[1].flatten(1);
    variable_list found(4);
    if (context->needs_input_grad(0)) {
      const bool adds = gradients.size() > 1;
      found[0] = adds ? to_add_to(gradients[1])
                      : at::empty(context->saved_data[kSizes].toIntVector(),
                                  dy.options().memory_format(at::MemoryFormat::ChannelsLast));
      if (stride == 1) {
        add_product(pixel_rows(found[0]), rows_NO, weight_OC, /*is_new=*/!adds);
      } else {
        if (!adds) found[0].zero_();
        strided(found[0], stride)
            .add_(product(rows_NO, weight_OC).view({dy.size(0), dy.size(2), dy.size(3), -1}).permute({0, 3, 1, 2}));
      }
    }
    if (context->needs_input_grad(1))
      found[1] = internal::weight_gradient(*internal::kept_use(context), saved[2], rows_NO,
                                           pixel_rows(strided(saved[0], stride)));
    return found;
  }
};

}  // namespace

bool has_pointwise_conv(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = compute_type_of(x);
  return c10::GradMode::is_enabled() && x.is_cpu() && (type == at::kFloat || type == at::kBFloat16) && x.dim() == 4 &&
         weight.size(2) == 1 && weight.size(3) == 1 && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor pointwise_conv(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  return PointwiseConv::apply(in_compute_type(x), weight, stride, false)[0];
}

ConvAndInput pointwise_conv_and_input(const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
  // Other uses take x as it is, and compute no gradient of it where nobody wants one.
  if (!x.requires_grad() || x.scalar_type() != compute_type_of(x)) return {pointwise_conv(x, weight, stride), x};
  const variable_list both = PointwiseConv::apply(x, weight, stride, true);
  return {both[0], both[1]};
}

}  // namespace lockstep::nn
