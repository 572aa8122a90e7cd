#pragma once
#include <string>

namespace lockstep::comm {

/// The address of this machine that other nodes can reach: that from which packets to `host` leave, else that of the
/// first interface that is up and not the loopback. None: EnvironmentError.
std::string address_towards(const std::string& host, int port);

/// Whether `text` is an IPv4 address in numbers, and one of this machine.
bool is_own_address(const std::string& text);

}  // namespace lockstep::comm
