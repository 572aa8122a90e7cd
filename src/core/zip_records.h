#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::core {

/// One record of a zip archive, as the directory at its end tells of it (APPNOTE.TXT 6.3, 4.3.12, with zip64).
struct ZipRecord {
  std::string name;
  uint64_t bytes = 0;          ///< Uncompressed.
  uint64_t header_offset = 0;  ///< Of its local header.
  uint32_t crc32 = 0;          ///< 0 also where the writer computed none (torch.serialization.set_crc32_options).
  bool is_stored = true;       ///< Not compressed.
};

/// The records in the order of the directory. DataError where the file is no zip archive, or its directory is cut off
/// or points out of the file.
std::vector<ZipRecord> read_zip_directory(const std::filesystem::path& path);

/// The checksum of zip archives.
uint32_t crc32_of(std::span<const std::byte> bytes);

/// What a look at the bytes of all records finds.
struct ZipCheck {
  size_t num_checked = 0, num_without_checksum = 0;  ///< Compressed ones count as without.
  std::vector<std::string> problems{};               ///< One sentence for each record that is not what was written.
};
ZipCheck check_zip_records(const std::filesystem::path& path);

}  // namespace lockstep::core
