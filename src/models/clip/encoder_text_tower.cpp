#include "models/clip/encoder_text_tower.h"

#include <ATen/core/Tensor.h>

#include "core/error.h"
#include "models/clap/packed_texts.h"
#include "models/clip/image_tower.h"
#include "nn/recompute.h"

namespace lockstep::models {
namespace {
constexpr int64_t kInFrontOfLayers = -1;  // stands for a layer index
}  // namespace

EncoderTextTower::EncoderTextTower(const Traits& traits, const config::ClipShape& shape,
                                   const ClipModelOptions& options)
    : traits_(traits), context_length_(shape.text.context_length), exact_shortcuts_(options.exact_shortcuts),
      device_(options.tensors.device()),
      proj_(traits.width, shape.embed_dim, shape.text.encoder_projection, options.tensors) {}

void EncoderTextTower::add_layer(const std::string& name, std::unique_ptr<EncoderLayer> layer) {
  layers_.push_back(std::move(layer));
  register_child(name, *layers_.back());
}

at::Tensor EncoderTextTower::run_layers(at::Tensor x_ND, const TextPacking& packing, const RobertaDropout& dropout,
                                        bool first_only) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    EncoderLayer& layer = *layers_[i];
    const auto compute = [&layer, packing, dropout, only = first_only && i + 1 == layers_.size()](const at::Tensor& x) {
      return layer.forward(x, packing, dropout, only);
    };
    std::vector<nn::Module*> modules = {&layer};
    if (layer.shared_module() != nullptr) modules.push_back(layer.shared_module());
    x_ND = checkpointing_ ? nn::recomputed(modules, x_ND, compute) : compute(x_ND);
  }
  return x_ND;
}

at::Tensor EncoderTextTower::forward(const at::Tensor& text_BT, const ForwardContext& context) {
  LOCKSTEP_CHECK(text_BT.dim() == 2, "dims={}", text_BT.dim());
  const TextPacking packing = pack_texts(text_BT, traits_.pad_id, context_length_, device_, text_attention_on(device_));
  RobertaDropout dropout{.key = context.random_key};
  if (is_training()) {
    dropout.hidden = traits_.dropout;
    dropout.attention = traits_.attention_dropout;
  }
  const bool first_only = traits_.pooler == config::TextPooler::kClassHidden;
  // Under --precision bf16 embeddings stay fp32 while the layers are bf16.
  at::Tensor x = nn::dropout(embed(packing), dropout.at(kInFrontOfLayers, 0)).to(layers_.front()->parameter_type());
  x = run_layers(x, packing, dropout, first_only && exact_shortcuts_);
  if (first_only && !exact_shortcuts_) x = x.index_select(0, packing.first_B);
  const at::Tensor pooled_BD = pooled_texts(finish(x, dropout), packing, traits_.pooler);
  return proj_.forward(pooled_BD.index_select(0, packing.place_B));
}

}  // namespace lockstep::models
