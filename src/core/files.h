#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace lockstep::core {

/// An open file descriptor, closed with the object.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Reading errors throw EnvironmentError with path, reason (strerror) and a hint. So do folders, pipes and devices,
/// which may never end.
std::string read_file(const std::filesystem::path& path);
/// The same of a file that the user named: it may be a pipe, as of `<(command)`, or a device.
std::string read_file_or_pipe(const std::filesystem::path& path);
/// Opens a regular file for reading; adds O_CLOEXEC.
Fd open_for_reading(const std::filesystem::path& path);
/// Fills `buffer` from `offset`; returns the bytes read, fewer only at the end of the file.
size_t read_at(const Fd& file, std::span<std::byte> buffer, uint64_t offset, const std::filesystem::path& path);
uint64_t file_bytes(const Fd& file, const std::filesystem::path& path);

/// A file under construction: written beside `path` under a temporary name; commit() fsyncs it, renames it over `path`
/// and fsyncs the folder, so that after a crash either the old or the new content is there. Without commit() the
/// temporary file is removed. A failing write (disk full among others) throws EnvironmentError.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  Fd file_;
};

/// Paths in a folder, sorted. Throws nothing: `failure` tells that the folder cannot be read, or not to its end.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& failure);

void write_file_atomic(const std::filesystem::path& path, std::string_view content);
void fsync_directory(const std::filesystem::path& directory);

/// Whole file mapped read-only and private; unmapped with the object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A fresh folder under the system's temporary folder, removed with the object.
class TempDir {
 public:
  explicit TempDir(std::string_view prefix = "lockstep");
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What std::filesystem threw, as the error that users see; with the hints of throw_errno.
EnvironmentError as_environment_error(const std::filesystem::filesystem_error& error);
/// EnvironmentError for a failed system call: "<what> '<path>': <strerror(errno)>" with a hint for the common causes.
[[noreturn]] void throw_errno(std::string_view what, const std::filesystem::path& path);

}  // namespace lockstep::core
