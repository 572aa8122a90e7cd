#pragma once
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lockstep::fuzz {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A folder in memory for parsers that take paths; gone with the object. Each target keeps one and overwrites its
/// files: making and removing a folder costs more than most parsers do.
class MemoryFolder {
 public:
  MemoryFolder() {
    std::string name =
        (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/lockstep-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw EnvironmentError(fmt::format("fuzz: cannot make {}", name));
    path_ = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  fs::path write(const std::string& name, Bytes bytes) const {
    const fs::path file = path_ / name;
    if (name.find('/') != std::string::npos) fs::create_directories(file.parent_path());
    const int descriptor = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const bool is_written =
        descriptor >= 0 && ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    if (descriptor >= 0) close(descriptor);
    if (!is_written) throw EnvironmentError(fmt::format("fuzz: cannot write {}", file.string()));
    return file;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace lockstep::fuzz
