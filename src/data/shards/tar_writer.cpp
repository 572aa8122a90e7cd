#include "data/shards/tar_writer.h"

#include <array>
#include <cstring>

#include "core/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kBlockBytes = 512, kRecordBytes = 10240, kBufferBytes = size_t{1} << 20;
constexpr uint64_t kMaxContentBytes = uint64_t{1} << 33;  // 11 octal digits

struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link_name[100], magic[6], version[2],
      user[32], group[32], device_major[8], device_minor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlockBytes);

/// Octal digits and a closing zero byte fill the field.
template <size_t N> void put_octal(char (&field)[N], uint64_t value) {
  for (size_t i = N - 1; i-- > 0; value /= 8) field[i] = static_cast<char>('0' + value % 8);
  field[N - 1] = '\0';
}

void put_name(std::string_view name, Header& header) {
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    throw DataError(
        fmt::format("data: '{}' cannot be a name in a tar archive, expected 1 to 255 bytes without zero bytes", name));
  }
  if (name.size() > sizeof header.name) {
    // The last '/' that leaves a short enough prefix; the rest must fit into the name field.
    const size_t slash = name.substr(0, sizeof header.prefix + 1).rfind('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == name.size() ||
        name.size() - slash - 1 > sizeof header.name) {
      throw DataError(fmt::format("data: the name '{}' of {} bytes does not fit into a tar header, expected at most "
                                  "100, or 255 with '/' in "
                                  "the right place",
                                  name, name.size()),
                      "shorten the name");
    }
    std::memcpy(header.prefix, name.data(), slash);
    name.remove_prefix(slash + 1);
  }
  std::memcpy(header.name, name.data(), name.size());
}

Header make_header(std::string_view name, uint64_t num_bytes) {
  if (num_bytes >= kMaxContentBytes) {
    throw DataError(fmt::format("data: '{}' has {} bytes, expected less than {} for a tar archive", name, num_bytes,
                                kMaxContentBytes));
  }
  Header header{};
  put_name(name, header);
  put_octal(header.mode, 0644);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, num_bytes);
  put_octal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  put_octal(header.device_major, 0);
  put_octal(header.device_minor, 0);
  std::memset(header.checksum, ' ', sizeof header.checksum);  // counts as spaces in its own sum
  std::array<unsigned char, kBlockBytes> bytes;
  std::memcpy(bytes.data(), &header, kBlockBytes);
  uint64_t sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  for (size_t i = 6; i-- > 0; sum /= 8) header.checksum[i] = static_cast<char>('0' + sum % 8);
  header.checksum[6] = '\0';
  return header;
}

}  // namespace

TarWriter::TarWriter(const std::filesystem::path& path) : file_(path) { buffer_.reserve(kBufferBytes); }

void TarWriter::append(std::span<const std::byte> bytes) {
  num_bytes_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    file_.write(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }
  if (bytes.size() >= kBufferBytes)
    file_.write(bytes);
  else
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void TarWriter::add(std::string_view name, std::span<const std::byte> content) {
  const Header header = make_header(name, content.size());
  append(std::as_bytes(std::span(&header, 1)));
  append(content);
  const std::array<std::byte, kBlockBytes> zeros{};
  append(std::span(zeros).first((kBlockBytes - content.size() % kBlockBytes) % kBlockBytes));
}

void TarWriter::add(std::string_view name, std::string_view content) { add(name, std::as_bytes(std::span(content))); }

uint64_t TarWriter::finish() {
  const uint64_t end = num_bytes_ + 2 * kBlockBytes;
  const uint64_t padded = (end + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
  const std::string zeros(padded - num_bytes_, '\0');
  append(std::as_bytes(std::span(zeros)));
  file_.write(std::as_bytes(std::span(buffer_)));
  file_.commit();
  return num_bytes_;
}

}  // namespace lockstep::data
