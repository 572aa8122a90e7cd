// Letters: B micro-batch, C = 3 colours, Y = X pixels, P patches, F = C p p numbers of a patch, T tokens, D width, E
// shared embedding.
#include "models/clip/vision_transformer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "config/flops.h"
#include "config/image_towers/vision_transformer.h"
#include "core/error.h"
#include "core/rng.h"
#include "models/clip/block_shape.h"
#include "nn/work_recorder.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kPatchDropoutStream = 0x70617463;  // "patc": apart from other draws under the same key

}  // namespace

at::Tensor kept_patches(int64_t num_samples, int64_t num_patches, double dropout, uint64_t random_key,
                        at::Device device) {
  nn::refuse_recording("patch dropout");
  const int64_t num_kept = config::num_kept_patches(num_patches, dropout);
  at::Tensor kept_BP = at::empty({num_samples, num_kept}, at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  auto* row = kept_BP.mutable_data_ptr<int64_t>();
  std::vector<int64_t> patches(static_cast<size_t>(num_patches));
  for (int64_t b = 0; b < num_samples; ++b, row += num_kept) {
    core::CounterRng rng(core::stream_key({random_key, kPatchDropoutStream, static_cast<uint64_t>(b)}));
    std::iota(patches.begin(), patches.end(), 0);
    for (int64_t i = 0; i < num_kept; ++i) {
      const auto other = static_cast<size_t>(i) + rng.below(static_cast<uint64_t>(num_patches - i));
      std::swap(patches[static_cast<size_t>(i)], patches[other]);
    }
    std::copy_n(patches.begin(), num_kept, row);
    std::sort(row, row + num_kept);
  }
  return kept_BP.to(device, /*non_blocking=*/true);
}

ImageFeatures ImageTower::forward_with_tokens(const at::Tensor&, const ForwardContext&) {
  LOCKSTEP_CHECK(false, "an image tower without tokens for a decoder");
}

VisionTransformer::VisionTransformer(const config::ClipShape& shape, bool exact_shortcuts,
                                     const at::TensorOptions& options)
    : shape_(shape.vision), exact_shortcuts_(exact_shortcuts),
      conv1_(shape.vision.width, shape.vision.patch_size, options),
      class_embedding_(nn::make_parameter({shape.vision.width}, options)),
      positional_embedding_(nn::make_parameter({shape.vision.tokens(), shape.vision.width}, options)),
      transformer_(shape.vision.layers, block_shape(shape.vision, shape.vision.heads(), shape.quick_gelu),
                   /*is_causal=*/false, options),
      ln_post_(shape.vision.has_attentional_pool ? shape.embed_dim : shape.vision.width, options,
               shape.vision.norm_epsilon),
      proj_(nn::make_parameter(
          {shape.vision.has_attentional_pool ? shape.embed_dim : shape.vision.width, shape.embed_dim}, options)) {
  register_child("conv1", conv1_);
  register_parameter("class_embedding", class_embedding_);
  if (shape_.has_fixed_positions) {
    positional_embedding_.set_requires_grad(false);
    register_buffer("positional_embedding", positional_embedding_);
  } else {
    register_parameter("positional_embedding", positional_embedding_);
  }
  if (shape_.has_ln_pre) register_child("ln_pre", ln_pre_.emplace(shape_.width, options, shape_.norm_epsilon));
  register_child("transformer", transformer_);
  // OpenCLIP's poolers have norms of the default epsilon whatever the tower's is.
  if (shape_.has_attentional_pool)
    register_child("attn_pool", attn_pool_.emplace(shape_.pooler_queries, shape.embed_dim, shape_.pooler_heads,
                                                   shape_.width, /*norm_epsilon=*/1e-5, options));
  register_child("ln_post", ln_post_);
  register_parameter("proj", proj_);
}

at::Tensor VisionTransformer::embed(const at::Tensor& image_BCYX, const ForwardContext& context) const {
  const int64_t batch = image_BCYX.size(0), width = shape_.width;
  LOCKSTEP_CHECK(image_BCYX.size(2) == shape_.image_size && image_BCYX.size(3) == shape_.image_size,
                 "image {} x {}, expected {}", image_BCYX.size(2), image_BCYX.size(3), shape_.image_size);
  at::Tensor patch_position =
      positional_embedding_.narrow(0, 1, shape_.patches());  // [P, D], or [B, P, D] of the kept patches
  at::Tensor kept_BP;
  if (is_training() && shape_.patch_dropout > 0.0) {
    kept_BP = kept_patches(batch, shape_.patches(), shape_.patch_dropout, context.random_key, image_BCYX.device());
    patch_position = patch_position.index_select(0, kept_BP.flatten()).view({batch, kept_BP.size(1), width});
  }
  const at::Tensor patches_BPD = conv1_.forward(image_BCYX, kept_BP);
  const at::ScalarType type = patches_BPD.scalar_type();
  const at::Tensor class_D = class_embedding_.to(type).add(positional_embedding_.select(0, 0).to(type));
  const at::Tensor x_BTD = at::cat({class_D.expand({batch, 1, width}), patches_BPD.add(patch_position.to(type))}, 1);
  return ln_pre_ ? ln_pre_->forward(x_BTD) : x_BTD;
}

at::Tensor VisionTransformer::attentional_pool(const at::Tensor& x_BTD, int64_t num_queries) const {
  return ln_post_.forward(attn_pool_->forward(x_BTD, num_queries));
}

at::Tensor VisionTransformer::mean_of_patches(const at::Tensor& x_BTD) const {
  return x_BTD.narrow(1, 1, x_BTD.size(1) - 1).mean(1);
}

ImageFeatures VisionTransformer::forward_with_tokens(const at::Tensor& image_BCYX, const ForwardContext& context) {
  const at::Tensor x_BTD = transformer_.forward(embed(image_BCYX, context));
  const bool norms_tokens = !attn_pool_ && !shape_.norms_after_pool;
  const at::Tensor y_BTD = attn_pool_     ? attentional_pool(x_BTD, attn_pool_->num_queries())
                           : norms_tokens ? ln_post_.forward(x_BTD)
                                          : x_BTD;
  const at::Tensor pooled_BD = shape_.pool == config::ImagePool::kMean ? mean_of_patches(y_BTD) : y_BTD.select(1, 0);
  const bool norms_pooled = !attn_pool_ && shape_.norms_after_pool;
  return {at::matmul(norms_pooled ? ln_post_.forward(pooled_BD) : pooled_BD, proj_),
          y_BTD.narrow(1, 1, y_BTD.size(1) - 1)};
}

at::Tensor VisionTransformer::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  const bool is_mean = shape_.pool == config::ImagePool::kMean;
  if (is_mean || (attn_pool_ && !exact_shortcuts_)) return forward_with_tokens(image_BCYX, context).pooled_BE;
  const at::Tensor x_BTD = embed(image_BCYX, context);
  if (attn_pool_)  // of its queries the first alone reaches the result
    return at::matmul(attentional_pool(transformer_.forward(x_BTD), 1).select(1, 0), proj_);
  const at::Tensor class_position_B = at::zeros({image_BCYX.size(0)}, x_BTD.options().dtype(at::kLong));
  const at::Tensor pooled_BD = transformer_.forward_pooled(x_BTD, class_position_B, exact_shortcuts_);
  return at::matmul(ln_post_.forward(pooled_BD), proj_);
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::VisionTransformerTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::VisionTransformer>(shape, options.exact_shortcuts, options.tensors);
}
