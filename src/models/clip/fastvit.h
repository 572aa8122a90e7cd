#pragma once
#include <ATen/core/TensorBody.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "config/clip_shape.h"
#include "config/image_towers/fastvit.h"
#include "models/clip/biased_conv.h"
#include "models/clip/image_tower.h"
#include "models/clip/timm_head.h"
#include "nn/conv.h"

namespace lockstep::models {

/// What layers of a tower are made with: each of its batch norms is added to `norms`.
struct FastVitParts {
  at::TensorOptions options;
  std::vector<nn::BatchNorm2d*>& norms;
};

/// A convolution without bias, then batch norm.
class ConvNorm final : public nn::Module {
 public:
  ConvNorm(const config::ConvShape& shape, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX);

 private:
  config::ConvShape shape_;
  at::Tensor weight_;
  nn::BatchNorm2d bn_;
};

/// x times a number of each channel, which two layers make of the means of all channels (Hu et al. 2018).
class SqueezeExcite final : public nn::Module {
 public:
  SqueezeExcite(int64_t width, int64_t squeezed, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BCYX) const;

 private:
  BiasedConv fc1_, fc2_;
};

/// timm's MobileOneBlock while it has its branches.
class MobileOneBlock final : public nn::Module {
 public:
  MobileOneBlock(const config::MobileOneShape& shape, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX);

 private:
  bool has_activation_;
  std::optional<SqueezeExcite> se_;
  std::optional<nn::BatchNorm2d> identity_;
  std::optional<ConvNorm> conv_kxk_, conv_scale_;
};

/// timm's PatchEmbed: half the side, twice the channels.
class FastVitDownsample final : public nn::Module {
 public:
  FastVitDownsample(const config::FastVitStage& stage, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX);

 private:
  ConvNorm large_conv_, small_conv_;
  std::optional<SqueezeExcite> se_;
  MobileOneBlock pointwise_;
};

/// timm's ConvMlp: a depthwise convolution with batch norm, then two layers of each cell.
class FastVitMlp final : public nn::Module {
 public:
  FastVitMlp(const config::FastVitStage& stage, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX);

 private:
  ConvNorm conv_;
  BiasedConv fc1_, fc2_;
};

/// A block of a stage. `kept`: which samples keep its branches, of attention and of the MLP (see kept_branch).
class FastVitBlock : public nn::Module {
 public:
  virtual at::Tensor forward(const at::Tensor& x_BCYX, const std::array<at::Tensor, 2>& kept) = 0;
};

/// timm's RepMixerBlock: x + gamma (mixer(x) - norm(x)), then + gamma mlp.
class RepMixerBlock final : public FastVitBlock {
 public:
  RepMixerBlock(const config::FastVitStage& stage, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX, const std::array<at::Tensor, 2>& kept) override;

 private:
  MobileOneBlock norm_, mixer_;
  at::Tensor mixer_gamma_;
  FastVitMlp mlp_;
  at::Tensor gamma_;
};

/// timm's AttentionBlock: x + gamma attention(norm(x)), then + gamma mlp. The norm is one of batches or of channels.
class FastVitAttentionBlock final : public FastVitBlock {
 public:
  FastVitAttentionBlock(const config::VisionShape& shape, const config::FastVitStage& stage, const FastVitParts& parts);
  at::Tensor forward(const at::Tensor& x_BCYX, const std::array<at::Tensor, 2>& kept) override;

 private:
  at::Tensor attend(const at::Tensor& x_BCYX) const;

  int64_t heads_;
  std::optional<nn::BatchNorm2d> batch_norm_;
  std::optional<nn::LayerNorm> layer_norm_;
  nn::Linear qkv_, proj_;
  at::Tensor gamma_1_;
  FastVitMlp mlp_;
  at::Tensor gamma_2_;
};

/// timm's FastViT as OpenCLIP builds it: "trunk", and "head" where that has no layer of its own.
class FastVit final : public ImageTower {
 public:
  FastVit(const config::ClipShape& shape, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& image_BCYX, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }
  void synchronize_batch_norm(comm::Comm* comm) override;
  void freeze_batch_norm() override;

 private:
  struct Stage {
    std::optional<FastVitDownsample> downsample;
    std::optional<BiasedConv> pos_enc;
    std::vector<std::unique_ptr<FastVitBlock>> blocks;
  };
  void add_stage(const config::FastVitStage& sizes, const FastVitParts& parts);
  at::Tensor run_block(FastVitBlock& block, int64_t number, const at::Tensor& x_BCYX, const ForwardContext& context);
  void set_updates_statistics(bool updates);

  config::VisionShape shape_;
  int64_t num_blocks_ = 0;
  bool checkpointing_ = false;
  std::vector<nn::BatchNorm2d*> norms_;
  std::vector<std::unique_ptr<MobileOneBlock>> stem_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::optional<MobileOneBlock> final_conv_;
  std::optional<nn::Linear> own_head_;
  std::optional<TimmHead> head_;
};

}  // namespace lockstep::models
