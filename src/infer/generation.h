#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/token_choice.h"
#include "models/gpt/gpt_model.h"

namespace lockstep::infer {

struct GenerationConfig {
  TokenChoice choice;
  uint64_t seed = 0;
  int64_t max_new_tokens = 128;
  int64_t num_ids = 0;                  ///< Only ids below are chosen: what the tokenizer and the model both have.
  std::vector<int32_t> stop_ids;        ///< Each ends a text, and is its last token.
  std::function<void()> on_token = {};  ///< Where set: called after each text that grows has got a token.
};

/// Why a text ended.
enum class StopReason {
  kEod,        ///< A token of stop_ids.
  kLength,     ///< max_new_tokens.
  kPositions,  ///< The model has no more positions.
};
/// "eod", "length", "positions"
const char* stop_reason_name(StopReason reason);

struct Continuation {
  std::vector<int32_t> ids;  ///< Without the prompt.
  StopReason reason = StopReason::kLength;
};

/// Packs the weights for `num_sequences` that grow together (nn::Module::prepare_inference), on the CPU, where that
/// makes their products faster (nn::is_faster); else unpacks them.
void prepare_generation(models::GptModel& model, size_t num_sequences);

/// Continues prompts of any lengths together, with keys and values of past tokens kept. Prompt i draws from a stream of
/// (seed, first_number + i), so that its text does not depend on the others. `model`: whole, on one rank, not training;
/// prompts have 1 to max_positions ids of its vocabulary.
std::vector<Continuation> generate_tokens(models::GptModel& model, std::span<const std::vector<int32_t>> prompts,
                                          uint64_t first_number, const GenerationConfig& config);

}  // namespace lockstep::infer
