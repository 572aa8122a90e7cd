#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Rows of draws that are numbered: element (row, column) is drawn from (key, rows[row], column) alone.
struct NumberedDraws {
  const int64_t* rows = nullptr;
  int64_t columns = 0;
  uint64_t key = 0;
  int64_t kept_of_2_24 = 0;  ///< So many of 2^24 equally likely draws keep an element.
};

/// Rows [begin, end): `one`, the bits of a number 1, where an element is kept, else 0. `out`: of row 0.
void draw_kept(const NumberedDraws& draws, int64_t begin, int64_t end, uint32_t one, uint32_t* out);
void draw_kept(const NumberedDraws& draws, int64_t begin, int64_t end, uint16_t one, uint16_t* out);

}  // namespace lockstep::nn
