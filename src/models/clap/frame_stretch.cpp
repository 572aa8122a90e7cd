#include "models/clap/frame_stretch.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nn/product.h"

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor product_in_fp32(const at::Tensor& x_BMF, const at::Tensor& share_FO) {
  const at::NoTF32Guard in_fp32;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::Tensor y = nn::product(x_BMF.to(at::kFloat).flatten(0, 1), share_FO);
  return y.unflatten(0, {x_BMF.size(0), x_BMF.size(1)}).to(x_BMF.scalar_type());
}

struct Stretch : torch::autograd::Function<Stretch> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_BMF, const at::Tensor& share_FO) {
    context->saved_data["share_FO"] = share_FO;
    return product_in_fp32(x_BMF, share_FO);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {product_in_fp32(gradients[0], context->saved_data["share_FO"].toTensor().t()), {}};
  }
};

/// What bicubic interpolation makes of each frame alone: [frames, num_out].
at::Tensor shares(int64_t frames, int64_t num_out) {
  const c10::NoGradGuard no_grad;
  const at::Tensor alone_FF = at::eye(frames, at::TensorOptions(at::kFloat));
  return at::upsample_bicubic2d(alone_FF.view({1, 1, frames, frames}), {frames, num_out}, /*align_corners=*/true)
      .view({frames, num_out});
}

}  // namespace

at::Tensor FrameStretch::operator()(const at::Tensor& x_BMF) {
  const int64_t frames = x_BMF.size(2);
  if (frames == num_out_) return x_BMF;
  if (!share_FO_.defined() || share_FO_.size(0) != frames) share_FO_ = shares(frames, num_out_).to(device_);
  return Stretch::apply(x_BMF, share_FO_);
}

}  // namespace lockstep::models
