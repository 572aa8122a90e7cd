// Letters: B pictures, C input and O output channels, Y, X pixels, N all pixels that a result has.
#include "nn/pointwise_conv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/zeros.h>
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

struct PointwiseConv : torch::autograd::Function<PointwiseConv> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, int64_t stride) {
    const at::Tensor typed_weight = internal::parameter_like(x, weight);
    const bool trains_weight = weight.requires_grad();
    context->save_for_backward({trains_weight ? x : at::Tensor(), typed_weight, weight});
    context->saved_data[kStride] = stride;
    context->saved_data[kSizes] = x.sizes().vec();
    if (trains_weight) internal::keep_use(context, weight);
    return at::conv2d(x, typed_weight, {}, {stride, stride});
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const int64_t stride = context->saved_data[kStride].toInt();
    const at::Tensor rows_NO = pixel_rows(gradients[0]);
    variable_list found(3);
    if (context->needs_input_grad(0)) {
      const at::Tensor& out = gradients[0];
      const at::Tensor dx_BCYX =
          product(rows_NO, saved[1].flatten(1)).view({out.size(0), out.size(2), out.size(3), -1}).permute({0, 3, 1, 2});
      if (stride == 1) {
        found[0] = dx_BCYX;
      } else {
        found[0] = at::zeros(context->saved_data[kSizes].toIntVector(),
                             dx_BCYX.options().memory_format(at::MemoryFormat::ChannelsLast));
        strided(found[0], stride).copy_(dx_BCYX);
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
  return PointwiseConv::apply(in_compute_type(x), weight, stride);
}

}  // namespace lockstep::nn
