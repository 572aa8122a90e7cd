#pragma once
#include <sndfile.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace lockstep::data {

struct SndFileCloser {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using SndFile = std::unique_ptr<SNDFILE, SndFileCloser>;

/// Foreign bytes for libsndfile to read. Must not move while a SndFile uses it.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  /// Null when libsndfile takes it for no sound; sf_strerror(nullptr) tells why.
  SndFile open(SF_INFO& info) {
    SF_VIRTUAL_IO callbacks{.get_filelen = length, .seek = seek, .read = read, .write = refuse_write, .tell = tell};
    return SndFile(sf_open_virtual(&callbacks, SFM_READ, &info, this));
  }
  size_t size() const { return bytes_.size(); }

 private:
  static MemoryFile& of(void* user) { return *static_cast<MemoryFile*>(user); }
  static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).bytes_.size()); }
  static sf_count_t tell(void* user) { return of(user).at_; }
  static sf_count_t refuse_write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t seek(sf_count_t offset, int whence, void* user) {
    MemoryFile& file = of(user);
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.at_ : length(user);
    if (offset < -base || offset > length(user) - base) return -1;
    return file.at_ = base + offset;
  }
  static sf_count_t read(void* out, sf_count_t count, void* user) {
    MemoryFile& file = of(user);
    const sf_count_t taken = std::clamp<sf_count_t>(count, 0, length(user) - file.at_);
    if (taken > 0) std::memcpy(out, file.bytes_.data() + file.at_, static_cast<size_t>(taken));
    file.at_ += taken;
    return taken;
  }

  std::span<const std::byte> bytes_;
  sf_count_t at_ = 0;
};

/// A file that libsndfile writes to memory.
class MemoryOutput {
 public:
  SndFile open(SF_INFO& info) {
    SF_VIRTUAL_IO callbacks{.get_filelen = length, .seek = seek, .read = read, .write = write, .tell = tell};
    return SndFile(sf_open_virtual(&callbacks, SFM_WRITE, &info, this));
  }
  std::string take() { return std::move(bytes_); }

 private:
  static MemoryOutput& of(void* user) { return *static_cast<MemoryOutput*>(user); }
  static sf_count_t length(void* user) { return static_cast<sf_count_t>(of(user).bytes_.size()); }
  static sf_count_t tell(void* user) { return static_cast<sf_count_t>(of(user).at_); }
  static sf_count_t seek(sf_count_t offset, int whence, void* user) {
    MemoryOutput& file = of(user);
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? tell(user) : length(user);
    if (base + offset < 0) return -1;
    file.at_ = static_cast<size_t>(base + offset);
    return tell(user);
  }
  static sf_count_t read(void* out, sf_count_t count, void* user) {
    MemoryOutput& file = of(user);
    const size_t begin = std::min(file.at_, file.bytes_.size());
    const size_t taken = std::min(static_cast<size_t>(count), file.bytes_.size() - begin);
    std::memcpy(out, file.bytes_.data() + begin, taken);
    file.at_ += taken;
    return static_cast<sf_count_t>(taken);
  }
  static sf_count_t write(const void* in, sf_count_t count, void* user) {
    MemoryOutput& file = of(user);
    const auto size = static_cast<size_t>(count);
    file.bytes_.resize(std::max(file.bytes_.size(), file.at_ + size));
    std::memcpy(file.bytes_.data() + file.at_, in, size);
    file.at_ += size;
    return count;
  }

  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace lockstep::data
