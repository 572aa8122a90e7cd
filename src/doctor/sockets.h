#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/files.h"

namespace lockstep::doctor {

/// How far a TCP connection got.
enum class Reach {
  kOpen,
  kRefused,       ///< The host answers: nobody listens on the port.
  kNoAnswer,      ///< Nothing came back in time: a firewall, or a host that is down.
  kUnreachable,   ///< No way there.
  kUnresolvable,  ///< The name is not known.
};

struct Connection {
  Reach reach = Reach::kUnresolvable;
  core::Fd socket{};          ///< Valid when open; blocking.
  std::string reason{};       ///< In the system's words, when not open.
  std::string own_address{};  ///< When open: the address of this end.
  double connect_ms = 0;
};

/// Connects within `timeout`, to the first address of `host` that answers. Throws nothing.
Connection connect_to(const std::string& host, uint16_t port, std::chrono::milliseconds timeout);

/// Numerical addresses of a host name; empty when it cannot be resolved, `reason` then says why.
std::vector<std::string> resolve(const std::string& host, std::string& reason);

/// Numerical addresses of this machine's interfaces.
std::vector<std::string> own_addresses();

/// Whether one of these numerical addresses is this machine's.
bool are_own(const std::vector<std::string>& addresses);

/// The first address of an interface; "" where it has none.
std::string address_of_interface(const std::string& name);

struct Listener {
  core::Fd socket{};  ///< Invalid when it could not be opened.
  uint16_t port = 0;
  std::string reason{};
  bool is_in_use = false;
};
enum class Interfaces { kLoopback, kAll };
/// Port 0: any free one.
Listener listen_on(uint16_t port, Interfaces interfaces);
/// The next connection within `timeout`, or an invalid descriptor.
core::Fd accept_within(const core::Fd& listener, std::chrono::milliseconds timeout);

/// Messages of this many bytes and more are refused.
inline constexpr size_t kMaxMessageBytes = 16 << 20;

/// Sends and receives whole messages (4 bytes of length, big-endian, and a text); CommError when the other end is gone,
/// does not answer within `timeout`, or sends something else.
void send_message(const core::Fd& socket, const std::string& text, std::chrono::milliseconds timeout);
std::string receive_message(const core::Fd& socket, std::chrono::milliseconds timeout,
                            size_t max_bytes = kMaxMessageBytes);

}  // namespace lockstep::doctor
