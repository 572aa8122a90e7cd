// Letters: B micro-batch, C channels, Y, X pixels, P patches, D width, E shared embedding.
#include "config/image_towers/mean_patch.h"

#include <ATen/core/Tensor.h>

#include "config/clip_shape.h"
#include "models/clip/image_tower.h"
#include "nn/layers.h"
#include "nn/patch_embedding.h"

namespace lockstep::models {
namespace {

class MeanPatch final : public ImageTower {
 public:
  MeanPatch(const config::ClipShape& shape, const at::TensorOptions& options)
      : conv1_(shape.vision.width, shape.vision.patch_size, options),
        proj_(nn::make_parameter({shape.vision.width, shape.embed_dim}, options)) {
    register_child("conv1", conv1_);
    register_parameter("proj", proj_);
  }
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext&) override {
    return conv1_.forward(image_BCYX, {}).mean(1).matmul(proj_);
  }

 private:
  nn::PatchEmbedding conv1_;
  at::Tensor proj_;
};

}  // namespace
}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::MeanPatchTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::MeanPatch>(shape, options.tensors);
}
