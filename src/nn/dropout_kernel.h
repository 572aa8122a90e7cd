#pragma once
#include <cstdint>

#include "nn/number_bits.h"

namespace lockstep::nn {

/// Draws of rows that are numbered: element (row, column) is drawn from (key, number of the row, column) alone.
struct NumberedDraws {
  const int64_t* rows = nullptr;  ///< Numbers; where null, row i has number i.
  int64_t columns = 0;
  uint64_t key = 0;
  int64_t kept_of_2_24 = 0;  ///< So many of 2^24 equally likely draws keep an element.
};

/// Rows [begin, end): y = x `factor` where an element is kept, else x 0, in fp32 and rounded once. x and y: of row 0.
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const float* x, float* y);
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const Bfloat16Bits* x,
               Bfloat16Bits* y);
void drop_rows(const NumberedDraws& draws, int64_t begin, int64_t end, float factor, const HalfBits* x, HalfBits* y);

}  // namespace lockstep::nn
