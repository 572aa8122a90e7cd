#include "data/shards/tar_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::data {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kReadBytes = size_t{1} << 20;    // large sequential reads: kind to parallel file systems
constexpr uint64_t kMaxExtensionBytes = 1 << 20;  // long names and pax records

// Offsets in a header block (POSIX.1-1988 ustar).
constexpr size_t kName = 0, kSize = 124, kChecksum = 148, kType = 156, kMagic = 257, kPrefix = 345;

std::string_view field(const std::byte* block, size_t at, size_t width) {
  const char* text = reinterpret_cast<const char*>(block) + at;
  return {text, strnlen(text, width)};
}

/// Octal text with blanks or NULs around it, or the base-256 form of GNU and star.
std::optional<uint64_t> parse_number(const std::byte* block, size_t at, size_t width) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(block) + at;
  uint64_t value = 0;
  if ((bytes[0] & 0x80) != 0) {
    if (bytes[0] != 0x80) return std::nullopt;  // negative, or far above 2^63
    for (size_t i = 1; i < width; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | bytes[i];
    }
    return value;
  }
  size_t i = 0;
  while (i < width && bytes[i] == ' ') ++i;
  for (; i < width && bytes[i] >= '0' && bytes[i] <= '7'; ++i) value = value << 3 | (bytes[i] - '0');
  for (; i < width; ++i)
    if (bytes[i] != ' ' && bytes[i] != 0) return std::nullopt;
  return value;
}

bool checksum_fits(const std::byte* block) {
  const auto stored = parse_number(block, kChecksum, 8);
  if (!stored) return false;
  int64_t sum = 0, signed_sum = 0;  // some old writers summed signed characters
  for (size_t i = 0; i < kBlock; ++i) {
    const auto byte =
        i >= kChecksum && i < kChecksum + 8 ? static_cast<unsigned char>(' ') : static_cast<unsigned char>(block[i]);
    sum += byte;
    signed_sum += static_cast<signed char>(byte);
  }
  return static_cast<int64_t>(*stored) == sum || static_cast<int64_t>(*stored) == signed_sum;
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string_view compression_of(const std::byte* block) {
  const auto* b = reinterpret_cast<const unsigned char*>(block);
  if (b[0] == 0x1f && b[1] == 0x8b) return "gzip";
  if (b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd) return "zstd";
  if (b[0] == 'B' && b[1] == 'Z' && b[2] == 'h') return "bzip2";
  if (b[0] == 0xfd && b[1] == '7' && b[2] == 'z') return "xz";
  return "";
}

std::string entry_name(const std::byte* block) {
  const std::string_view name = field(block, kName, 100);
  // Only POSIX ustar has the prefix; GNU uses the same bytes for times.
  if (std::memcmp(block + kMagic, "ustar\0", 6) != 0) return std::string(name);
  const std::string_view prefix = field(block, kPrefix, 155);
  return prefix.empty() ? std::string(name) : fmt::format("{}/{}", prefix, name);
}

}  // namespace

TarReader::TarReader(std::unique_ptr<ByteStream> stream, std::string shard, uint64_t start_offset)
    : stream_(std::move(stream)), shard_(std::move(shard)), offset_(start_offset) {
  const uint64_t total = stream_->size().value_or(UINT64_MAX);
  const uint64_t left = total > start_offset ? total - start_offset : 0;
  buffer_.resize(std::clamp<uint64_t>(left, kBlock, kReadBytes));
}

void TarReader::damaged(const std::string& what, uint64_t offset) const {
  throw DataError(fmt::format("data: shard '{}' is damaged at offset {}{}: {}", shard_, offset,
                              last_name_.empty() ? "" : fmt::format(" (at or after member '{}')", last_name_), what),
                  "copy the shard again, or run `lockstep data verify SHARDS` to list every damaged one");
}

void TarReader::cut(uint64_t offset) {
  stream_->finish();                                            // a command that failed explains it better
  offset = std::min(offset, stream_->size().value_or(offset));  // a reader may have been opened behind the end
  damaged("the file ends here, before its end mark: it was cut or is still being written", offset);
}

