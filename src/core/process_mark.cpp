#include "core/process_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

namespace lockstep::core {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "boot namespace": numbers of processes mean the same where both are the same.
std::string number_space() {
  std::array<char, 64> name{};
  const ssize_t size = ::readlink("/proc/self/ns/pid", name.data(), name.size() - 1);
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return size <= 0 || boot.empty() ? "" : fmt::format("{} {}", boot, name.data());
}

struct ProcessState {
  std::string letter;  ///< "Z" and "X": it has ended
  std::string start;   ///< In ticks since the boot.
};

std::optional<ProcessState> state_of(const std::string& pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = line.rfind(')');  // the name may have spaces and brackets
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(line.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  constexpr size_t kStart = 19;  // field 22 of proc(5); the first one here is its field 3
  if (fields.size() <= kStart) return std::nullopt;
  return ProcessState{.letter = fields[0], .start = fields[kStart]};
}

}  // namespace

std::string process_mark() {
  const std::string space = number_space();
  const auto state = state_of("self");
  return space.empty() || !state ? "" : fmt::format("{} {} {}", space, ::getpid(), state->start);
}

bool has_process_ended(const std::string& mark) {
  std::istringstream words(mark);
  std::string boot, name_space, pid, start;
  if (!(words >> boot >> name_space >> pid >> start) || fmt::format("{} {}", boot, name_space) != number_space())
    return false;
  const long number = std::strtol(pid.c_str(), nullptr, 10);
  if (number <= 0 || number > INT_MAX) return false;
  if (::kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH) return true;
  const auto state = state_of(std::to_string(number));
  return state && (state->letter == "Z" || state->letter == "X" || state->start != start);
}

}  // namespace lockstep::core
