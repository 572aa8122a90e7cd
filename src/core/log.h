#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::core {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Where and how log lines go. Lines go to standard error as "2026-01-31,12:00:00 | INFO | text" (OpenCLIP's form), in
/// one write(2) each so that ranks that share a terminal do not mix, and also to `file` where one is open.
struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  std::string host;       ///< Non-empty: "| host |" is put into each line (--log-local).
  bool to_stderr = true;  ///< Ranks other than 0 log warnings and errors only, whatever this says.
  int rank = 0;
};

/// The process's log; thread safe. The one mutable global of the program, since a log line may come from any place.
void configure_log(const LogConfig& config);
/// Lines are appended to this file from now on ("" closes). A file that cannot be opened throws EnvironmentError.
void open_log_file(const std::string& path);
void write_log(LogLevel level, std::string_view text);

/// A line that the next one overwrites (progress on a terminal); log lines clear it first. No-op when standard error is
/// no terminal.
void show_progress(std::string_view text);
void end_progress();
/// Tells how far long work has come: on a terminal as show_progress() at once, elsewhere as a line of the log twice a
/// minute.
std::function<void(const std::string& text)> progress_teller();
/// At most so many bytes of a UTF-8 text, up to a whole character.
std::string shortened(std::string text, size_t columns);
bool stderr_is_terminal();

template <typename... Args> void log_info(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args> void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  write_log(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep::core
