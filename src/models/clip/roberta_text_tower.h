#pragma once
#include <ATen/core/TensorBody.h>

#include "config/clip_shape.h"
#include "models/clap/roberta.h"
#include "models/clip/text_tower.h"
#include "models/projection.h"

namespace lockstep::models {

/// OpenCLIP's HFTextEncoder: RoBERTa or XLM-RoBERTa with its pooler ("transformer."), then the projection ("proj.").
class RobertaTextTower final : public TextTower {
 public:
  RobertaTextTower(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& text_BT, const ForwardContext& context) override;
  TextFeatures forward_with_tokens(const at::Tensor& text_BT, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { transformer_.set_checkpointing(checkpointing); }

 private:
  RobertaTower transformer_;
  Projection proj_;
};

}  // namespace lockstep::models
