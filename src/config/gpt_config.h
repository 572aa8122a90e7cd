#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/gpt_shape.h"
#include "core/json.h"

namespace lockstep::config {

/// What a configuration says beside the shape.
struct GptConfigNotes {
  std::vector<int32_t> eos_ids;  ///< Tokens that end a text.
  std::optional<int32_t> bos_id;
  std::string dtype = "float32";  ///< Of the weights, as PyTorch calls it.
};

/// config.json for the class of Hugging Face that holds the shape; parse_gpt_shape reads the same network from it.
/// Rotary positions have the keys that releases 4 and 5 of transformers understand. It has no place for padding of the
/// vocabulary, the length of training sequences, a deviation of embeddings, and, but in GPT-2's, dropout outside of
/// attention. UsageError for a shape that no class holds.
core::Json hugging_face_config(const GptShape& shape, const GptConfigNotes& notes);

}  // namespace lockstep::config