size_t TarReader::fill() {
  begin_ = end_ = 0;
  end_ = stream_->read(buffer_);
  return end_;
}

size_t TarReader::read_some(std::span<std::byte> buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    if (begin_ == end_) {
      const size_t left = buffer.size() - done;
      if (left >= kReadBytes) {  // large members go straight to their place
        const size_t got = stream_->read(buffer.subspan(done));
        if (got == 0) break;
        done += got;
        continue;
      }
      if (fill() == 0) break;
    }
    const size_t part = std::min(end_ - begin_, buffer.size() - done);
    std::memcpy(buffer.data() + done, buffer_.data() + begin_, part);
    begin_ += part;
    done += part;
  }
  offset_ += done;
  return done;
}

bool TarReader::read_block(std::byte* block) {
  const uint64_t at = offset_;
  const size_t got = read_some({block, kBlock});
  if (got == 0) return false;
  if (got < kBlock) cut(at + got);
  return true;
}

void TarReader::skip_bytes(uint64_t count) {
  const uint64_t buffered = std::min<uint64_t>(count, end_ - begin_);
  begin_ += buffered;
  offset_ += buffered;
  count -= buffered;
  if (count == 0) return;
  const auto total = stream_->size();
  if (total && offset_ + count > *total) cut(*total);
  if (total && count >= kReadBytes && stream_->skip(count)) {
    offset_ += count;
    return;
  }
  while (count > 0) {
    if (begin_ == end_ && fill() == 0) cut(offset_);
    const uint64_t part = std::min<uint64_t>(count, end_ - begin_);
    begin_ += part;
    offset_ += part;
    count -= part;
  }
}

void TarReader::skip_data() {
  const uint64_t count = pending_bytes_ + padding_bytes_;
  pending_bytes_ = padding_bytes_ = 0;
  skip_bytes(count);
}

std::string TarReader::read_data() {
  if (pending_bytes_ > kMaxMemberBytes)
    damaged(fmt::format("a member of {} bytes (at most {})", pending_bytes_, kMaxMemberBytes), offset_);
  std::string data;
  while (data.size() < pending_bytes_) {  // grown by parts: a lying size must not allocate gigabytes
    const size_t before = data.size();
    data.resize(before + std::min<uint64_t>(pending_bytes_ - before, std::max<size_t>(16 * kReadBytes, before)));
    const size_t wanted = data.size() - before;
    const size_t got = read_some(std::as_writable_bytes(std::span(data)).subspan(before));
    if (got < wanted) cut(offset_);
  }
  pending_bytes_ = 0;
  skip_data();
  return data;
}

std::string TarReader::read_extension(uint64_t size) {
  if (size > kMaxExtensionBytes)
    damaged(fmt::format("an extended header of {} bytes (at most {})", size, kMaxExtensionBytes), offset_);
  pending_bytes_ = size;
  padding_bytes_ = (kBlock - size % kBlock) % kBlock;
  return read_data();
}

void TarReader::apply_pax(std::string_view records, Overrides& overrides) const {
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    const auto length = blank == std::string_view::npos ? std::nullopt : core::parse_int(records.substr(0, blank));
    if (!length || *length <= static_cast<int64_t>(blank) + 1 || static_cast<uint64_t>(*length) > records.size() ||
        records[static_cast<size_t>(*length) - 1] != '\n')
      damaged("a malformed pax record", offset_);
    const std::string_view record = records.substr(blank + 1, static_cast<size_t>(*length) - blank - 2);
    records.remove_prefix(static_cast<size_t>(*length));
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) damaged("a pax record without '='", offset_);
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (core::starts_with(key, "GNU.sparse.")) damaged("a sparse member; write the archive without --sparse", offset_);
    if (key == "path") overrides.path = std::string(value);
    if (key == "size") {
      const auto size = core::parse_int(value);
      if (!size || *size < 0) damaged(fmt::format("pax size '{}'", value.substr(0, 40)), offset_);
      overrides.size = static_cast<uint64_t>(*size);
    }
  }
}

