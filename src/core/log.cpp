#include "core/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/files.h"
#include "core/log_file.h"
#include "core/print.h"

namespace lockstep::core {
namespace {

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kWarning: return "WARNING";
    case LogLevel::kError: return "ERROR";
  }
  return "?";
}

/// Writes whole or gives up.
void write_once(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;  // a closed terminal or a full disk must not end the run
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Writes the log file from a thread of its own: a stalled file system must not hold up whoever logs. What does not fit
/// into the queue then is lost, and counted in the log itself.
class LogWriter {
 public:
  explicit LogWriter(Fd file) : shared_(std::make_shared<Shared>()) {
    shared_->file = std::move(file);
    thread_ = std::thread([shared = shared_] { run(*shared); });
  }
  /// Waits for the queue, but not for ever: a thread that hangs in a write is left behind.
  ~LogWriter() {
    std::unique_lock lock(shared_->mutex);
    shared_->is_closing = true;
    shared_->changed.notify_all();
    const bool is_done = shared_->changed.wait_for(lock, kPatience, [&] { return shared_->is_done; });
    lock.unlock();
    if (is_done)
      thread_.join();
    else
      thread_.detach();
  }
  void append(std::string line) {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->queued_bytes + line.size() > kMaxQueuedBytes) {
      ++shared_->num_lost;
      return;
    }
    if (shared_->num_lost > 0) line.insert(0, lost_text(std::exchange(shared_->num_lost, 0)));
    shared_->queued_bytes += line.size();
    shared_->lines.push_back(std::move(line));
    shared_->changed.notify_all();
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> lines;
    size_t queued_bytes = 0;
    int64_t num_lost = 0;  // since the last line that was taken
    bool is_closing = false, is_done = false;
    Fd file;
  };
  static constexpr size_t kMaxQueuedBytes = size_t{8} << 20;
  static constexpr std::chrono::seconds kPatience{5};

  static std::string lost_text(int64_t num_lost) {
    return fmt::format("({} lines are missing here: the file system did not take them in time)\n", num_lost);
  }

  static void run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.changed.wait(lock, [&] { return shared.is_closing || !shared.lines.empty(); });
      if (shared.lines.empty()) break;
      const std::string line = std::move(shared.lines.front());
      shared.lines.pop_front();
      lock.unlock();
      write_once(shared.file.get(), line);
      lock.lock();
      shared.queued_bytes -= line.size();
    }
    if (shared.num_lost > 0) write_once(shared.file.get(), lost_text(shared.num_lost));
    shared.is_done = true;
    shared.changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

struct LogState {
  std::mutex mutex;
  LogConfig config;
  std::unique_ptr<LogWriter> writer;
  bool progress_shown = false;
};

LogState& state() {
  static LogState instance;
  return instance;
}

void clear_progress(LogState& log) {
  if (log.progress_shown) write_once(STDERR_FILENO, "\r\033[K");
  log.progress_shown = false;
}

}  // namespace

void configure_log(const LogConfig& config) {
  const std::scoped_lock lock(state().mutex);
  state().config = config;
}

void open_log_file(const std::string& path) {
  Fd file;
  if (!path.empty()) {
    file = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file.valid()) throw_errno("cannot open log", path);
  }
  auto writer = file.valid() ? std::make_unique<LogWriter>(std::move(file)) : nullptr;
  const std::scoped_lock lock(state().mutex);
  state().writer.swap(writer);
}

void write_log(LogLevel level, std::string_view text) {
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  if (level < log.config.level) return;
  const std::string line = log_line(log.config.host, name_of(level), text);
  if (log.writer) log.writer->append(line);
  if (log.config.to_stderr && (log.config.rank == 0 || level >= LogLevel::kWarning)) {
    clear_progress(log);
    write_once(STDERR_FILENO, line);
  }
}

std::string shortened(std::string text, size_t columns) {
  if (text.size() <= columns) return text;
  while (columns > 0 && (static_cast<unsigned char>(text[columns]) & 0xC0u) == 0x80) --columns;
  text.resize(columns);
  return text;
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

void show_progress(std::string_view text) {
  if (!stderr_is_terminal()) return;
  winsize window{};
  const size_t columns =
      ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : 79u;
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  write_once(STDERR_FILENO, fmt::format("\r\033[K{}", shortened(printable_line(text), columns)));
  log.progress_shown = true;
}

std::function<void(const std::string& text)> progress_teller() {
  using Clock = std::chrono::steady_clock;
  static constexpr auto kDistance = std::chrono::seconds(30);
  return [next = Clock::now() + kDistance](const std::string& text) mutable {
    show_progress(text);
    if (stderr_is_terminal() || Clock::now() < next) return;
    log_info("{}", text);
    next = Clock::now() + kDistance;
  };
}

void end_progress() {
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  clear_progress(log);
}

}  // namespace lockstep::core
