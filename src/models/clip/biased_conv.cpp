// Letters: B micro-batch, C channels, Y = X cells.
#include "models/clip/biased_conv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>

namespace lockstep::models {

BiasedConv::BiasedConv(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool is_depthwise,
                       const at::TensorOptions& options)
    : weight_(nn::make_parameter({out, is_depthwise ? 1 : in, kernel, kernel}, options)),
      bias_(nn::make_parameter({out}, options)), stride_(stride), padding_(padding), groups_(is_depthwise ? in : 1) {
  register_parameter("weight", weight_);
  register_parameter("bias", bias_);
}

at::Tensor BiasedConv::forward(const at::Tensor& x_BCYX) const {
  return at::conv2d(x_BCYX, weight_, bias_, {stride_, stride_}, {padding_, padding_}, {1, 1}, groups_);
}

at::Tensor norm_channels(const nn::LayerNorm& norm, const at::Tensor& x_BCYX) {
  return norm.forward(x_BCYX.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

}  // namespace lockstep::models
