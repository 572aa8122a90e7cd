#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::tests {

/// All keys of a TCP store, as someone gets them who knows its port and LibTorch's protocol, and nothing else.
std::vector<std::string> keys_for_a_stranger(uint16_t port);

}  // namespace lockstep::tests
