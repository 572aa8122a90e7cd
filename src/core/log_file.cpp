#include "core/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "core/files.h"
#include "core/local_time.h"
#include "core/print.h"

namespace lockstep::core {

std::string log_line(std::string_view host, std::string_view level, std::string_view text) {
  const std::string place = host.empty() ? "" : fmt::format(" | {}", host);
  return fmt::format("{}{} | {} | {}\n", local_time_text(std::time(nullptr), "%Y-%m-%d,%H:%M:%S"), place, level,
                     printable_line(text));
}

void append_error_to_log(const std::filesystem::path& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const std::string line = log_line("", "ERROR", text);
  if (file.valid() && ::write(file.get(), line.data(), line.size()) < 0) return;  // as promised
}

}  // namespace lockstep::core
