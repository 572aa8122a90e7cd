#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::infer {

/// First bytes of NumPy's format 1.0; two bytes of the header's length follow, little-endian, then the header.
inline constexpr std::string_view kNpyMagic("\x93NUMPY\x01\x00", 8);

/// A matrix of half or single precision, rows one behind the other.
struct NpyHeader {
  size_t begin = 0;  ///< Of the numbers in the file; all of them lie in it.
  int64_t rows = 0, width = 0;
  bool is_wide = true;  ///< fp32; else fp16.
};

/// Of a whole file; `where` is for messages. DataError for anything else.
NpyHeader parse_npy_header(std::string_view file, std::string_view where);

}  // namespace lockstep::infer
