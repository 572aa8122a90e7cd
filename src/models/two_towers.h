#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <span>

#include "models/forward_context.h"
#include "nn/module.h"

namespace lockstep::models {

/// A captioning model's view of pairs.
struct CaptionedPairs {
  at::Tensor image_BE, text_BE;  ///< As of encode_image and encode_text.
  at::Tensor loss_sum;           ///< 0-dim: cross entropies of each text's next tokens, given picture and text so far.
  at::Tensor num_tokens;         ///< 0-dim, fp32: how many they are.
};

/// The next tokens whose cross entropies are summed: those of the text itself, or padding as well.
enum class CountedTokens { kWords, kAll };

/// Two encoders into one embedding space and the scalars of their loss: CLIP and CLAP derive from it.
class TwoTowers : public nn::Module {
 public:
  /// Features [B, E] before L2 normalisation (ContrastiveTask and infer normalise). The tower beside the text reads
  /// images or audio; the other kind is a DataError.
  virtual at::Tensor encode_image(const at::Tensor& image_BCYX);
  virtual at::Tensor encode_audio(const at::Tensor& audio_BS);
  virtual at::Tensor encode_text(const at::Tensor& text_BT) = 0;
  /// How many of a text's leading ids its features depend on: behind them encode_text() may be given fewer columns.
  virtual int64_t num_used_ids(std::span<const int32_t> ids) const { return static_cast<int64_t>(ids.size()); }
  /// The parameter ln(scale), 0-dim or [1]; a handle, so that optimiser and clamp see the tensor in use.
  virtual at::Tensor& logit_scale() = 0;
  /// The parameter of the bias that is added to all logits; nullptr without one.
  virtual at::Tensor* logit_bias() { return nullptr; }
  /// Whether encode_pairs() is there: a captioning model (CoCa).
  virtual bool has_captions() const { return false; }
  virtual CaptionedPairs encode_pairs(const at::Tensor& image_BCYX, const at::Tensor& text_BT, CountedTokens counted);
  /// Holds for the forward passes that follow.
  virtual void set_context(const ForwardContext& context) { context_ = context; }

 protected:
  const ForwardContext& context() const { return context_; }

 private:
  ForwardContext context_;
};

}  // namespace lockstep::models
