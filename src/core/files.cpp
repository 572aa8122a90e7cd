#include "core/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "core/error.h"
#include "core/host_name.h"

namespace lockstep::core {
namespace fs = std::filesystem;

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {
std::string hint_for(int code) {
  if (code == ENOENT) return "check the path; it must be visible on every node";
  if (code == EACCES || code == EPERM) return "check the permissions of the file and of the folders above it";
  if (code == EFBIG) return "files may not grow as large here: raise the limit (ulimit -f), or choose another folder";
  if (code == ENOSPC || code == EDQUOT) return "the disk or the quota is full: free space or choose another folder";
  return "";
}
}  // namespace

void throw_errno(std::string_view what, const fs::path& path) {
  const int code = errno;
  throw EnvironmentError(fmt::format("files: {} '{}': {}", what, path.string(), std::strerror(code)), hint_for(code));
}

EnvironmentError as_environment_error(const fs::filesystem_error& error) {
  return EnvironmentError(fmt::format("files: cannot use '{}': {}", error.path1().string(), error.code().message()),
                          hint_for(error.code().value()));
}

Fd open_for_reading(const fs::path& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a pipe without a writer would block
  if (!file.valid()) throw_errno("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_errno("cannot stat", path);
  if (!S_ISREG(info.st_mode))
    throw EnvironmentError(
        fmt::format("files: '{}' is no regular file, but a folder, a pipe or a device", path.string()), "name a file");
  return file;
}

size_t read_at(const Fd& file, std::span<std::byte> buffer, uint64_t offset, const fs::path& path) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got =
        ::pread(file.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

uint64_t file_bytes(const Fd& file, const fs::path& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw_errno("cannot stat", path);
  return static_cast<uint64_t>(info.st_size);
}

namespace {
std::string read_to_end(const Fd& file, const fs::path& path) {
  std::string content;
  char block[1 << 16];
  for (;;) {  // by blocks: files under /proc and pipes have no size
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", path);
    if (got == 0) return content;
    content.append(block, static_cast<size_t>(got));
  }
}
}  // namespace

std::string read_file(const fs::path& path) { return read_to_end(open_for_reading(path), path); }

std::string read_file_or_pipe(const fs::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) throw_errno("cannot open", path);
  return read_to_end(file, path);
}

std::vector<fs::path> list_folder(const fs::path& folder, std::error_code& failure) {
  std::vector<fs::path> paths;
  failure.clear();
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
    paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void fsync_directory(const fs::path& directory) {
  const Fd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) throw_errno("cannot open folder", directory);
  if (::fsync(folder.get()) != 0 && errno != EINVAL) throw_errno("cannot fsync folder", directory);
}

// The machine is in the name: another node of a shared file system may have the same process number. What follows is
// random, and the file is a new one (O_EXCL): where others may write, nobody can put a link in its place beforehand.
AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::random_device random;
  for (int tries = 0; !file_.valid(); ++tries) {
    temporary_ = path.string() + fmt::format(".tmp{}-{}-{:08x}", host_name(), ::getpid(), random());
    file_ = Fd(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!file_.valid() && (errno != EEXIST || tries == 10)) throw_errno("cannot create", temporary_);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("cannot write", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) throw_errno("cannot fsync", path_);
  if (::close(file_.release()) != 0) throw_errno("cannot close", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_errno("cannot rename to", path_);
  temporary_.clear();
  fsync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.commit();
}

MappedFile::MappedFile(const fs::path& path) {
  const Fd file = open_for_reading(path);
  size_ = file_bytes(file, path);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_errno("cannot map", path);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

TempDir::TempDir(std::string_view prefix) {
  std::error_code failure;
  const fs::path above = fs::temp_directory_path(failure);
  if (failure)
    throw EnvironmentError(
        fmt::format("files: there is no folder for temporary files: {}: {}",
                    std::getenv("TMPDIR") != nullptr ? fmt::format("TMPDIR='{}'", std::getenv("TMPDIR")) : "/tmp",
                    failure.message()),
        "set TMPDIR to a folder on this node that you can write to");
  std::string pattern = (above / fmt::format("{}.XXXXXX", prefix)).string();
  if (::mkdtemp(pattern.data()) == nullptr) throw_errno("cannot make a temporary folder", pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lockstep::core
