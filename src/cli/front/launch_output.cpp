#include "cli/front/launch_output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "core/strings.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;  // a rank that never ends its line must not fill the memory
constexpr std::string_view kEraseLine = "\033[K";

/// Errors are not for the ranks to suffer from: a closed terminal loses text, no more.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (count < 0 && errno == EAGAIN) {
      pollfd wait{fd, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (count == 0 || errno != EINTR) {
      return;
    }
  }
}

std::string_view after_carriage_return(std::string_view text) {
  const size_t at = text.rfind('\r');
  if (at != std::string_view::npos) text.remove_prefix(at + 1);
  if (core::starts_with(text, kEraseLine)) text.remove_prefix(kEraseLine.size());
  return text;
}

}  // namespace

void LineSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    pending_ += bytes.substr(0, end);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    emit(on_line);
  }
  if (pending_.size() > kMaxLineBytes) emit(on_line);
  const size_t start = follows_carriage_return_ ? pending_.rfind('\r') : std::string::npos;
  if (start != std::string::npos && start + 1 < pending_.size()) pending_.erase(0, start);
}

void LineSplitter::emit(const std::function<void(std::string_view)>& on_line) {
  std::string_view line = pending_;
  if (follows_carriage_return_) {
    if (core::ends_with(line, "\r")) line.remove_suffix(1);
    const bool overwrote = line.find('\r') != std::string_view::npos;
    line = after_carriage_return(line);
    if (!overwrote || !line.empty()) on_line(line);
  } else {
    on_line(line);
  }
  pending_.clear();
}

void LineSplitter::finish(const std::function<void(std::string_view)>& on_line) {
  if (!pending_.empty() && progress().empty()) emit(on_line);
  pending_.clear();
}

std::string_view LineSplitter::progress() const {
  if (!follows_carriage_return_ || pending_.find('\r') == std::string::npos) return {};
  return after_carriage_return(pending_);
}

SharedOutput::SharedOutput() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

SharedOutput::~SharedOutput() { clear(); }

void SharedOutput::clear() {
  if (is_shown_) write_all(STDERR_FILENO, "\r\033[K");
  is_shown_ = false;
}

void SharedOutput::show() {
  if (!is_terminal_ || progress_.empty()) return;
  winsize window{};
  const size_t columns =
      ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : 79u;
  write_all(STDERR_FILENO, "\r\033[K" + progress_.substr(0, columns));
  is_shown_ = true;
}

void SharedOutput::set_progress(std::string_view text) {
  if (text == progress_) return;
  progress_ = text;
  if (text.empty())
    clear();
  else
    show();
}

void SharedOutput::write_line(int fd, std::string_view prefix, std::string_view line) {
  std::string text;
  text.reserve(prefix.size() + line.size() + 1);
  text.append(prefix).append(line).push_back('\n');
  clear();
  write_all(fd, text);
  show();
}

}  // namespace lockstep::cli
