#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/shards/byte_stream.h"

namespace lockstep::data {

/// A member, or a file of a sample, beyond this is no picture, sound or text.
inline constexpr uint64_t kMaxMemberBytes = uint64_t{1} << 31;

/// One archive member. `header_offset` is the byte of its first header block (the long-name or pax block where it has
/// one): a reader opened there sees the same members from here on.
struct TarEntry {
  std::string name;
  char type = '0';  ///< '0' regular file; '1' hard link, '2' symbolic link, '5' folder, ...
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;
  uint64_t size = 0;  ///< Bytes of data; 0 for anything but regular files.
};

/// Streaming reader of POSIX tar: ustar (with prefix), pax (path, size), GNU long names, base-256 sizes, V7.
///
/// Nothing ends silently: a wrong checksum, a cut file, a missing end mark (two zero blocks), data behind the end mark,
/// sparse or multi-volume members throw DataError with shard and offset.
class TarReader {
 public:
  TarReader(std::unique_ptr<ByteStream> stream, std::string shard, uint64_t start_offset = 0);

  /// The next member, of any type, or nothing behind the end mark. Data of the member before that was not read is
  /// passed over.
  std::optional<TarEntry> next();
  /// The data of the member that next() returned last; once per member.
  std::string read_data();
  /// Behind the last member: the offset of the end mark.
  uint64_t end_offset() const { return end_offset_; }
  /// A pax global header set a path or size: such an archive cannot be entered in the middle.
  bool has_global_overrides() const { return has_global_overrides_; }

 private:
  struct Overrides {
    std::optional<std::string> path;
    std::optional<uint64_t> size;
  };
  bool read_block(std::byte* block);  ///< false at a clean end of the stream before the block
  size_t read_some(std::span<std::byte> buffer);
  size_t fill();
  void skip_data();
  void skip_bytes(uint64_t count);
  void read_end_mark();
  std::string read_extension(uint64_t size);
  void check_header(const std::byte* block, uint64_t at) const;
  bool take_extension(char type, uint64_t size, Overrides& overrides);
  TarEntry make_entry(std::string name, char type, uint64_t data_bytes);
  void apply_pax(std::string_view records, Overrides& overrides) const;
  [[noreturn]] void damaged(const std::string& what, uint64_t offset) const;
  [[noreturn]] void cut(uint64_t offset);

  std::unique_ptr<ByteStream> stream_;
  std::string shard_, last_name_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // unread part of buffer_
  uint64_t offset_;             // of the next unread byte
  uint64_t end_offset_ = 0;
  uint64_t pending_bytes_ = 0;  // data of the current member, not yet read
  uint64_t padding_bytes_ = 0;
  bool done_ = false;
  bool has_global_overrides_ = false;
  Overrides global_;
};

}  // namespace lockstep::data
