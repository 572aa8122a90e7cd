#include "core/zip_records.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::core {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalHeader = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kLocalHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20,
                   kMaxCommentBytes = 0xffff, kIn64 = 0xffffffff;

/// The parts of an archive by their offsets; whatever lies outside of the file is refused.
class ZipFile {
 public:
  explicit ZipFile(const std::filesystem::path& path) : path_(path), file_(path), bytes_(file_.bytes()) {}

  uint64_t num_bytes() const { return bytes_.size(); }

  std::vector<ZipRecord> directory() const {
    const Directory where = find_directory();
    std::vector<ZipRecord> records;
    uint64_t at = where.offset;
    for (uint64_t i = 0; i < where.num_records; ++i) {
      if (number<uint32_t>(at) != kEntry) refuse("an entry of its directory does not begin as one");
      const uint64_t name_bytes = number<uint16_t>(at + 28), extra_bytes = number<uint16_t>(at + 30),
                     comment_bytes = number<uint16_t>(at + 32);
      const Bytes name = part(at + kEntryBytes, name_bytes);
      ZipRecord record{.name = std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                       .bytes = number<uint32_t>(at + 24),
                       .header_offset = number<uint32_t>(at + 42),
                       .crc32 = number<uint32_t>(at + 16),
                       .is_stored = number<uint16_t>(at + 10) == 0};
      take_long_numbers(part(at + kEntryBytes + name_bytes, extra_bytes), number<uint32_t>(at + 20) == kIn64, record);
      records.push_back(std::move(record));
      at += kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    }
    return records;
  }

  /// Of a stored record.
  Bytes content(const ZipRecord& record) const {
    const uint64_t at = record.header_offset;
    if (number<uint32_t>(at) != kLocalHeader) refuse(fmt::format("record '{}' is not where it should be", record.name));
    return part(at + kLocalHeaderBytes + number<uint16_t>(at + 26) + number<uint16_t>(at + 28), record.bytes);
  }

 private:
  struct Directory {
    uint64_t offset = 0, num_records = 0;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(fmt::format("zip: '{}' is no whole zip archive: {}", path_.string(), what),
                    "copy or download the file again");
  }

  Bytes part(uint64_t offset, uint64_t count) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset)
      refuse(fmt::format("it ends at byte {}, bytes {} to {} belong to it", bytes_.size(), offset, offset + count));
    return bytes_.subspan(offset, count);
  }

  /// Little-endian.
  template <typename T> T number(uint64_t offset) const {
    T value{};
    std::memcpy(&value, part(offset, sizeof value).data(), sizeof value);
    return value;
  }

  Directory find_directory() const {
    if (bytes_.size() < kEndBytes) refuse("it is too short");
    const uint64_t last = bytes_.size() - kEndBytes, first = last - std::min(last, kMaxCommentBytes);
    uint64_t end = last;
    while (number<uint32_t>(end) != kEnd)
      if (end-- == first) refuse("it has no directory at its end");
    const bool has_locator = end >= kLocator64Bytes && number<uint32_t>(end - kLocator64Bytes) == kLocator64;
    if (!has_locator) return {.offset = number<uint32_t>(end + 16), .num_records = number<uint16_t>(end + 10)};
    const auto long_end = number<uint64_t>(end - kLocator64Bytes + 8);
    part(long_end, kEnd64Bytes);
    if (number<uint32_t>(long_end) != kEnd64) refuse("the end of its directory is not where it should be");
    return {.offset = number<uint64_t>(long_end + 48), .num_records = number<uint64_t>(long_end + 32)};
  }

  /// Numbers of 64 bits lie in an extra field, in the order bytes, compressed bytes, offset, where the short ones are
  /// full.
  void take_long_numbers(Bytes extra, bool has_compressed_bytes, ZipRecord& record) const {
    while (extra.size() >= 4) {
      uint16_t kind = 0, size = 0;
      std::memcpy(&kind, extra.data(), sizeof kind);
      std::memcpy(&size, extra.data() + 2, sizeof size);
      if (size > extra.size() - 4) refuse(fmt::format("the entry of record '{}' is cut off", record.name));
      Bytes field = extra.subspan(4, size);
      extra = extra.subspan(4 + size);
      if (kind != 1) continue;
      uint64_t skipped = 0;
      for (auto [is_long, target] :
           {std::pair(record.bytes == kIn64, &record.bytes), std::pair(has_compressed_bytes, &skipped),
            std::pair(record.header_offset == kIn64, &record.header_offset)}) {
        if (!is_long) continue;
        if (field.size() < sizeof *target) refuse(fmt::format("the entry of record '{}' is cut off", record.name));
        std::memcpy(target, field.data(), sizeof *target);
        field = field.subspan(sizeof *target);
      }
    }
  }

  std::filesystem::path path_;
  MappedFile file_;
  Bytes bytes_;
};

}  // namespace

std::vector<ZipRecord> read_zip_directory(const std::filesystem::path& path) { return ZipFile(path).directory(); }

uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

ZipCheck check_zip_records(const std::filesystem::path& path) {
  const ZipFile file(path);
  ZipCheck check;
  uint64_t num_left = file.num_bytes();
  for (const ZipRecord& record : file.directory()) {
    if (!record.is_stored || (record.crc32 == 0 && record.bytes > 0)) {
      ++check.num_without_checksum;
      continue;
    }
    ++check.num_checked;
    // A directory of 46 bytes a record may name the same gigabyte a million times.
    if (record.bytes > num_left)
      throw DataError(fmt::format("zip: '{}' is no archive that can be checked: its records lie over one another, "
                                  "'{}' of bytes={} among them; the file has {}",
                                  path.string(), record.name, record.bytes, file.num_bytes()),
                      "no program that writes weights does this: take the file from its source again");
    num_left -= record.bytes;
    const uint32_t found = crc32_of(file.content(record));
    if (found != record.crc32)
      check.problems.push_back(
          fmt::format("record '{}' is damaged: CRC-32 {:08x}, expected {:08x}", record.name, found, record.crc32));
  }
  return check;
}

}  // namespace lockstep::core
