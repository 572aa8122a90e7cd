#include "comm/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "core/error.h"

namespace lockstep::comm {
namespace {

std::optional<std::string> text_unless_loopback(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    constexpr uint32_t kLoopbackNet = 127;
    if ((ntohl(v4->sin_addr.s_addr) >> 24) == kLoopbackNet) return std::nullopt;
    return inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
    return inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return std::nullopt;
}

/// Connecting a datagram socket sends nothing; it makes the kernel choose the route and with it the source address.
std::optional<std::string> source_address(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool is_known = connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  close(fd);
  return is_known ? text_unless_loopback(reinterpret_cast<const sockaddr*>(&own)) : std::nullopt;
}

std::optional<std::string> by_route(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next)
    if (const auto address = source_address(*target)) return address;
  return std::nullopt;
}

std::optional<std::string> by_interface() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* it = found; it != nullptr; it = it->ifa_next) {
      if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != family || (it->ifa_flags & IFF_RUNNING) == 0) continue;
      if (const auto address = text_unless_loopback(it->ifa_addr)) return address;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string address_towards(const std::string& host, int port) {
  if (const auto address = by_route(host, port)) return *address;
  if (const auto address = by_interface()) return *address;
  throw EnvironmentError(
      fmt::format("comm: this machine has no address that other nodes can reach (asked for the way to {})", host),
      "name the network interface of the cluster in GLOO_SOCKET_IFNAME");
}

bool is_own_address(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) return false;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool is_own = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return is_own;
}

}  // namespace lockstep::comm
