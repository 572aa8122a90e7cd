#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <vector>

#include "comm/comm.h"
#include "config/clap_shape.h"
#include "models/clap/htsat.h"
#include "models/clap/roberta.h"
#include "models/projection.h"
#include "models/two_towers.h"

namespace lockstep::models {

struct ClapModelOptions {
  at::TensorOptions tensors = {};   ///< Device and type of the parameters at first; the default is fp32 on the CPU.
  bool grad_checkpointing = false;  ///< Transformer blocks keep only their inputs for the backward pass.
  bool exact_shortcuts = true;      ///< False: compute what cannot reach the result as well (for comparisons).
  comm::Comm* batch_norm_ranks = nullptr;  ///< --use-bn-sync: statistics over these ranks. Must outlive the model.
};

/// LAION's CLAP: parameters under its names, in the order of config::clap_param_specs. Without content until
/// nn::initialize or load_clap_weights. What never gets a gradient there (classification head, transforms, second
/// scale) are buffers here.
class ClapModel final : public TwoTowers {
 public:
  ClapModel(const config::ClapShape& shape, const ClapModelOptions& options);

  at::Tensor encode_audio(const at::Tensor& audio_BS) override;
  /// Ids padded with the shape's pad_id. DataError for a text without tokens.
  at::Tensor encode_text(const at::Tensor& text_BT) override;
  at::Tensor& logit_scale() override { return logit_scale_a_; }

  const config::ClapShape& shape() const { return shape_; }
  const std::vector<config::ParamSpec>& param_specs() const { return specs_; }

 private:
  /// The MLP of LAION's --clap-mlploss.
  struct Transform {
    at::Tensor weight_0, bias_0, weight_3, bias_3;
  };
  void carry_transform(const std::string& name, Transform& transform, const at::TensorOptions& options);

  config::ClapShape shape_;
  std::vector<config::ParamSpec> specs_;
  HtsatTower audio_;
  Projection audio_projection_;
  RobertaTower text_;
  Projection text_projection_;
  Transform audio_transform_, text_transform_;
  at::Tensor logit_scale_a_, logit_scale_t_;
};

}  // namespace lockstep::models
