#include "data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "core/log.h"

namespace lockstep::data {

core::Fd open_folder_lock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  core::Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.valid()) core::throw_errno("cannot open", path);
  return file;
}

FolderLock::FolderLock(const std::filesystem::path& folder, OnLocked on_locked) : file_(open_folder_lock(folder)) {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  if (on_locked == OnLocked::kRefuse)
    throw EnvironmentError(fmt::format("data: another process writes in '{}'", folder.string()),
                           "wait until it ends, or name another folder");
  core::log_info("data: waiting for another process that writes in '{}'", folder.string());
  while (::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::data
