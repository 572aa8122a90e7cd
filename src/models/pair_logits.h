#pragma once
#include <ATen/core/TensorBody.h>

#include <algorithm>
#include <cstdint>

#include "comm/comm.h"

namespace lockstep::models {

// Letters: R rows of this rank, K columns of a tile, N pairs of all data ranks, E shared embedding.

/// rows_RE times keys_KE transposed, in fp32 whatever the features are.
at::Tensor feature_products(const at::Tensor& rows_RE, const at::Tensor& keys_KE);

/// into_RE (fp32) += weights_RK keys_KE.
void add_weighted_features(at::Tensor& into_RE, const at::Tensor& weights_RK, const at::Tensor& keys_KE);

/// Features of all ranks, [N, 2 E]: image, then text. Collective; one all-gather, none on one rank.
at::Tensor gather_features(const at::Tensor& image_BE, const at::Tensor& text_BE, comm::Comm& data_axis);

/// The mean of a 0-dim loss over the ranks, the same bits on each, detached. Collective; one all-gather, none on one
/// rank.
at::Tensor mean_over_ranks(const at::Tensor& loss, comm::Comm& data_axis);

/// Columns of a tile whose logits take at most `logit_bytes` for `num_rows` rows, at least 64 and at most all.
int64_t tile_columns(int64_t num_rows, int64_t num_columns, int64_t logit_bytes);

/// Where rows (row i pairs with column first + i) meet their own pair inside the columns [begin, end).
struct DiagonalPart {
  int64_t row = 0, column = 0, size = 0;  ///< First row, first column within the tile, length.
  DiagonalPart(int64_t num_rows, int64_t first, int64_t begin, int64_t end) {
    row = std::max<int64_t>(0, begin - first);
    size = std::max<int64_t>(0, std::min(num_rows, end - first) - row);
    column = first + row - begin;
  }
  /// A view of the own pairs of `tile_RK`; call it where size > 0.
  at::Tensor of(const at::Tensor& tile_RK) const;
};

}  // namespace lockstep::models
