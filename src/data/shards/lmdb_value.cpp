#include "data/shards/lmdb_value.h"

#include "core/error.h"
#include "core/strings.h"
#include "data/shards/plain_pickle.h"

namespace lockstep::data {
namespace {

constexpr const char* kKnownForms =
    "expected a pickle or MessagePack of (bytes, label), a Datum with an encoded picture, or a JPEG, PNG or WebP";

/// Reads numbers and bytes from the front; DataError where they end.
class ValueCursor {
 public:
  ValueCursor(std::string_view text, const std::string& where) : text_(text), where_(where) {}
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}", where_, what), kKnownForms);
  }
  bool is_at_end() const { return at_ == text_.size(); }
  std::string_view take(uint64_t count) {
    if (count > text_.size() - at_) fail("the value is cut");
    at_ += static_cast<size_t>(count);
    return text_.substr(at_ - static_cast<size_t>(count), static_cast<size_t>(count));
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1).front()); }
  uint64_t big_endian(size_t num_bytes) {
    uint64_t value = 0;
    for (const char c : take(num_bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  /// Protocol Buffers' integer of 7 bits a byte.
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      value |= uint64_t{next & 0x7fu} << shift;
      if (next < 0x80) return value;
    }
    fail("an integer of more than ten bytes");
  }

 private:
  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
};

LmdbValue parse_pickle_pair(std::string_view value, const std::string& where) {
  const PlainPickle pair = parse_plain_pickle(value, where);
  if (pair.items.size() != 2 || pair.items[0].kind != PlainPickle::Kind::kBytes ||
      pair.items[1].kind != PlainPickle::Kind::kInteger)
    throw DataError(fmt::format("{}: a pickle of something else than (bytes, label)", where), kKnownForms);
  return {.picture = pair.items[0].bytes, .label = pair.items[1].integer};
}

std::string_view messagepack_bytes(ValueCursor& cursor) {
  const uint8_t type = cursor.byte();
  if (type >= 0xa0 && type <= 0xbf) return cursor.take(type & 0x1fu);
  switch (type) {
    case 0xc4:
    case 0xd9: return cursor.take(cursor.big_endian(1));
    case 0xc5:
    case 0xda: return cursor.take(cursor.big_endian(2));
    case 0xc6:
    case 0xdb: return cursor.take(cursor.big_endian(4));
    default: cursor.fail(fmt::format("MessagePack type 0x{:02x} where the picture should be", type));
  }
}

int64_t messagepack_integer(ValueCursor& cursor) {
  const uint8_t type = cursor.byte();
  if (type < 0x80) return type;
  switch (type) {
    case 0xcc: return static_cast<int64_t>(cursor.big_endian(1));
    case 0xcd: return static_cast<int64_t>(cursor.big_endian(2));
    case 0xce: return static_cast<int64_t>(cursor.big_endian(4));
    case 0xcf: return static_cast<int64_t>(cursor.big_endian(8));
    case 0xd0: return static_cast<int8_t>(cursor.big_endian(1));
    case 0xd1: return static_cast<int16_t>(cursor.big_endian(2));
    case 0xd2: return static_cast<int32_t>(cursor.big_endian(4));
    case 0xd3: return static_cast<int64_t>(cursor.big_endian(8));
    default: cursor.fail(fmt::format("MessagePack type 0x{:02x} where the label should be", type));
  }
}

LmdbValue parse_messagepack_pair(std::string_view value, const std::string& where) {
  ValueCursor cursor(value, where);
  cursor.byte();  // an array of two
  LmdbValue result;
  result.picture = messagepack_bytes(cursor);
  result.label = messagepack_integer(cursor);
  if (!cursor.is_at_end()) cursor.fail("more bytes behind a MessagePack pair");
  return result;
}

/// Caffe's message Datum: channels = 1, height = 2, width = 3, data = 4, label = 5, encoded = 7.
LmdbValue parse_datum(std::string_view value, const std::string& where) {
  constexpr uint64_t kData = 4, kLabel = 5, kEncoded = 7;
  ValueCursor cursor(value, where);
  LmdbValue result;
  bool is_encoded = false;
  while (!cursor.is_at_end()) {
    const uint64_t tag = cursor.varint(), field = tag >> 3;
    switch (tag & 7) {
      case 0: {
        const uint64_t number = cursor.varint();
        if (field == kLabel) result.label = static_cast<int64_t>(number);
        if (field == kEncoded) is_encoded = number != 0;
        break;
      }
      case 1: cursor.take(8); break;
      case 2: {
        const std::string_view bytes = cursor.take(cursor.varint());
        if (field == kData) result.picture = bytes;
        break;
      }
      case 5: cursor.take(4); break;
      default: cursor.fail(fmt::format("a field of unknown type {} in a Datum", tag & 7));
    }
  }
  if (!is_encoded) cursor.fail("a Datum of plain pixels, without an encoded picture");
  if (result.picture.data() == nullptr) cursor.fail("a Datum without a picture");
  return result;
}

bool is_picture(std::string_view value) {
  return core::starts_with(value, "\xff\xd8\xff") || core::starts_with(value, "\x89PNG") ||
         core::starts_with(value, "RIFF");
}

}  // namespace

LmdbValue parse_lmdb_value(std::string_view value, const std::string& where) {
  if (is_picture(value)) return {.picture = value, .label = std::nullopt};
  switch (value.empty() ? 0 : static_cast<unsigned char>(value.front())) {
    case 0x80: return parse_pickle_pair(value, where);
    case 0x92: return parse_messagepack_pair(value, where);
    case 0x08:  // the number of channels comes first, or the picture
    case 0x22: return parse_datum(value, where);
    default: break;
  }
  std::string hex;
  for (const char c : value.substr(0, 8)) hex += fmt::format("{:02x} ", static_cast<unsigned char>(c));
  throw DataError(fmt::format("{}: a value of {} bytes that begin {}", where, value.size(), hex), kKnownForms);
}

}  // namespace lockstep::data
