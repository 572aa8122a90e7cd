#include "doctor/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/clock.h"
#include "core/error.h"

namespace lockstep::doctor {
namespace {

using core::Clock;
using std::chrono::milliseconds;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

int ms_until(Clock::time_point deadline) {
  return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<milliseconds>(deadline - Clock::now()).count()));
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6))
      inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
    else
      inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

Addresses look_up(const std::string& host, uint16_t port, std::string& reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) reason = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
  return {code == 0 ? found : nullptr, freeaddrinfo};
}

void set_blocking(int fd, bool is_blocking) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, is_blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/// 0 when connected, else the system's error.
int connect_one(const core::Fd& socket, const addrinfo& target, Clock::time_point deadline) {
  set_blocking(socket.get(), false);
  if (::connect(socket.get(), target.ai_addr, target.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd poll{socket.get(), POLLOUT, 0};
    const int ready = ::poll(&poll, 1, ms_until(deadline));
    if (ready <= 0) return ready == 0 ? ETIMEDOUT : errno;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  set_blocking(socket.get(), true);
  return 0;
}

Reach reach_of(int error) {
  if (error == ECONNREFUSED) return Reach::kRefused;
  return error == ETIMEDOUT ? Reach::kNoAnswer : Reach::kUnreachable;
}

std::string own_address_of(const core::Fd& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0
             ? text_of(reinterpret_cast<const sockaddr*>(&own))
             : "";
}

void wait_for(const core::Fd& socket, short what, Clock::time_point deadline) {
  pollfd poll{socket.get(), what, 0};
  const int ready = ::poll(&poll, 1, ms_until(deadline));
  if (ready == 0) throw CommError("doctor: the other end did not answer in time");
  if (ready < 0 && errno != EINTR) throw CommError(fmt::format("doctor: poll: {}", std::strerror(errno)));
}

void send_all(const core::Fd& socket, const char* bytes, size_t count, Clock::time_point deadline) {
  while (count > 0) {
    wait_for(socket, POLLOUT, deadline);
    const ssize_t sent = ::send(socket.get(), bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) throw CommError(fmt::format("doctor: the other end is gone: {}", std::strerror(errno)));
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
}

void receive_all(const core::Fd& socket, char* bytes, size_t count, Clock::time_point deadline) {
  while (count > 0) {
    wait_for(socket, POLLIN, deadline);
    const ssize_t got = ::recv(socket.get(), bytes, count, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) throw CommError(fmt::format("doctor: the other end is gone: {}", std::strerror(errno)));
    if (got == 0) throw CommError("doctor: the other end has closed the connection");
    bytes += got;
    count -= static_cast<size_t>(got);
  }
}

}  // namespace

Connection connect_to(const std::string& host, uint16_t port, milliseconds timeout) {
  Connection result;
  const auto begin = Clock::now();
  const Addresses found = look_up(host, port, result.reason);
  for (const addrinfo* target = found.get(); target != nullptr; target = target->ai_next) {
    core::Fd socket(::socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int error = socket.valid() ? connect_one(socket, *target, begin + timeout) : errno;
    result.reach = error == 0 ? Reach::kOpen : reach_of(error);
    if (error != 0) {
      result.reason = std::strerror(error);
      continue;
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    result.own_address = own_address_of(socket);
    result.connect_ms = core::ms_since(begin);
    result.socket = std::move(socket);
    return result;
  }
  return result;
}

std::vector<std::string> resolve(const std::string& host, std::string& reason) {
  std::vector<std::string> addresses;
  const Addresses found = look_up(host, 0, reason);
  for (const addrinfo* target = found.get(); target != nullptr; target = target->ai_next)
    addresses.push_back(text_of(target->ai_addr));
  return addresses;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const ifaddrs* it = found; it != nullptr; it = it->ifa_next)
    if (it->ifa_addr != nullptr && (it->ifa_addr->sa_family == AF_INET || it->ifa_addr->sa_family == AF_INET6))
      addresses.push_back(text_of(it->ifa_addr));
  return addresses;
}

bool are_own(const std::vector<std::string>& addresses) {
  const auto own = own_addresses();
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const auto& address) { return std::find(own.begin(), own.end(), address) != own.end(); });
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, freeifaddrs);
  for (const ifaddrs* it = found; it != nullptr; it = it->ifa_next)
    if (it->ifa_addr != nullptr && it->ifa_addr->sa_family == AF_INET && name == it->ifa_name)
      return text_of(it->ifa_addr);
  return "";
}

Listener listen_on(uint16_t port, Interfaces interfaces) {
  Listener result;
  core::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(interfaces == Interfaces::kLoopback ? INADDR_LOOPBACK : INADDR_ANY);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (!socket.valid() || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    result.is_in_use = errno == EADDRINUSE;
    result.reason = std::strerror(errno);
    return result;
  }
  result.socket = std::move(socket);
  result.port = ntohs(address.sin_port);
  return result;
}

core::Fd accept_within(const core::Fd& listener, milliseconds timeout) {
  pollfd poll{listener.get(), POLLIN, 0};
  if (::poll(&poll, 1, static_cast<int>(timeout.count())) <= 0) return {};
  core::Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  if (socket.valid()) ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

void send_message(const core::Fd& socket, const std::string& text, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  LOCKSTEP_CHECK(text.size() < kMaxMessageBytes, "doctor: a message of {} bytes", text.size());
  send_all(socket, reinterpret_cast<const char*>(&size), sizeof size, deadline);
  send_all(socket, text.data(), text.size(), deadline);
}

std::string receive_message(const core::Fd& socket, milliseconds timeout, size_t max_bytes) {
  const auto deadline = Clock::now() + timeout;
  uint32_t size = 0;
  receive_all(socket, reinterpret_cast<char*>(&size), sizeof size, deadline);
  size = ntohl(size);
  if (size >= max_bytes)
    throw CommError(fmt::format("doctor: the other end is no lockstep doctor: it announces {} bytes", size));
  constexpr size_t kPieceBytes = 64 << 10;  // memory grows with what has come, not with what is announced
  std::string text;
  while (text.size() < size) {
    const size_t begin = text.size(), count = std::min(kPieceBytes, size - begin);
    text.resize(begin + count);
    receive_all(socket, text.data() + begin, count, deadline);
  }
  return text;
}

}  // namespace lockstep::doctor
