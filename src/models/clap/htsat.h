#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

#include "comm/comm.h"
#include "config/clap_shape.h"
#include "models/clap/frame_stretch.h"
#include "models/clap/log_mel.h"
#include "models/clap/swin.h"
#include "models/forward_context.h"
#include "nn/conv.h"

namespace lockstep::models {

/// HTSAT (Chen et al. 2022) under LAION's parameter names: waveforms to one vector each. The classification head
/// (tscam_conv, head) is carried as buffers, never computed: it does not reach the vector.
class HtsatTower final : public nn::Module {
 public:
  HtsatTower(const config::AudioShape& shape, const at::TensorOptions& options);
  /// [B, S] samples at the shape's rate, S at most clip_samples or so (LogMel) -> [B, D].
  at::Tensor forward(const at::Tensor& audio_BS, const ForwardContext& context);
  /// The same from log-mel spectrograms [B, M, frames].
  at::Tensor forward_log_mel(const at::Tensor& mel_BMF, const ForwardContext& context);

  /// Keep only block inputs for the backward pass.
  void set_checkpointing(bool checkpointing) { checkpointing_ = checkpointing; }
  void synchronize_batch_norm(comm::Comm* comm) { bn0_.synchronize(comm); }

 private:
  struct Stage {
    std::vector<std::unique_ptr<SwinBlock>> blocks;
    std::vector<TokenPermutation> before;  ///< Of each block's input, but for the first block's.
    std::unique_ptr<PatchMerging> downsample;
    TokenPermutation before_downsample;
    at::Tensor mask_WTT;  ///< Of odd blocks; undefined where nothing is shifted.
  };
  void add_stage(int64_t stage, const at::TensorOptions& options);
  void add_carried_head(const at::TensorOptions& options);
  at::Tensor to_image(const at::Tensor& mel_BMF);
  at::Tensor embed_patches(const at::Tensor& image_BYX) const;
  at::Tensor run_block(const Stage& stage, size_t index, const at::Tensor& x_BNC, const DropPath& drop) const;

  config::AudioShape shape_;
  bool checkpointing_ = false;
  LogMel log_mel_;
  FrameStretch stretch_;
  nn::BatchNorm2d bn0_;
  at::Tensor patch_weight_, patch_bias_;
  nn::LayerNorm patch_norm_;
  TokenPermutation patch_order_;
  std::vector<Stage> stages_;
  nn::LayerNorm norm_;
  at::Tensor tscam_weight_, tscam_bias_, head_weight_, head_bias_;
};

}  // namespace lockstep::models
