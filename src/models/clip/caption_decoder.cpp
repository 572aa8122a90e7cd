// Letters: B pairs, T text tokens, S tokens of the picture, D width, V vocabulary.
#include "models/clip/caption_decoder.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>

#include <string>

#include "nn/recompute.h"
#include "nn/vocab_cross_entropy.h"

namespace lockstep::models {
namespace {

nn::BlockShape decoder_block(const config::ClipShape& shape) {
  return {.width = shape.captions->width,
          .heads = shape.captions->heads,
          .mlp_width = shape.captions->mlp_width(),
          .activation = shape.quick_gelu ? nn::Activation::kQuickGelu : nn::Activation::kGelu,
          .has_layer_scale = shape.captions->layer_scale.has_value()};
}

}  // namespace

CaptionDecoder::CaptionDecoder(const config::ClipShape& shape, const at::TensorOptions& options)
    : ln_final_(shape.captions->width, options),
      text_projection_(nn::make_parameter({shape.captions->width, shape.captions->vocab_size}, options)) {
  for (int64_t i = 0; i < shape.captions->layers; ++i) {
    blocks_.push_back(std::make_unique<nn::ResidualBlock>(decoder_block(shape), options));
    register_child("resblocks." + std::to_string(i), *blocks_.back());
    cross_blocks_.push_back(std::make_unique<nn::CrossBlock>(decoder_block(shape), options));
    register_child("cross_attn." + std::to_string(i), *cross_blocks_.back());
  }
  register_child("ln_final", ln_final_);
  register_parameter("text_projection", text_projection_);
}

at::Tensor CaptionDecoder::attend(nn::CrossBlock& block, const at::Tensor& image_BSD,
                                  const at::Tensor& text_BTD) const {
  if (!checkpointing_) return block.forward(text_BTD, image_BSD);
  const int64_t text_rows = text_BTD.size(1);
  // Both inputs as one, because both need a gradient.
  return nn::recomputed(block, at::cat({text_BTD, image_BSD}, 1), [&block, text_rows](const at::Tensor& both) {
    return block.forward(both.narrow(1, 0, text_rows), both.narrow(1, text_rows, both.size(1) - text_rows));
  });
}

at::Tensor CaptionDecoder::forward(const at::Tensor& image_BSD, const at::Tensor& text_BTD) {
  at::Tensor x = text_BTD;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    nn::ResidualBlock& block = *blocks_[i];
    x = checkpointing_ ? nn::recomputed(block, x, [&block](const at::Tensor& in) { return block.forward(in, true); })
                       : block.forward(x, /*is_causal=*/true);
    x = attend(*cross_blocks_[i], image_BSD, x);
  }
  return ln_final_.forward(x);
}

at::Tensor CaptionDecoder::logits(const at::Tensor& hidden) const { return at::matmul(hidden, text_projection_); }

at::Tensor CaptionDecoder::is_known(const at::Tensor& target) const { return target.lt(text_projection_.size(1)); }

at::Tensor CaptionDecoder::is_counted(const at::Tensor& target) const {
  return is_known(target).logical_and(target.ne(config::CaptionShape::kUncountedId));
}

at::Tensor CaptionDecoder::loss_sum(const at::Tensor& hidden_BTD, const at::Tensor& target_BT,
                                    const at::Tensor& counted_BT) const {
  const at::Tensor target_N = target_BT.reshape({-1});
  const at::Tensor known_N = target_N.clamp_max(text_projection_.size(1) - 1);
  return nn::vocab_cross_entropy(hidden_BTD.reshape({-1, hidden_BTD.size(2)}), text_projection_.t(), known_N,
                                 counted_BT.reshape({-1}).to(at::kFloat), {.vocab = text_projection_.size(1)}, {})
      .sum;
}

}  // namespace lockstep::models
