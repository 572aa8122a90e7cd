#pragma once
#include <cstdint>
#include <string>

#include "core/options.h"

namespace lockstep::config {

/// Options of `infer retrieve`.
struct RetrieveOptions {
  std::string embeddings;          // --embeddings DIR or FILE
  std::string queries;             // --queries DIR or FILE
  std::string key = "image";       // --key, the tower searched
  std::string query_key = "text";  // --query-key, the tower of the queries
  std::string output;              // --output FILE
  int64_t top_k = 10;              // --top-k
  int64_t tile_rows = 8192;        // --tile-rows
  int64_t threads = 0;             // --threads, 0 = auto
};

core::OptionSet declare_retrieve_options(RetrieveOptions& options);
/// UsageError when a needed flag is missing, or the folder of --output.
void check_retrieve_options(const RetrieveOptions& options, const core::OptionSet& set);

}  // namespace lockstep::config
