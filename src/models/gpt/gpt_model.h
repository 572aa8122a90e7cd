#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/gpt_params.h"
#include "config/gpt_recompute.h"
#include "config/gpt_shape.h"
#include "models/gpt/gpt_block.h"
#include "models/task.h"
#include "nn/module.h"
#include "nn/packed_linear.h"
#include "nn/rotary.h"
#include "nn/shard.h"
#include "nn/vocab_cross_entropy.h"

namespace lockstep::models {

struct GptModelOptions {
  at::TensorOptions tensors = {};  ///< Device and type of the parameters at first; the default is fp32 on the CPU.
  config::GptRecompute recompute = config::GptRecompute::kNone;
  int64_t recompute_layers = 1;   ///< kUniform: layers of a unit; kBlock: layers of each part.
  int64_t loss_chunk_tokens = 0;  ///< See nn::VocabLossOptions.
  /// See there. False where many forward passes come before the first backward pass.
  bool early_loss_gradients = true;
  /// Attention drops the same probabilities in every layout, for which it keeps them; else a device's fused kernel
  /// draws for the heads of each tensor rank. On the CPU it always does.
  bool numbered_attention_dropout = false;
  std::optional<nn::Fp8Options> fp8 = std::nullopt;  ///< Linear layers of the blocks in 8 bits.
  bool fp8_spares_ends = false;                      ///< But for the model's first and last block.
};

/// A run of blocks of a decoder-only language model, with or without its ends, as one of the ranks that share each
/// layer holds it. Parameters under the names and in the order of config::gpt_param_specs. Without content until
/// nn::initialize_shard or loaded weights fill it.
class GptModel final : public nn::Module {
 public:
  /// The ranks of `shard` can share the shape's groups, widths, vocabulary and tokens evenly (plan::make_gpt_layout
  /// sees to that); `shard.tp` outlives the model.
  GptModel(const config::GptShape& shape, const config::GptPart& part, const nn::ShardCtx& shard,
           const GptModelOptions& options = {});
  ~GptModel() override;

  /// From the batch's tokens, or from what the part before gave, to what the next part takes: [T, B, D] or, where
  /// tokens are split, this rank's [T/R, B, D]. The last part's final norm is applied.
  at::Tensor forward(const at::Tensor& input_TBD, const Batch& batch);
  /// What forward() of a whole model gives at the tokens that follow those of `cache`, which takes them up: [L, B, D]
  /// of [B, L]. For generation: nothing is dropped, no gradients.
  at::Tensor forward_next(const at::Tensor& text_BL, GptCache& cache);

  /// Of what forward() of the last part gave, against the batch's targets and weights; per_token is [T B].
  nn::VocabLoss loss(const at::Tensor& hidden_TBD, const Batch& batch) const;
  /// This rank's columns of the logits at all tokens, padding included: [T, B, V/R]. For generation and tests.
  at::Tensor logits(const at::Tensor& hidden_TBD) const;
  void prepare_inference(std::optional<at::ScalarType> type) override;

  const config::GptShape& shape() const { return shape_; }
  const config::GptPart& part() const { return part_; }
  const nn::ShardCtx& shard() const { return shard_; }
  const std::vector<config::ParamSpec>& param_specs() const { return specs_; }
  nn::Fp8State* fp8() { return fp8_.get(); }  ///< nullptr without FP8.

 private:
  struct BlockGroup;
  at::Tensor embed(const Batch& batch, const GptFrame& frame) const;
  GptFrame make_frame(const at::Tensor& input_TBD, const Batch& batch) const;
  at::Tensor run_blocks(at::Tensor x_TBD, const GptFrame& frame);
  const at::Tensor& head_weight() const;
  bool is_fp8(int64_t layer) const;

  config::GptShape shape_;
  config::GptPart part_;
  nn::ShardCtx shard_;
  GptModelOptions options_;
  std::vector<config::ParamSpec> specs_;
  mutable nn::RotaryCache rotary_;  // empty without rotary positions

  std::unique_ptr<nn::VocabParallelEmbedding> word_;
  at::Tensor position_;
  std::unique_ptr<nn::Fp8State> fp8_;  // before the blocks, which hold on to it
  std::vector<std::unique_ptr<GptBlock>> blocks_;
  // blocks that are computed again together, one by one where nothing is
  std::vector<std::unique_ptr<BlockGroup>> groups_;
  std::unique_ptr<nn::Norm> final_norm_;
  std::unique_ptr<nn::ColumnParallelLinear> head_;  // unless it is word_
  nn::PackedLinear packed_word_;                    // as the head
};

}  // namespace lockstep::models
