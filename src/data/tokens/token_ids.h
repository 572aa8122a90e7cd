#pragma once
#include <cstdint>

#include "data/tokens/array_cache.h"
#include "data/tokens/indexed_dataset.h"

namespace lockstep::data {

/// The least and the largest id of a token file with their places, as far as it was read.
struct TokenIds {
  int64_t least = 0, most = 0;        ///< What is no int32 >= 0 counts as -1.
  int64_t least_at = 0, most_at = 0;  ///< Number of the token in the file.
  int64_t num_read = 0;               ///< Tokens; below all of them where the time was too short.
};

/// Reads a token file with several threads, in blocks that are spread over all of it, for at most about `seconds` (but
/// at least one block).
TokenIds scan_token_ids(const IndexedDataset& files, double seconds);

/// How a corpus is tested before training.
struct TokenIdCheck {
  /// Remembers what was read of a file, while it has the same size and time of change.
  std::shared_ptr<ArrayCache> cache = nullptr;
  double seconds = 20;        ///< At most, for the first test.
  bool is_first_rank = true;  ///< Where nothing can be remembered the others leave reading to this one.
};

/// DataError when a token file holds an id that is no id of the vocabulary, with its document and place. A type that
/// has no such id is not read. A long file is read in part (and a log line says how much); reading samples tests every
/// id again.
void check_token_ids(const IndexedDataset& files, int64_t vocab_size, const TokenIdCheck& check);

}  // namespace lockstep::data
