#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// What the value of one key holds.
struct LmdbValue {
  std::string_view picture;      ///< The encoded picture; a view of the value.
  std::optional<int64_t> label;  ///< Where the value has one.
};

/// Reads a value by its first bytes: a pickle of (bytes, label), the same in MessagePack, Caffe's Datum with an encoded
/// picture, or the picture itself. None of them is executed. DataError that begins with `where` for anything else.
LmdbValue parse_lmdb_value(std::string_view value, const std::string& where);

}  // namespace lockstep::data
