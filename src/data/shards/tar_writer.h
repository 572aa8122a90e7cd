#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/files.h"

namespace lockstep::data {

/// Writes one POSIX ustar archive. The bytes depend on names and contents alone: mode 0644, owner 0, time 0.
/// The file appears under its name only with finish(); failing writes throw EnvironmentError.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& path);

  /// Adds a regular file. Names take up to 100 bytes, or 255 where a '/' splits them; DataError otherwise, and from 8
  /// GiB on.
  void add(std::string_view name, std::span<const std::byte> content);
  void add(std::string_view name, std::string_view content);

  /// Ends the archive with two zero blocks, fills it up to a multiple of 10,240 bytes, commits it and returns its size.
  /// Call once.
  uint64_t finish();

 private:
  void append(std::span<const std::byte> bytes);

  core::AtomicFile file_;
  std::string buffer_;
  uint64_t num_bytes_ = 0;
};

}  // namespace lockstep::data
