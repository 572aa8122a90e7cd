// Letters: T tokens, B micro-batch, D width, H heads, V rows of the vocabulary, N = T B, R ranks that share each layer.
#include "models/gpt/gpt_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <string>

#include "core/error.h"
#include "nn/compute_type.h"
#include "nn/layers.h"
#include "nn/recompute.h"
#include "nn/tensor_parallel.h"

namespace lockstep::models {
namespace {

constexpr int64_t kEmbeddingLayer = -1, kLinearsPerBlock = 4;

/// 0 where a token may see another of its own document that is not behind it, else -inf: [B, 1, T, T].
at::Tensor document_mask(const at::Tensor& document_BT, at::ScalarType type) {
  const at::Tensor is_same = document_BT.unsqueeze(2).eq(document_BT.unsqueeze(1)).tril_();
  return at::zeros(is_same.sizes(), document_BT.options().dtype(type))
      .masked_fill_(is_same.logical_not(), -std::numeric_limits<double>::infinity())
      .unsqueeze(1);
}

/// This rank's part of dim 0.
at::Tensor own_tokens(const at::Tensor& x_TB, const nn::ShardCtx& shard) {
  if (!shard.splits_tokens()) return x_TB;
  const int64_t count = nn::share_of(x_TB.size(0), shard);
  return x_TB.narrow(0, shard.rank() * count, count);
}

GptDropout make_dropout(const config::GptShape& shape, const nn::ShardCtx& shard, int64_t tokens, int64_t samples,
                        const at::Device& device, uint64_t key, bool has_numbered_attention) {
  GptDropout dropout{.hidden = shape.hidden_dropout,
                     .attention = shape.attention_dropout,
                     .key = key,
                     .token_TB = {},
                     .query_BHT = {},
                     .tensor_rank = shard.rank()};
  const auto integers = at::TensorOptions(at::kLong).device(device);
  if (dropout.hidden > 0)
    dropout.token_TB = own_tokens(at::arange(tokens * samples, integers).view({tokens, samples}), shard);
  const int64_t heads = shape.heads / shard.size();
  if (dropout.attention > 0 && (has_numbered_attention || device.is_cpu()))
    dropout.query_BHT = at::arange(samples * shape.heads * tokens, integers)
                            .view({samples, shape.heads, tokens})
                            .narrow(1, shard.rank() * heads, heads);
  return dropout;
}

}  // namespace

/// Blocks that share a recomputation.
struct GptModel::BlockGroup : nn::Module {
  std::vector<GptBlock*> blocks;
  bool is_recomputed = false;

