#pragma once
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace lockstep::tests {

/// As long as it lives the calling thread, and threads that it starts, may read what an ordinary user may: root
/// otherwise reads everything.
class UserRights {
 public:
  UserRights() {
    has_changed_ = ::syscall(SYS_capget, &header_, before_) == 0;
    if (!has_changed_) return;
    __user_cap_data_struct less[2] = {before_[0], before_[1]};
    less[0].effective &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
    has_changed_ = ::syscall(SYS_capset, &header_, less) == 0;
  }
  ~UserRights() {
    if (has_changed_) ::syscall(SYS_capset, &header_, before_);
  }
  UserRights(const UserRights&) = delete;
  UserRights& operator=(const UserRights&) = delete;

 private:
  __user_cap_header_struct header_{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct before_[2] = {};
  bool has_changed_ = false;
};

/// A file or folder that its owner may not read either, as long as this lives.
class Private {
 public:
  explicit Private(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::permissions(path_, std::filesystem::perms::none);
  }
  ~Private() { std::filesystem::permissions(path_, std::filesystem::perms::owner_all); }
  Private(const Private&) = delete;
  Private& operator=(const Private&) = delete;
  /// False where this user reads everything nevertheless.
  bool is_refused() const {
    const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) ::close(file);
    return file < 0;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::tests
