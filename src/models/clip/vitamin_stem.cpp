// Letters: B micro-batch, C channels, Y = X cells, P patches, D width.
#include "models/clip/vitamin_stem.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/avg_pool2d.h>
#include <fmt/format.h>

#include <string>

namespace lockstep::models {
namespace {

constexpr double kNormEpsilon = 1e-6;
constexpr int64_t kExpansion = 4;

BiasedConv conv_of(int64_t in, int64_t out, int64_t kernel, int64_t stride, const at::TensorOptions& options,
                   bool is_depthwise = false) {
  return {in, out, kernel, stride, /*padding=*/kernel / 2, is_depthwise, options};
}

at::Tensor activated(const at::Tensor& x) { return nn::activate(x, nn::Activation::kGelu); }

}  // namespace

MobileConvBlock::MobileConvBlock(int64_t in, int64_t out, int64_t stride, const at::TensorOptions& options)
    : stride_(stride), pre_norm_(in, options, kNormEpsilon), conv1_(conv_of(in, kExpansion * out, 1, 1, options)),
      conv2_(conv_of(kExpansion * out, kExpansion * out, 3, stride, options, /*is_depthwise=*/true)),
      conv3_(conv_of(kExpansion * out, out, 1, 1, options)) {
  if (in != out) register_child("shortcut.expand", expand_.emplace(in, out, 1, 1, 0, false, options));
  register_child("pre_norm", pre_norm_);
  register_child("conv1_1x1", conv1_);
  register_child("conv2_kxk", conv2_);
  register_child("conv3_1x1", conv3_);
  declare_unit();
}

at::Tensor MobileConvBlock::forward(const at::Tensor& x_BCYX) const {
  about_to_run();
  at::Tensor shortcut = x_BCYX;
  if (stride_ > 1)
    shortcut = at::avg_pool2d(x_BCYX, {3, 3}, {stride_, stride_}, {1, 1}, /*ceil_mode=*/false,
                              /*count_include_pad=*/false);
  if (expand_) shortcut = expand_->forward(shortcut);
  const at::Tensor wide = activated(conv1_.forward(norm_channels(pre_norm_, x_BCYX)));
  return conv3_.forward(activated(conv2_.forward(wide))).add(shortcut);
}

VitaminStem::VitaminStem(const config::VisionShape& shape, const at::TensorOptions& options)
    : conv1_(conv_of(3, shape.timm.stem_widths[0], 3, 2, options)),
      norm1_(shape.timm.stem_widths[0], options, kNormEpsilon),
      conv2_(conv_of(shape.timm.stem_widths[0], shape.timm.stem_widths[0], 3, 1, options)),
      proj_(conv_of(shape.timm.stem_widths[1], shape.width, 3, 2, options)),
      norm_(shape.timm.stem_widths[1], options, kNormEpsilon) {
  register_child("stem.conv1", conv1_);
  register_child("stem.norm1", norm1_);
  register_child("stem.conv2", conv2_);
  int64_t in = shape.timm.stem_widths[0];
  for (size_t stage = 0; stage < shape.timm.stem_widths.size(); ++stage)
    for (int64_t i = 0; i < shape.timm.stem_depths[stage]; ++i) {
      const int64_t out = shape.timm.stem_widths[stage];
      blocks_.push_back(std::make_unique<MobileConvBlock>(in, out, /*stride=*/i == 0 ? 2 : 1, options));
      register_child(fmt::format("stages.{}.{}", stage, i), *blocks_.back());
      in = out;
    }
  register_child("pool.proj", proj_);
  register_child("pool.norm", norm_);
}

at::Tensor VitaminStem::forward(const at::Tensor& image_BCYX) {
  at::Tensor x = conv2_.forward(activated(norm_channels(norm1_, conv1_.forward(image_BCYX))));
  for (const auto& block : blocks_) x = block->forward(x);
  return proj_.forward(norm_channels(norm_, x)).flatten(2).transpose(1, 2);
}

}  // namespace lockstep::models
