#pragma once
#include <string>

namespace lockstep::comm {

/// The address of this machine that other nodes can reach: that from which packets to `host` leave, else that of the
/// first interface that is up and not the loopback. None: EnvironmentError.
std::string address_towards(const std::string& host, int port);

}  // namespace lockstep::comm
