#include "record/append_queue.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>

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
  queue_.push_back({.file = file, .bytes = std::move(bytes)});
}

void AppendQueue::set_tick(std::function<void()> tick) {
  const std::scoped_lock lock(mutex_);
  tick_ = std::move(tick);
}

void AppendQueue::flush() {
  std::unique_lock lock(mutex_);
  if (queue_.empty() && done_passes_ == begun_) return;
  const uint64_t target = begun_ + 1;  // one that is under way may not see what was queued last
  is_flush_wanted_ = true;
  wake_.notify_all();
  done_.wait(lock, [&] { return done_passes_ >= target; });
}

void AppendQueue::drop_unwritten() {
  flush();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return done_passes_ == begun_; });  // a pass under way has pieces in its hands
  health_.dropped += std::ssize(queue_) + std::ssize(in_hand_);
  queued_bytes_ = 0;
  queue_.clear();
  in_hand_.clear();
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
    ++begun_;
    try {
      pass(lock, is_last);
    } catch (const std::exception&) {  // no memory, or of the tick: the next pass goes on with what is in hand
      if (!lock.owns_lock()) lock.lock();
      ++health_.write_errors;
    }
    ++done_passes_;
    done_.notify_all();
    if (is_last) return;
  }
}

/// Writes what is queued, and queues again what could not be written, in order.
void AppendQueue::pass(std::unique_lock<std::mutex>& lock, bool is_last) {
  if (in_hand_.empty()) in_hand_.swap(queue_);
  const std::function<void()> tick = tick_;
  lock.unlock();
  write_pieces();
  lock.lock();
  std::erase_if(in_hand_, [](const Piece& piece) { return piece.is_written; });
  queue_.insert(queue_.begin(), std::make_move_iterator(in_hand_.begin()), std::make_move_iterator(in_hand_.end()));
  in_hand_.clear();
  queued_bytes_ = 0;
  for (const Piece& piece : queue_) queued_bytes_ += piece.bytes.size();
  if (!tick || is_last) return;
  lock.unlock();
  tick();
  lock.lock();
}

void AppendQueue::write_pieces() {
  std::set<int> failing;
  for (Piece& piece : in_hand_) {
    File* file = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      file = &files_[static_cast<size_t>(piece.file)];
    }
    if (piece.is_written || failing.contains(piece.file)) continue;
    piece.is_written = write_piece(*file, piece.bytes);
    if (!piece.is_written && failing.insert(piece.file).second)
      note_failure(fmt::format("'{}': {}", file->path.string(), std::strerror(errno)));
  }
}

bool AppendQueue::take_back(File& file) {
  if (!file.torn_at) return true;
  if (::ftruncate(file.fd.get(), static_cast<off_t>(*file.torn_at)) != 0) return false;
  file.torn_at.reset();
  return true;
}

bool AppendQueue::write_piece(File& file, const std::string& bytes) {
  if (!take_back(file)) return false;
  struct stat before {};
  if (::fstat(file.fd.get(), &before) != 0) return false;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(file.fd.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int reason = written == 0 ? ENOSPC : errno;
      if (done > 0) file.torn_at = static_cast<uint64_t>(before.st_size);
      take_back(file);  // else before the next attempt
      errno = reason;
      return false;
    }
    done += static_cast<size_t>(written);
  }
  return true;
}

void AppendQueue::note_failure(const std::string& error) {
  bool is_first = false;
  {
    const std::scoped_lock lock(mutex_);
    is_first = health_.write_errors == 0;
    ++health_.write_errors;
    health_.last_error = error;
  }
  if (is_first)
    core::log_warning(
        "record: cannot write {}; the run goes on and tries again, what is lost is counted in status.json", error);
}

}  // namespace lockstep::record
