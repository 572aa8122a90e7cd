// Letters: B samples, N tokens, C width, W windows, T tokens of a window.
#include "models/clap/swin.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "core/rng.h"
#include "nn/work_recorder.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kDropPathStream = 0x64726f70;  // "drop": apart from other draws under the same key

at::Tensor draw_branch(double probability, int64_t batch, uint64_t key, const at::TensorOptions& options) {
  at::Tensor kept_B11 = at::empty({batch, 1, 1}, at::TensorOptions(at::kFloat));
  float* out = kept_B11.mutable_data_ptr<float>();
  for (int64_t sample = 0; sample < batch; ++sample)
    out[sample] = core::CounterRng(key, static_cast<uint64_t>(sample)).uniform() < probability ? 0.0F : 1.0F;
  return kept_B11.to(options.device(), /*non_blocking=*/true);
}

at::Tensor add_branch(const at::Tensor& x, const at::Tensor& y, const at::Tensor& kept_B11, double scale) {
  return kept_B11.defined() ? x.addcmul(y, kept_B11.to(y.scalar_type()), scale) : x.add(y);
}

}  // namespace

DropPath draw_drop_path(double probability, int64_t batch, uint64_t random_key, int64_t block,
                        const at::TensorOptions& options) {
  if (probability <= 0.0) return {};
  nn::refuse_recording("stochastic depth");
  const auto key = [&](uint64_t branch) {
    return core::stream_key({random_key, kDropPathStream, static_cast<uint64_t>(block), branch});
  };
  return {draw_branch(probability, batch, key(0), options), draw_branch(probability, batch, key(1), options),
          1.0 / (1.0 - probability)};
}

SwinBlock::SwinBlock(const config::SwinSizes& shape, const at::TensorOptions& options)
    : norm1_(shape.width, options), attn_(shape.width, shape.heads, shape.window, options),
      norm2_(shape.width, options), fc1_(shape.width, shape.mlp_width, options),
      fc2_(shape.mlp_width, shape.width, options) {
  register_child("norm1", norm1_);
  register_child("attn", attn_);
  register_child("norm2", norm2_);
  register_child("mlp.fc1", fc1_);
  register_child("mlp.fc2", fc2_);
  declare_unit();
}

at::Tensor SwinBlock::forward(const at::Tensor& x_BNC, const at::Tensor& mask_WTT, const DropPath& drop) const {
  about_to_run();
  const auto [x, normed_x] = norm1_.forward_beside(x_BNC);
  const auto [middle, normed] =
      norm2_.forward_beside(add_branch(x, attn_.forward(normed_x, mask_WTT), drop.attention_B11, drop.scale));
  const at::Tensor expanded = fc1_.forward_activated(normed, nn::Activation::kGelu);
  return add_branch(middle, fc2_.forward(expanded), drop.mlp_B11, drop.scale);
}

PatchMerging::PatchMerging(int64_t width, const at::TensorOptions& options)
    : norm_(4 * width, options), reduction_(4 * width, 2 * width, options, /*with_bias=*/false) {
  register_child("norm", norm_);
  register_child("reduction", reduction_);
}

at::Tensor PatchMerging::forward(const at::Tensor& x_BNC) const {
  return reduction_.forward(norm_.forward(x_BNC.reshape({x_BNC.size(0), x_BNC.size(1) / 4, 4 * x_BNC.size(2)})));
}

}  // namespace lockstep::models
