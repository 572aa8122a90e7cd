#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

#include "config/gpt_shape.h"
#include "models/gpt/gpt_cache.h"
#include "nn/dropout.h"
#include "nn/fp8_state.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/parallel_linear.h"
#include "nn/rotary.h"
#include "nn/shard.h"

namespace lockstep::models {

/// Random dropping of one micro-batch. Draws depend on (key, layer, place, sample, token, element), not on how work is
/// shared out; those of attention on the tensor rank, too, where query_BHT is undefined.
struct GptDropout {
  double hidden = 0.0, attention = 0.0;
  uint64_t key = 0;
  at::Tensor token_TB;   ///< Numbers of the tokens that this rank holds between the shared layers.
  at::Tensor query_BHT;  ///< Numbers of the rank's own heads at all tokens; undefined: a fused kernel draws.
  int tensor_rank = 0;

  /// `place` 0: behind attention, 1: behind the feed-forward layer. Layer -1: behind the embedding.
  nn::Dropout at(int64_t layer, uint64_t place) const;
  nn::Dropout attention_at(int64_t layer) const;
};

/// What all blocks need to know of a micro-batch.
struct GptFrame {
  nn::RotaryTable rotary;  ///< Undefined without rotary positions.
  at::Tensor mask_B1TT;    ///< 0 and -inf, in the type of the attention; undefined: causal.
  GptDropout dropout;
  GptCache* cache = nullptr;  ///< Holds the keys and values of the tokens before, and takes up those of these; nullptr:
                              ///< there are none before.
};

struct GptBlockOptions {
  at::TensorOptions tensors = {};
  /// Keep queries, keys and values only, and compute scores and probabilities again.
  bool recompute_attention = false;
  nn::Fp8State* fp8 = nullptr;  ///< The four linear layers in 8 bits; outlives the block.
};

/// Causal self attention with grouped queries. Rank r of R has groups [r G/R, (r+1) G/R) and their query heads.
class GptAttention : public nn::Module {
 public:
  GptAttention(const config::GptShape& shape, int64_t layer, const nn::ShardCtx& shard, const GptBlockOptions& options);
  at::Tensor forward(const at::Tensor& x_TBD, const GptFrame& frame);

 private:
  at::Tensor attend(const at::Tensor& qkv_TBW, const GptFrame& frame) const;

  int64_t layer_, groups_, heads_per_group_, head_width_;  // of this rank
  bool recompute_;
  nn::Module core_;  // has no parameters: what checkpoint() asks for
  nn::ColumnParallelLinear qkv_;
  nn::RowParallelLinear proj_;
};

class GptMlp : public nn::Module {
 public:
  GptMlp(const config::GptShape& shape, const nn::ShardCtx& shard, const GptBlockOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  config::GptActivation activation_;
  nn::ColumnParallelLinear fc1_;
  nn::RowParallelLinear fc2_;
};

/// x + attention(norm_1 x), then + mlp(norm_2 x), of the rank's own tokens where tokens are split.
class GptBlock : public nn::Module {
 public:
  GptBlock(const config::GptShape& shape, int64_t layer, const nn::ShardCtx& shard, const GptBlockOptions& options);
  at::Tensor forward(const at::Tensor& x_TBD, const GptFrame& frame);

 private:
  int64_t layer_;
  nn::Norm norm_1_;
  GptAttention attention_;
  nn::Norm norm_2_;
  GptMlp mlp_;
};

}  // namespace lockstep::models
