#include "core/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "core/files.h"
#include "core/print.h"

namespace lockstep::core {
namespace {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d,%H:%M:%S", &local);
  return text;
}

}  // namespace

std::string log_line(std::string_view host, std::string_view level, std::string_view text) {
  const std::string place = host.empty() ? "" : fmt::format(" | {}", host);
  return fmt::format("{}{} | {} | {}\n", timestamp(), place, level, printable_line(text));
}

void append_error_to_log(const std::filesystem::path& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const std::string line = log_line("", "ERROR", text);
  if (file.valid() && ::write(file.get(), line.data(), line.size()) < 0) return;  // as promised
}

}  // namespace lockstep::core
