#pragma once
#include <ATen/core/TensorBody.h>

#include "config/swin_blocks.h"
#include "models/clap/token_order.h"
#include "models/clap/window_attention.h"
#include "nn/layers.h"
#include "nn/module.h"

namespace lockstep::models {

/// Which samples keep a branch ([B, 1, 1], 0 or 1; undefined: all do), and by what it is multiplied there.
struct DropPath {
  at::Tensor attention_B11, mlp_B11;
  double scale = 1.0;
};

/// Draws them for `batch` samples: a function of (random_key, block, sample).
DropPath draw_drop_path(double probability, int64_t batch, uint64_t random_key, int64_t block,
                        const at::TensorOptions& options);

/// Swin block (Liu et al. 2021) on tokens in window order: x + attention(norm1 x), then + mlp(norm2 x).
class SwinBlock : public nn::Module {
 public:
  SwinBlock(const config::SwinSizes& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BNC, const at::Tensor& mask_WTT, const DropPath& drop) const;

 private:
  nn::LayerNorm norm1_;
  WindowAttention attn_;
  nn::LayerNorm norm2_;
  nn::Linear fc1_, fc2_;
};

/// Four neighbours become one token of twice the width. Its input holds them one after the other (merging_order).
class PatchMerging : public nn::Module {
 public:
  PatchMerging(int64_t width, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BNC) const;

 private:
  nn::LayerNorm norm_;
  nn::Linear reduction_;
};

}  // namespace lockstep::models
