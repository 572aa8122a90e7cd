#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::data {

/// Source window and fixed-point weights (22 fractional bits) of each output coordinate along one axis.
struct AxisWeights {
  bool is_identity = false;      ///< Same size before and after: the pass is left out.
  int num_taps = 0;              ///< Weights stored per output coordinate.
  std::vector<int> begin;        ///< First source coordinate.
  std::vector<int> count;        ///< Source coordinates used, at most num_taps.
  std::vector<int32_t> weights;  ///< [output][tap]
};

/// Vertical pass: each output row is the weighted sum of input rows. `in` is the row with source coordinate first_row.
void resize_rows(const uint8_t* in, size_t in_stride_bytes, int first_row, size_t row_bytes, const AxisWeights& weights,
                 uint8_t* out, size_t out_stride_bytes);

/// Horizontal pass over num_rows rows of num_columns RGB pixels; `in` begins at source coordinate first_column.
void resize_columns(const uint8_t* in, size_t in_stride_bytes, int num_rows, int first_column, int num_columns,
                    const AxisWeights& weights, uint8_t* out, size_t out_stride_bytes, std::vector<uint8_t>& tile);

}  // namespace lockstep::data
