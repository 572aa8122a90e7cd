#include "core/bus_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "core/error.h"

namespace lockstep::core {
namespace {

// Signal handlers may allocate nothing and take no lock: only system calls and memory of their own.

void write_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Is a byte of a name a control character, or the second one of such a character in UTF-8?
bool steers_terminal(char before, char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F || (static_cast<unsigned char>(before) == 0xC2 && byte >= 0x80 && byte < 0xA0);
}

/// Does a line of /proc/self/maps ("begin-end rights offset device inode  path") tell of this address?
bool holds(std::string_view line, uintptr_t address) {
  uintptr_t begin = 0, end = 0;
  const char* const last = line.data() + line.size();
  const auto [at, failure] = std::from_chars(line.data(), last, begin, 16);
  if (failure != std::errc() || at == last || *at != '-') return false;
  return std::from_chars(at + 1, last, end, 16).ec == std::errc() && begin <= address && address < end;
}

void write_path_at(uintptr_t address) {
  std::array<char, 4600> line{};  // a path has at most 4096 bytes
  size_t size = 0;
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  for (char c = 0; maps >= 0 && ::read(maps, &c, 1) == 1;) {
    if (c != '\n') {
      const char before = size > 0 ? line[size - 1] : '\0';
      if (size < line.size()) line[size++] = steers_terminal(before, c) ? '?' : c;
      continue;
    }
    const std::string_view text(line.data(), size);
    size = 0;
    if (const size_t path = text.find('/'); path != std::string_view::npos && holds(text, address))
      return write_error(text.substr(path));
  }
  write_error("(unknown)");
}

void end_with_message(int, siginfo_t* info, void*) {
  write_error("lockstep: error: files: a mapped file has become shorter, or its storage fails: '");
  write_path_at(reinterpret_cast<uintptr_t>(info->si_addr));
  write_error("'\n  hint: leave files alone while a command reads them; copy it again and restart\n");
  ::_exit(static_cast<int>(ExitCode::kEnvironment));
}

}  // namespace

void report_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = end_with_message;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace lockstep::core
