#pragma once
#include <ATen/ATen.h>

#include <cmath>

#include "config/param_spec.h"
#include "core/rng.h"
#include "models/two_towers.h"

namespace lockstep::tests {

/// The smallest pair of towers that has every trait the steps must handle: a linear image tower with random feature
/// dropout (keyed by the context) and a running mean, an embedding-mean text tower, and the scale.
class TinyTowers : public models::TwoTowers {
 public:
  static constexpr int64_t kVocabulary = 11, kPixels = 12, kDim = 6;

  explicit TinyTowers(bool drops_features = false) : drops_features_(drops_features) {
    const auto wave = [](at::IntArrayRef shape, double frequency) {
      int64_t count = 1;
      for (const int64_t size : shape) count *= size;
      return at::sin(at::arange(count, at::kFloat) * frequency).reshape(shape).mul(0.5).set_requires_grad(true);
    };
    image_weight_ = wave({kDim, kPixels}, 1.3);
    text_weight_ = wave({kVocabulary, kDim}, 2.1);
    text_projection_ = wave({kDim, kDim}, 0.9);
    logit_scale_ = at::full({}, std::log(1 / 0.07)).set_requires_grad(true);
    running_mean_ = at::zeros({kPixels});
    register_parameter("visual.weight", image_weight_);
    register_parameter("token_embedding.weight", text_weight_);
    register_parameter("text_projection", text_projection_);
    register_parameter("logit_scale", logit_scale_);
    register_buffer("visual.running_mean", running_mean_);
    for (const auto& [name, tensor] : named_parameters())
      specs_.push_back(
          {.name = name, .shape = tensor->sizes().vec(), .init = {}, .weight_decay = name != "logit_scale"});
    specs_.back().bounds = {0.0, std::log(100.0)};
  }

  at::Tensor encode_image(const at::Tensor& image_BCYX) override {
    auto flat = image_BCYX.flatten(1);
    if (is_training() && context().updates_statistics) running_mean_.mul_(0.9).add_(flat.detach().mean(0), 0.1);
    if (is_training() && drops_features_) flat = flat * kept(flat.sizes());
    last_context_ = context();
    ++num_image_forwards_;
    return at::linear(flat.to(image_weight_.scalar_type()), image_weight_).tanh();
  }
  at::Tensor encode_text(const at::Tensor& text_BT) override {
    return at::embedding(text_weight_, text_BT).mean(1).matmul(text_projection_).tanh();
  }
  const std::vector<config::ParamSpec>& param_specs() const { return specs_; }
  at::Tensor& logit_scale() override { return logit_scale_; }

  const models::ForwardContext& last_context() const { return last_context_; }
  int num_image_forwards() const { return num_image_forwards_; }
  const at::Tensor& running_mean() const { return running_mean_; }

 private:
  /// 1 for about 3 of 4 elements, a function of the context's key alone; 0 for the others. The first of each row stays.
  at::Tensor kept(at::IntArrayRef sizes_BF) const {
    core::CounterRng rng(context().random_key);
    auto mask = at::ones(sizes_BF, at::kFloat);
    float* values = mask.data_ptr<float>();
    for (int64_t i = 0; i < mask.numel(); ++i)
      if (rng.uniform() < 0.25 && i % sizes_BF[1] != 0) values[i] = 0;
    return mask;
  }

  bool drops_features_;
  std::vector<config::ParamSpec> specs_;
  at::Tensor image_weight_, text_weight_, text_projection_, logit_scale_, running_mean_;
  models::ForwardContext last_context_;
  int num_image_forwards_ = 0;
};

}  // namespace lockstep::tests
