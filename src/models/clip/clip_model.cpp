#include "models/clip/clip_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>

#include "config/image_towers.h"
#include "config/text_towers.h"
#include "core/error.h"
#include "nn/layers.h"

namespace lockstep::models {
ClipModel::ClipModel(const config::ClipShape& shape, const ClipModelOptions& options)
    : shape_(shape), specs_(config::clip_param_specs(shape)),
      visual_(config::with_tower(shape.vision, [&](auto tower) { return tower.build(shape, options); })),
      text_(config::with_text_tower(shape.text, [&](auto tower) { return tower.build(shape, options); })) {
  const std::vector<int64_t> scalar = shape.nonscalar_logit_scale ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  logit_scale_ = nn::make_parameter(scalar, options.tensors);
  register_child("visual", *visual_);
  // OpenCLIP's CLIP class names the text tower's parameters without a prefix.
  register_child(shape.has_custom_text ? "text" : "", *text_);
  if (shape.captions) {
    decoder_ = std::make_unique<CaptionDecoder>(shape, options.tensors);
    register_child("text_decoder", *decoder_);
    decoder_->set_checkpointing(options.grad_checkpointing);
  }
  register_parameter("logit_scale", logit_scale_);
  if (shape.init_logit_bias) {
    logit_bias_ = nn::make_parameter(scalar, options.tensors);
    register_parameter("logit_bias", logit_bias_);
  }
  visual_->set_checkpointing(options.grad_checkpointing);
  text_->set_checkpointing(options.grad_checkpointing);
  visual_->synchronize_batch_norm(options.batch_norm_ranks);
  if (options.freezes_batch_norm) visual_->freeze_batch_norm();
}

at::Tensor ClipModel::encode_image(const at::Tensor& image_BCYX) { return visual_->forward(image_BCYX, context()); }

at::Tensor ClipModel::encode_text(const at::Tensor& text_BT) { return text_->forward(text_BT, context()); }

ImageFeatures ClipModel::image_features(const at::Tensor& image_BCYX) {
  return visual_->forward_with_tokens(image_BCYX, context());
}

at::Tensor ClipModel::caption_hidden(const at::Tensor& image_BSD, const at::Tensor& text_BT) {
  LOCKSTEP_CHECK(decoder_ != nullptr, "captions of a model without a decoder");
  // A caption may end in tokens that are padding elsewhere: a column behind them keeps the text tower from leaving them
  // out. No token sees what is behind it, but in RoBERTa, which leaves nothing out.
  const int64_t length = text_BT.size(1);
  const bool has_room = shape_.text.has_class_token && length < shape_.text.context_length;
  const at::Tensor guarded_BT = has_room ? at::constant_pad_nd(text_BT, {0, 1}, shape_.text.pad_id + 1) : text_BT;
  const at::Tensor tokens_BTD = text_->forward_with_tokens(guarded_BT, context()).tokens_BTD;
  return decoder_->forward(image_BSD, tokens_BTD.narrow(1, 0, std::min(length, tokens_BTD.size(1))));
}

at::Tensor ClipModel::next_token_logits(const at::Tensor& image_BSD, const at::Tensor& text_BT) {
  const at::Tensor hidden_BTD = caption_hidden(image_BSD, text_BT);
  return decoder_->logits(hidden_BTD.select(1, hidden_BTD.size(1) - 1));
}

CaptionedPairs ClipModel::encode_pairs(const at::Tensor& image_BCYX, const at::Tensor& text_BT, CountedTokens counted) {
  LOCKSTEP_CHECK(decoder_ != nullptr, "captions of a model without a decoder");
  const ImageFeatures image = visual_->forward_with_tokens(image_BCYX, context());
  ForwardContext text_context = context();
  text_context.keeps_padding = counted == CountedTokens::kAll;
  const TextFeatures text = text_->forward_with_tokens(text_BT, text_context);
  const int64_t num_targets = text.tokens_BTD.size(1) - 1;
  const at::Tensor hidden_BTD = decoder_->forward(image.tokens_BTD, text.tokens_BTD.narrow(1, 0, num_targets));
  const at::Tensor target_BT = text_BT.narrow(1, 1, num_targets);
  const at::Tensor counted_BT =
      counted == CountedTokens::kWords ? decoder_->is_counted(target_BT) : decoder_->is_known(target_BT);
  return {.image_BE = image.pooled_BE,
          .text_BE = text.pooled_BE,
          .loss_sum = decoder_->loss_sum(hidden_BTD, target_BT, counted_BT),
          .num_tokens = counted_BT.sum().to(at::kFloat)};
}

/// Causal attention sees nothing behind the token that is pooled; towers of other kinds look at all.
int64_t ClipModel::num_used_ids(std::span<const int32_t> ids) const {
  const config::TextShape& text = shape_.text;
  const bool is_pooled_at_largest = text.tower == config::TextShape().tower && text.is_causal &&
                                    !text.has_class_token && text.pool == config::TextPool::kLargestId;
  if (!is_pooled_at_largest || ids.empty()) return std::ssize(ids);
  return std::max_element(ids.begin(), ids.end()) - ids.begin() + 1;
}

}  // namespace lockstep::models
