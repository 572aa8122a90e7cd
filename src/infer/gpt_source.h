#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "config/generate_options.h"
#include "data/text/text_tokenizer.h"
#include "models/gpt/gpt_model.h"

namespace lockstep::infer {

/// What the user's paths lead to: where a language model's weights lie, its shape, and what goes with it.
struct GptSource {
  std::filesystem::path weights;  ///< A checkpoint of `train gpt`, a folder of Hugging Face, or a file.
  config::GptShape shape;
  data::TokenizerFiles tokenizer;  ///< All empty: there is none.
  std::vector<int32_t> eod_ids;    ///< That the configuration or the run names.
  std::optional<int32_t> bos_id;
};

/// From --pretrained, --model and the tokenizer's flags. CheckpointError where there are no weights; UsageError where
/// the shape is not known.
GptSource find_gpt(const config::GenerateOptions& options);

/// The model with its weights, whole, for evaluation; those of a checkpoint may lie in the parts of any ranks.
/// DataError, of a checkpoint CheckpointError, for weights that do not fit the shape, with the names.
std::unique_ptr<models::GptModel> load_gpt(const GptSource& source, const at::TensorOptions& tensors);

/// The type that holds every weight as it is stored. DataError where that is no floating-point type.
c10::ScalarType stored_type(const GptSource& source);

/// The model's tokenizer, whose end-of-document token is put before the other eod_ids; none where no file is named.
/// UsageError where it has more tokens than the model.
std::unique_ptr<data::TextTokenizer> open_tokenizer(GptSource& source);

}  // namespace lockstep::infer
