#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <vector>

#include "config/retrieve_options.h"

namespace lockstep::infer {

struct Hit {
  float score = 0;
  int64_t row = 0;  ///< Counted over all that was added.
};

/// The k best rows of each query by inner product, exactly; of equal scores the earlier row is better. Memory: k hits
/// per query and the scores of one tile.
class NearestSearch {
 public:
  /// `query_QE`: fp32, contiguous, on the CPU.
  NearestSearch(const at::Tensor& query_QE, int64_t top_k, int64_t tile_rows);
  /// Searches further rows [N, E], fp32, on the CPU.
  void add(const at::Tensor& rows_NE);
  /// The best of each query so far, the best first; fewer than k where there were fewer rows.
  std::vector<std::vector<Hit>> hits() const;

 private:
  at::Tensor query_QE_;
  int64_t top_k_, tile_rows_, num_rows_ = 0;
  std::vector<std::vector<Hit>> heaps_;  // the worst hit in front
};

/// `infer retrieve`: {"query": KEY or number, "results": [{"key": ..., "shard": ..., "row": ..., "score": ...}]} per
/// query. `row` counts from 0 within the shard or file. Where shards of the folder are missing, a warning and
/// "incomplete" of each line tell how many. DataError where there are no embeddings, or of another width.
void retrieve(const config::RetrieveOptions& options);

}  // namespace lockstep::infer
