// Who listens on a TCP port: /proc/net/tcp gives the socket's inode, /proc/<pid>/fd the process that holds it.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "comm/store.h"
#include "core/strings.h"

#include <fmt/format.h>

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

/// Inode of the socket that listens on `port`, from one of the kernel's tables; columns: sl local remote st tx:rx tr:tm
/// retr uid timeout inode.
std::optional<std::string> listening_inode(const char* table, uint16_t port) {
  std::ifstream lines(table);
  std::string line;
  std::getline(lines, line);  // titles
  const std::string wanted = fmt::format(":{:04X}", port);
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    constexpr const char* kListen = "0A";
    if (state == kListen && core::ends_with(local, wanted)) return inode;
  }
  return std::nullopt;
}

bool holds_socket(const fs::path& process, const std::string& link) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (fs::read_symlink(it->path(), unreadable).string() == link) return true;
  }
  return false;
}

}  // namespace

std::string port_owner(uint16_t port) {
  auto inode = listening_inode("/proc/net/tcp", port);
  if (!inode) inode = listening_inode("/proc/net/tcp6", port);
  if (!inode) return "";
  const std::string link = fmt::format("socket:[{}]", *inode);
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string pid = it->path().filename().string();
    if (!core::parse_int(pid) || !holds_socket(it->path(), link)) continue;
    std::ifstream name_file(it->path() / "comm");
    std::string name;
    std::getline(name_file, name);
    return fmt::format("pid {} ({})", pid, name);
  }
  return "";
}

}  // namespace lockstep::comm
