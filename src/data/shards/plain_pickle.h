#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// A value of a pickle that needs no code to be read.
struct PlainPickle {
  enum class Kind { kInteger, kBytes, kList };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  std::string_view bytes = {};          ///< Bytes or text; a view of what was parsed.
  std::vector<PlainPickle> items = {};  ///< Of a list or a tuple.
};

/// Reads a pickle (protocols 2 to 5) of integers, bytes, texts, lists and tuples. Nothing is ever executed: opcodes
/// that look up names or call something throw DataError, as does whatever is cut or malformed. `where` begins the
/// message.
PlainPickle parse_plain_pickle(std::string_view text, const std::string& where);

/// The pickles (protocol 3) of an integer, of (bytes, integer) and of a list of byte strings.
std::string pickle_integer(int64_t value);
std::string pickle_pair(std::string_view bytes, int64_t value);
std::string pickle_byte_strings(const std::vector<std::string>& strings);

}  // namespace lockstep::data
