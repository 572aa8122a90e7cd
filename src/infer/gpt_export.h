#pragma once
#include "config/ckpt_options.h"
#include "models/weights.h"

namespace lockstep::infer {

/// Writes a GPT (config::is_gpt_export) under Hugging Face's names as a folder of model.safetensors, config.json and
/// the files of its tokenizer, or under Megatron's as one file. Weights keep their type. The folder appears when it is
/// whole. UsageError for a shape that no class of Hugging Face holds and for a folder that is there; CheckpointError,
/// UsageError and DataError as of find_gpt and load_gpt.
void export_gpt(const config::CkptOptions& options);

/// Under our own names the whole tensors of a checkpoint of `train gpt` whose ranks wrote parts of them.
models::NamedValues own_gpt_values(const config::CkptOptions& options);

}  // namespace lockstep::infer