  void add(GptBlock& block) {
    blocks.push_back(&block);
    register_child(std::to_string(blocks.size()), block);
  }
  at::Tensor forward(const at::Tensor& x_TBD, const GptFrame& frame) {
    at::Tensor x = x_TBD;
    for (GptBlock* block : blocks) x = block->forward(x, frame);
    return x;
  }
};

GptModel::GptModel(const config::GptShape& shape, const config::GptPart& part, const nn::ShardCtx& shard,
                   const GptModelOptions& options)
    : shape_(shape), part_(part), shard_(shard), options_(options),
      specs_(config::gpt_param_specs(shape, part, shard.size())) {
  LOCKSTEP_CHECK(options.recompute_layers >= 1, "recompute_layers={}", options.recompute_layers);
  if (shape.positions == config::GptPositions::kRotary)
    rotary_ = nn::RotaryCache(nn::rotary_frequencies(shape.rotary_width(), shape.rotary_base, shape.rotary_scaling));
  const int64_t vocab_rows = shape.padded_vocab(shard.size());
  if (part.has_embedding) {
    word_ = std::make_unique<nn::VocabParallelEmbedding>(vocab_rows, shape.hidden, shard, options.tensors);
    register_child("embedding.word", *word_);
    if (shape.positions == config::GptPositions::kLearned) {
      position_ = nn::make_parameter({shape.max_positions, shape.hidden}, options.tensors);
      register_parameter("embedding.position.weight", position_);
    }
  }
  GptBlockOptions block_options{options.tensors, options.recompute == config::GptRecompute::kSelective};
  if (options.fp8) {
    int64_t num_linears = 0;
    for (int64_t i = 0; i < part.num_layers; ++i) num_linears += is_fp8(part.first_layer + i) ? kLinearsPerBlock : 0;
    fp8_ = std::make_unique<nn::Fp8State>(*options.fp8, num_linears, options.tensors.device());
  }
  const bool is_uniform = options.recompute == config::GptRecompute::kUniform;
  const int64_t unit = is_uniform ? options.recompute_layers : 1;
  const int64_t recomputed = is_uniform                                          ? part.num_layers
                             : options.recompute == config::GptRecompute::kBlock ? options.recompute_layers
                                                                                 : 0;
  for (int64_t i = 0; i < part.num_layers; ++i) {
    const int64_t layer = part.first_layer + i;
    block_options.fp8 = is_fp8(layer) ? fp8_.get() : nullptr;
    blocks_.push_back(std::make_unique<GptBlock>(shape, layer, shard, block_options));
    register_child("layers." + std::to_string(layer), *blocks_.back());
    if (i >= recomputed || i % unit == 0) groups_.push_back(std::make_unique<BlockGroup>());
    groups_.back()->add(*blocks_.back());
    groups_.back()->is_recomputed = i < recomputed;
  }
  if (!part.has_head) return;
  final_norm_ = std::make_unique<nn::Norm>(shape.norm, shape.hidden, shape.norm_eps, options.tensors);
  final_norm_->declare_unit();
  register_child("final_norm", *final_norm_);
  if (shape.is_head_tied && part.has_embedding) return;
  head_ =
      std::make_unique<nn::ColumnParallelLinear>(shape.hidden, vocab_rows, shard, options.tensors, /*with_bias=*/false);
  head_->declare_unit();
  register_child(shape.is_head_tied ? "embedding.word" : "head", *head_);
}

GptModel::~GptModel() = default;

GptFrame GptModel::make_frame(const at::Tensor& input_TBD, const Batch& batch) const {
  const bool has_input = input_TBD.defined();
  const at::Tensor& like = has_input ? input_TBD : word_->weight();
  const int64_t tokens =
      has_input ? input_TBD.size(0) * (shard_.splits_tokens() ? shard_.size() : 1) : batch.text_BT.size(1);
  const int64_t samples = has_input ? input_TBD.size(1) : batch.text_BT.size(0);
  GptFrame frame;
  if (!rotary_.is_empty()) {
    const at::ScalarType type = nn::in_compute_type(at::empty({0}, like.options())).scalar_type();
    frame.rotary =
        batch.position_BT.defined() ? rotary_.table(batch.position_BT.t()) : rotary_.table(tokens, like.device(), type);
  }
  if (batch.document_BT.defined())
    frame.mask_B1TT = nn::in_compute_type(document_mask(batch.document_BT, like.scalar_type()));
  if (is_training())
    frame.dropout = make_dropout(shape_, shard_, tokens, samples, like.device(), batch.context.random_key,
                                 options_.numbered_attention_dropout);
  return frame;
}

at::Tensor GptModel::embed(const Batch& batch, const GptFrame& frame) const {
  const int64_t tokens = batch.text_BT.size(1);
  at::Tensor x_TBD = word_->forward(batch.text_BT.t());
  if (position_.defined()) {
    LOCKSTEP_CHECK(tokens <= position_.size(0), "{} tokens, {} positions", tokens, position_.size(0));
    const at::Tensor row_TBD = batch.position_BT.defined()
                                   ? at::embedding(position_, own_tokens(batch.position_BT.t(), shard_))
                                   : own_tokens(position_.narrow(0, 0, tokens), shard_).unsqueeze(1);
    x_TBD = x_TBD.add(row_TBD);
  }
  return nn::dropout(x_TBD, frame.dropout.at(kEmbeddingLayer, 0));
}

at::Tensor GptModel::forward(const at::Tensor& input_TBD, const Batch& batch) {
  LOCKSTEP_CHECK(input_TBD.defined() != part_.has_embedding,
                 "the part with the embedding, and no other, begins with tokens");
  const GptFrame frame = make_frame(input_TBD, batch);
  return run_blocks(part_.has_embedding ? embed(batch, frame) : input_TBD, frame);
}

at::Tensor GptModel::run_blocks(at::Tensor x_TBD, const GptFrame& frame) {
  for (const auto& group : groups_) {
    if (!group->is_recomputed)
      x_TBD = group->forward(x_TBD, frame);
    else
      x_TBD = nn::recomputed(*group, x_TBD,
                             [group = group.get(), frame](const at::Tensor& x) { return group->forward(x, frame); });
  }
  if (!part_.has_head) return x_TBD;
  final_norm_->about_to_run();
  return final_norm_->forward(x_TBD);
}

at::Tensor GptModel::forward_next(const at::Tensor& text_BL, GptCache& cache) {
  LOCKSTEP_CHECK(part_ == config::whole_gpt(shape_) && !shard_.splits_tokens() && !is_training(), "part of {} layers",
                 part_.num_layers);
  const c10::NoGradGuard no_grad;
  const int64_t tokens = text_BL.size(1);
  Batch batch;
  batch.text_BT = text_BL;
  batch.position_BT = cache.positions(tokens);
  GptFrame frame = make_frame({}, batch);
  const at::Tensor mask = cache.mask(tokens, word_->weight().scalar_type());
  if (mask.defined()) frame.mask_B1TT = nn::in_compute_type(mask);
  frame.cache = &cache;
  const at::Tensor hidden_LBD = run_blocks(embed(batch, frame), frame);
  cache.advance(tokens);
  return hidden_LBD;
}

bool GptModel::is_fp8(int64_t layer) const {
  return options_.fp8.has_value() && !(options_.fp8_spares_ends && (layer == 0 || layer + 1 == shape_.layers));
}

const at::Tensor& GptModel::head_weight() const {
  if (!head_) return word_->weight();
  head_->about_to_run();
  return head_->weight();
}

nn::VocabLoss GptModel::loss(const at::Tensor& hidden_TBD, const Batch& batch) const {
  LOCKSTEP_CHECK(part_.has_head && batch.target_BT.defined(), "has_head={}", part_.has_head);
  const nn::VocabLossOptions options{shape_.vocab, options_.loss_chunk_tokens, options_.early_loss_gradients};
  const at::Tensor weight_N = batch.loss_weight_BT.defined() ? batch.loss_weight_BT.t().reshape({-1}) : at::Tensor();
  return nn::vocab_cross_entropy(nn::enter_shared(nn::in_compute_type(hidden_TBD), shard_).flatten(0, 1), head_weight(),
                                 batch.target_BT.t().reshape({-1}), weight_N, options, shard_);
}

at::Tensor GptModel::logits(const at::Tensor& hidden_TBD) const {
  if (head_) {
    head_->about_to_run();
    return head_->forward(hidden_TBD);
  }
  return nn::is_faster(packed_word_, hidden_TBD) ? packed_word_.forward(hidden_TBD)
                                                 : nn::column_linear(hidden_TBD, word_->weight(), {}, shard_);
}

void GptModel::prepare_inference(std::optional<at::ScalarType> type) {
  Module::prepare_inference(type);
  if (part_.has_head && !head_ && shard_.is_alone()) packed_word_ = nn::pack_where_possible(word_->weight(), {}, type);
}

}  // namespace lockstep::models
