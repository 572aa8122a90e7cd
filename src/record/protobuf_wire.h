#pragma once
#include <cstdint>
#include <string>
#include <string_view>

/// Protocol buffers as bytes: a key is field number * 8 + wire type.
namespace lockstep::record::protobuf {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename Unsigned> void put_little_endian(std::string& out, Unsigned value) {
  for (size_t byte = 0; byte < sizeof value; ++byte) out.push_back(static_cast<char>(value >> (8 * byte) & 0xff));
}

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(0x80 | (value & 0x7f)));
  out.push_back(static_cast<char>(value));
}

inline void put_key(std::string& out, uint32_t field, WireType type) { put_varint(out, field << 3 | type); }

/// A text or a message within a message.
inline void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// Left out at 0, the default of every integer, as protobuf's own serialisers do.
inline void put_integer(std::string& out, uint32_t field, int64_t value) {
  if (value == 0) return;
  put_key(out, field, kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}

}  // namespace lockstep::record::protobuf
