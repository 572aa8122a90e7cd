#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::data {

/// What a .bin/.idx pair holds.
struct TokenReport {
  std::string prefix, type;
  int64_t num_documents = 0, num_sequences = 0, num_tokens = 0,
          num_empty = 0;                                      ///< num_empty: sequences without a token.
  int64_t min_length = 0, median_length = 0, max_length = 0;  ///< Tokens of a sequence.
  int64_t min_id = 0, max_id = 0;
  std::vector<int32_t> first_ids;  ///< Begin of the first document.
  core::Json to_json() const;
};

/// Checks the index and reads every token; DataError for damage, and for ids from vocab_size on (0: any).
TokenReport inspect_tokens(const std::filesystem::path& prefix, int64_t vocab_size);

}  // namespace lockstep::data