void TarReader::read_end_mark() {
  std::array<std::byte, kBlock> block{};
  const uint64_t second = offset_;
  if (!read_block(block.data())) cut(second);
  if (!is_zero(block)) damaged("a single zero block between members (the end mark is two)", second);
  for (;;) {  // tar pads to 10,240 bytes; anything but zeros is a second archive or garbage
    if (begin_ == end_ && fill() == 0) break;
    const std::span<const std::byte> rest(buffer_.data() + begin_, end_ - begin_);
    const auto data = std::find_if(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; });
    if (data != rest.end())
      damaged("data behind the end mark: archives that were joined with cat hide all but the first",
              offset_ + static_cast<uint64_t>(data - rest.begin()));
    offset_ += rest.size();
    begin_ = end_;
  }
  stream_->finish();
  done_ = true;
}

void TarReader::check_header(const std::byte* block, uint64_t at) const {
  if (checksum_fits(block)) return;
  const std::string_view compression = at == 0 ? compression_of(block) : "";
  if (!compression.empty())
    throw DataError(fmt::format("data: shard '{}' is compressed ({})", shard_, compression),
                    "unpack it, or read it through a command such as 'pipe:gzip -dc FILE'");
  if (at == 0 && (core::ends_with(shard_, ".csv") || core::ends_with(shard_, ".tsv")))
    throw DataError(fmt::format("data: '{}' is a table by its name, no shard", shard_),
                    "shards are .tar files; --dataset-type csv trains on tables");
  damaged(at == 0 ? "no tar header (wrong checksum)" : "wrong header checksum", at);
}

/// A header that describes the member behind it, or all later ones ('g'); false for any other header.
bool TarReader::take_extension(char type, uint64_t size, Overrides& overrides) {
  switch (type) {
    case 'L': overrides.path = read_extension(size).c_str(); return true;
    case 'K': read_extension(size); return true;
    case 'x':
    case 'X': apply_pax(read_extension(size), overrides); return true;
    case 'g':
      apply_pax(read_extension(size), global_);
      has_global_overrides_ = global_.path || global_.size;
      if (!overrides.path) overrides.path = global_.path;
      if (!overrides.size) overrides.size = global_.size;
      return true;
    default: return false;
  }
}

std::optional<TarEntry> TarReader::next() {
  if (done_) return std::nullopt;
  skip_data();
  uint64_t begin = offset_;
  Overrides overrides = global_;
  for (bool has_extension = false;;) {
    std::array<std::byte, kBlock> block{};
    const uint64_t at = offset_;
    if (!read_block(block.data())) cut(at);
    if (is_zero(block)) {
      if (has_extension) damaged("an extended header without its member", at);
      end_offset_ = at;
      read_end_mark();
      return std::nullopt;
    }
    check_header(block.data(), at);
    const auto size = parse_number(block.data(), kSize, 12);
    if (!size) damaged("unreadable size in a header", at);
    const char type = static_cast<char>(block[kType]);
    if (type == 'S') damaged("a sparse member; write the archive without --sparse", at);
    if (type == 'M') damaged("a continued member of a multi-volume archive", at);
    if (!take_extension(type, *size, overrides)) {
      std::string name = overrides.path ? *overrides.path : entry_name(block.data());
      TarEntry entry = make_entry(std::move(name), type, overrides.size.value_or(*size));
      entry.header_offset = begin;
      return entry;
    }
    if (type != 'g') has_extension = true;
    if (!has_extension) begin = offset_;  // a reader opened at the member does not need the global header
  }
}

/// The member whose header was just read; its data comes next.
TarEntry TarReader::make_entry(std::string name, char type, uint64_t data_bytes) {
  TarEntry entry;
  entry.type = type == '\0' || type == '7' ? '0' : type;
  if (entry.type == '0' && core::ends_with(name, "/")) entry.type = '5';
  if (entry.type >= '1' && entry.type <= '6')
    data_bytes = 0;  // links, folders and devices have none, whatever their size says
  last_name_ = name;
  entry.name = std::move(name);
  entry.data_offset = offset_;
  entry.size = entry.type == '0' ? data_bytes : 0;
  pending_bytes_ = data_bytes;
  padding_bytes_ = (kBlock - data_bytes % kBlock) % kBlock;
  return entry;
}

}  // namespace lockstep::data
