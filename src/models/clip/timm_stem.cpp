// Letters: B micro-batch, C channels, Y = X cells, P patches, D width.
#include "models/clip/timm_stem.h"

#include <ATen/core/Tensor.h>

#include <string>

#include "config/image_towers/timm_vit.h"
#include "nn/layers.h"

namespace lockstep::models {

TimmStem::TimmStem(int64_t width, const at::TensorOptions& options) {
  int index = 0;
  for (const config::StemConv& conv : config::stem_convs(width)) {
    const std::string name = std::to_string(index++);
    if (conv.is_last) {
      last_ = std::make_unique<BiasedConv>(conv.in, conv.out, conv.kernel, /*stride=*/conv.kernel, /*padding=*/0,
                                           /*is_depthwise=*/false, options);
      register_child(name + ".conv", *last_);
      continue;
    }
    convs_.push_back(std::make_unique<nn::Conv2d>(conv.in, conv.out, conv.kernel, options, /*stride=*/conv.kernel));
    norms_.push_back(std::make_unique<nn::BatchNorm2d>(conv.out, options));
    register_child(name + ".conv", *convs_.back());
    register_child(name + ".bn", *norms_.back());
  }
}

at::Tensor TimmStem::forward(const at::Tensor& image_BCYX) {
  at::Tensor x = image_BCYX;
  for (size_t i = 0; i < convs_.size(); ++i)
    x = nn::activate(norms_[i]->forward(convs_[i]->forward(x)), nn::Activation::kGelu);
  return last_->forward(x).flatten(2).transpose(1, 2);
}

std::vector<nn::BatchNorm2d*> TimmStem::batch_norms() {
  std::vector<nn::BatchNorm2d*> norms;
  for (const auto& norm : norms_) norms.push_back(norm.get());
  return norms;
}

}  // namespace lockstep::models
