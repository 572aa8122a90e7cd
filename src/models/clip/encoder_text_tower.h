#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <string>
#include <vector>

#include "config/clip_shape.h"
#include "models/clap/roberta.h"
#include "models/clap/text_packing.h"
#include "models/clip/text_tower.h"
#include "models/projection.h"

namespace lockstep::models {

struct ClipModelOptions;

/// One layer of the encoder of an encoder-decoder, on packed tokens (see TextPacking).
class EncoderLayer : public nn::Module {
 public:
  /// [N, D] -> [N, D]; with `only_first` the rows of each text's first token alone, [B, D] in packed order.
  virtual at::Tensor forward(const at::Tensor& x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                             bool only_first) const = 0;
  virtual at::ScalarType parameter_type() const = 0;
  /// A module outside whose parameters it reads, too; nullptr: none.
  virtual nn::Module* shared_module() const { return nullptr; }
};

/// OpenCLIP's HFTextEncoder around the encoder of an encoder-decoder ("transformer."), then the projection ("proj.").
/// Only real tokens are computed; the result is that of the padded computation with an attention mask.
class EncoderTextTower : public TextTower {
 public:
  at::Tensor forward(const at::Tensor& text_BT, const ForwardContext& context) override;
  void set_checkpointing(bool checkpointing) override { checkpointing_ = checkpointing; }

 protected:
  struct Traits {
    int64_t pad_id = 0, width = 0;
    config::TextPooler pooler = config::TextPooler::kMean;
    double dropout = 0.0, attention_dropout = 0.0;  ///< While training.
  };
  EncoderTextTower(const Traits& traits, const config::ClipShape& shape, const ClipModelOptions& options);
  /// Registers it as `name`; in forward order.
  void add_layer(const std::string& name, std::unique_ptr<EncoderLayer> layer);
  /// Behind everything else.
  void register_projection() { register_child("proj", proj_); }

 private:
  virtual at::Tensor embed(const TextPacking& packing) const = 0;
  /// What stands behind the last layer.
  virtual at::Tensor finish(const at::Tensor& x, const RobertaDropout& dropout) const = 0;
  at::Tensor run_layers(at::Tensor x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                        bool first_only) const;

  Traits traits_;
  int64_t context_length_;
  bool exact_shortcuts_, checkpointing_ = false;
  at::Device device_;
  std::vector<std::unique_ptr<EncoderLayer>> layers_;
  Projection proj_;
};

}  // namespace lockstep::models
