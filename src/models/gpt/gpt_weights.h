#pragma once
#include <memory>

#include "config/gpt_names.h"
#include "models/gpt/gpt_model.h"
#include "models/weights.h"

namespace lockstep::models {

/// Copies a whole model's weights under the names of Hugging Face (the class that the shape belongs to) or Megatron
/// into this rank's part of it. Rows of the vocabulary that the file does not have become 0. GPT-2 files without the
/// leading "transformer." and masks among the weights are understood, a head that repeats a tied embedding, and
/// Megatron's padding for any tensor ranks. DataError that lists missing, unexpected and mis-shaped names, before
/// anything was changed; UsageError for a shape that no class of Hugging Face holds.
void load_gpt_weights(GptModel& model, const WeightFile& weights);

/// The parameters of the model's part, whole, as a program of that dialect saves them; copies that another stage owns
/// are left out. Each parameter's memory is freed once its values are made, so that no two copies of the whole exist.
/// Collective over the ranks that share the layers; every one of them gets all.
NamedValues take_gpt_values(std::unique_ptr<GptModel> model, config::GptDialect dialect);

/// A parameter from the parts of all ranks. Collective.
at::Tensor whole_parameter(const at::Tensor& own, const config::ParamSpec& spec, const nn::ShardCtx& shard);

}  // namespace lockstep::models
