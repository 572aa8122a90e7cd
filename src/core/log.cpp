#include "core/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <mutex>

#include "core/files.h"

namespace lockstep::core {
namespace {

struct LogState {
  std::mutex mutex;
  LogConfig config;
  Fd file;
  bool progress_shown = false;
};

LogState& state() {
  static LogState instance;
  return instance;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kWarning: return "WARNING";
    case LogLevel::kError: return "ERROR";
  }
  return "?";
}

void write_once(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;  // a closed terminal or a full disk must not end the run
    text.remove_prefix(static_cast<size_t>(written));
  }
}

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d,%H:%M:%S", &local);
  return text;
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
  const std::scoped_lock lock(state().mutex);
  state().file = std::move(file);
}

void write_log(LogLevel level, std::string_view text) {
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  if (level < log.config.level) return;
  const std::string host = log.config.host.empty() ? "" : fmt::format(" | {}", log.config.host);
  const std::string line = fmt::format("{}{} | {} | {}\n", timestamp(), host, name_of(level), text);
  if (log.file.valid()) write_once(log.file.get(), line);
  if (log.config.to_stderr && (log.config.rank == 0 || level >= LogLevel::kWarning)) {
    clear_progress(log);
    write_once(STDERR_FILENO, line);
  }
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool colour_allowed() { return stderr_is_terminal() && std::getenv("NO_COLOR") == nullptr; }

void show_progress(std::string_view text) {
  if (!stderr_is_terminal()) return;
  winsize window{};
  const size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : 79u;
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  write_once(STDERR_FILENO, fmt::format("\r\033[K{}", text.substr(0, columns)));
  log.progress_shown = true;
}

void end_progress() {
  LogState& log = state();
  const std::scoped_lock lock(log.mutex);
  clear_progress(log);
}

}  // namespace lockstep::core
