#pragma once
#include <filesystem>

#include "core/files.h"

namespace lockstep::data {

/// What to do where another process holds the lock.
enum class OnLocked { kWait, kRefuse };

/// The lock file of `folder`, made where it is missing; EnvironmentError where the folder cannot be written to.
core::Fd open_folder_lock(const std::filesystem::path& folder);

/// Held by the one process that makes something in a folder (its file "lock"). Where the file system knows no locks
/// nobody waits, and several may make the same. With kRefuse EnvironmentError says who is expected to end.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& folder, OnLocked on_locked);

 private:
  core::Fd file_;
};

}  // namespace lockstep::data
