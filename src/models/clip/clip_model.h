#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>

#include "comm/comm.h"
#include "config/clip_shape.h"
#include "models/clip/caption_decoder.h"
#include "models/clip/image_tower.h"
#include "models/clip/text_tower.h"
#include "models/two_towers.h"

namespace lockstep::models {

/// OpenCLIP's CLIP, CustomTextCLIP and CoCa classes: parameters under its names, in the order of
/// config::clip_param_specs. Without content until nn::initialize or loaded weights fill it.
class ClipModel final : public TwoTowers {
 public:
  ClipModel(const config::ClipShape& shape, const ClipModelOptions& options);

  at::Tensor encode_image(const at::Tensor& image_BCYX) override;
  at::Tensor encode_text(const at::Tensor& text_BT) override;
  bool has_captions() const override { return decoder_ != nullptr; }
  CaptionedPairs encode_pairs(const at::Tensor& image_BCYX, const at::Tensor& text_BT, CountedTokens counted) override;
  /// Of a captioning model: what its decoder reads of pictures.
  ImageFeatures image_features(const at::Tensor& image_BCYX);
  /// Of a captioning model: logits [B, V] of the token behind text_BT, given what image_features() has of the pictures.
  at::Tensor next_token_logits(const at::Tensor& image_BSD, const at::Tensor& text_BT);
  int64_t num_used_ids(std::span<const int32_t> ids) const override;
  at::Tensor& logit_scale() override { return logit_scale_; }
  at::Tensor* logit_bias() override { return logit_bias_.defined() ? &logit_bias_ : nullptr; }

  const config::ClipShape& shape() const { return shape_; }
  const std::vector<config::ParamSpec>& param_specs() const { return specs_; }

 private:
  at::Tensor caption_hidden(const at::Tensor& image_BSD, const at::Tensor& text_BT);

  config::ClipShape shape_;
  std::vector<config::ParamSpec> specs_;
  std::unique_ptr<ImageTower> visual_;
  std::unique_ptr<TextTower> text_;
  std::unique_ptr<CaptionDecoder> decoder_;
  at::Tensor logit_scale_, logit_bias_;
};

}  // namespace lockstep::models
