#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"

namespace lockstep::core {

/// One tensor of a safetensors file. `dtype` is the format's own name: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F8_E4M3
/// F8_E5M2.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  ///< Row-major, little endian. Reading: lives as long as the file object.
};

/// Bytes of one element of a safetensors dtype; nothing for a name the format does not know.
std::optional<size_t> safetensors_element_bytes(std::string_view dtype);

/// A safetensors file, mapped or in memory. The header is checked before anything is handed out: sizes within the file,
/// no overlap, no hole, no duplicate name, bytes = shape x element. A damaged file throws DataError with the path, the
/// tensor and both numbers.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// The file that has these bytes, which outlive the object.
  SafetensorsFile(const std::filesystem::path& path, std::span<const std::byte> bytes);
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< In file order.
  const SafetensorsEntry* find(std::string_view name) const;                 ///< nullptr when absent.
  const SafetensorsEntry& at(std::string_view name) const;  ///< DataError names the nearest tensor when absent.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int64_t num_bytes() const { return std::ssize(bytes_); }

 private:
  void parse_header();
  void check_layout();

  std::filesystem::path path_;
  std::unique_ptr<MappedFile> file_;  // where it is mapped
  std::span<const std::byte> bytes_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to be written whose bytes lie in several places, in this order.
struct ScatteredEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::span<const std::byte>> pieces{};
};

/// A file as it was written.
struct WrittenBytes {
  int64_t bytes = 0;
  std::string xxh3{};  ///< xxh3_hex of all of it.
};

/// Writes entries in the given order, 8-byte aligned header, as write_file_atomic does (temporary file, fsync, rename).
/// The hash is computed on the way: nothing is read again.
WrittenBytes write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                               const std::map<std::string, std::string>& metadata = {});
WrittenBytes write_safetensors(const std::filesystem::path& path, std::span<const ScatteredEntry> entries,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep::core
