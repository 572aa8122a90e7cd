#include "record/append_queue.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/log.h"

namespace lockstep::record {
namespace {

bool lacks_line_end(const core::Fd& file, const std::filesystem::path& path) {
  const uint64_t size = core::file_bytes(file, path);
  if (size == 0) return false;
  char last = '\n';
  return ::pread(file.get(), &last, 1, static_cast<off_t>(size - 1)) == 1 && last != '\n';
}

}  // namespace

AppendQueue::AppendQueue(const Config& config) : config_(config), thread_([this] { run(); }) {}

AppendQueue::~AppendQueue() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

int AppendQueue::open_file(const std::filesystem::path& path, bool ends_cut_line) {
  core::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) core::throw_errno("record: cannot open", path);
  const bool is_cut = ends_cut_line && lacks_line_end(fd, path);
  int index = 0;
  {
    const std::scoped_lock lock(mutex_);
    index = static_cast<int>(files_.size());
    files_.push_back({path, std::move(fd)});
  }
  if (is_cut) append(index, "\n");
  return index;
}

void AppendQueue::append(int file, std::string bytes) {
  const std::scoped_lock lock(mutex_);
  LOCKSTEP_CHECK(file >= 0 && static_cast<size_t>(file) < files_.size(), "file={}", file);
  if (queued_bytes_ + bytes.size() > config_.max_queued_bytes) {
    ++health_.dropped;
    return;
  }
  queued_bytes_ += bytes.size();
  ++queued_;
  queue_.push_back({file, std::move(bytes)});
}

void AppendQueue::set_tick(std::function<void()> tick) {
  const std::scoped_lock lock(mutex_);
  tick_ = std::move(tick);
}

void AppendQueue::flush() {
  std::unique_lock lock(mutex_);
  const uint64_t target = queued_;
  is_flush_wanted_ = true;
  wake_.notify_all();
  done_.wait(lock, [&] { return written_ >= target; });
}

AppendQueue::Health AppendQueue::health() const {
  const std::scoped_lock lock(mutex_);
  return health_;
}

void AppendQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, config_.flush_every, [&] { return is_closing_ || is_flush_wanted_; });
    is_flush_wanted_ = false;
    const bool is_last = is_closing_;
    std::deque<Piece> pieces;
    pieces.swap(queue_);
    const std::function<void()> tick = tick_;
    lock.unlock();
    write_pieces(pieces);
    if (tick && !is_last) tick();
    lock.lock();
    for (const Piece& piece : pieces) queued_bytes_ -= piece.bytes.size();
    written_ += pieces.size();
    done_.notify_all();
    if (is_last && queue_.empty()) return;
  }
}

void AppendQueue::write_pieces(const std::deque<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const File* file = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      file = &files_[static_cast<size_t>(piece.file)];
    }
    if (!write_piece(*file, piece.bytes))
      count_drop(fmt::format("'{}': {}", file->path.string(), std::strerror(errno)));
  }
}

bool AppendQueue::write_piece(const File& file, const std::string& bytes) {
  struct stat before {};
  if (::fstat(file.fd.get(), &before) != 0) return false;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(file.fd.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int reason = written == 0 ? ENOSPC : errno;
      if (done > 0 && ::ftruncate(file.fd.get(), before.st_size) != 0)
        core::log_warning("record: cannot take back half a line of '{}'", file.path.string());
      errno = reason;
      return false;
    }
    done += static_cast<size_t>(written);
  }
  return true;
}

void AppendQueue::count_drop(const std::string& error) {
  bool is_first = false;
  {
    const std::scoped_lock lock(mutex_);
    is_first = health_.write_errors == 0;
    ++health_.dropped;
    ++health_.write_errors;
    health_.last_error = error;
  }
  if (is_first)
    core::log_warning("record: cannot write {}; the run goes on, what is lost is counted in status.json", error);
}

}  // namespace lockstep::record
