#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "models/clip/biased_conv.h"
#include "nn/conv.h"
#include "nn/module.h"

namespace lockstep::models {

/// What takes the place of a patch embedding.
class PictureStem : public nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& image_BCYX) = 0;  ///< [B, P, D], row by row
  virtual std::vector<nn::BatchNorm2d*> batch_norms() { return {}; }
};

/// timm's ConvStem as MobileCLIP's B has it: convolutions that halve or quarter the picture, GELU and batch norm behind
/// all but the last.
class TimmStem final : public PictureStem {
 public:
  TimmStem(int64_t width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX) override;
  std::vector<nn::BatchNorm2d*> batch_norms() override;

 private:
  std::vector<std::unique_ptr<nn::Conv2d>> convs_;
  std::vector<std::unique_ptr<nn::BatchNorm2d>> norms_;
  std::unique_ptr<BiasedConv> last_;
};

}  // namespace lockstep::models
