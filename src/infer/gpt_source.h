#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "data/text_tokenizer.h"
#include "models/gpt/gpt_model.h"
#include "spec/generate_options.h"

namespace lockstep::infer {

/// What the user's paths lead to: where a language model's weights lie, its shape, and what goes with it.
struct GptSource {
  std::filesystem::path weights;      ///< A file, or a folder of Hugging Face.
  spec::GptShape shape;
  data::TokenizerFiles tokenizer;     ///< All empty: there is none.
  std::vector<int32_t> eod_ids;       ///< That the configuration or the run names.
  std::optional<int32_t> bos_id;
};

/// From --pretrained, --model and the tokenizer's flags. CheckpointError where there are no weights, or only parts of a model; UsageError where the shape is
/// not known.
GptSource find_gpt(const spec::GenerateOptions& options);

/// The model with its weights, whole, for evaluation. DataError for weights that do not fit the shape, with the names.
std::unique_ptr<models::GptModel> load_gpt(const GptSource& source, const at::TensorOptions& tensors);

}  // namespace lockstep::infer
