#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace lockstep::core {

/// A file as it was read once, from its begin to its end.
struct HashedFile {
  int64_t num_bytes = 0;
  std::string xxh3{};                      ///< xxh3_hex of all of it.
  std::unique_ptr<std::byte[]> content{};  ///< Empty unless it was to be kept.

  std::span<const std::byte> bytes() const { return {content.get(), static_cast<size_t>(num_bytes)}; }
};

enum class FileContent { kDropped, kKept };

/// Reads a file, and hashes each piece in another thread while the next one is read. The content is also dropped where
/// there is no memory for it. Errors as those of read_at.
HashedFile hash_file(const std::filesystem::path& path, FileContent content = FileContent::kDropped);

}  // namespace lockstep::core
