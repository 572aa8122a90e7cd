#include "support/ranks/store_stranger.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>

#include "core/files.h"

namespace lockstep::tests {
namespace {

uint64_t receive_number(const core::Fd& socket) {
  uint64_t number = 0;
  if (::recv(socket.get(), &number, sizeof number, MSG_WAITALL) != sizeof number)
    throw std::runtime_error("the store answers no list of keys");
  return number;
}

}  // namespace

std::vector<std::string> keys_for_a_stranger(uint16_t port) {
  const core::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0)
    throw std::runtime_error("the store takes no connection");
  constexpr uint8_t kValidate = 0, kListKeys = 17;  // of LibTorch 2.11's QueryType
  constexpr uint32_t kMagic = 0x3C85F7CE;
  std::string request(1, static_cast<char>(kValidate));
  request.append(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  request += static_cast<char>(kListKeys);
  ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::vector<std::string> keys(receive_number(socket));
  for (std::string& key : keys) {
    key.resize(receive_number(socket));
    if (::recv(socket.get(), key.data(), key.size(), MSG_WAITALL) != static_cast<ssize_t>(key.size()))
      throw std::runtime_error("the store's list of keys is cut");
  }
  return keys;
}

}  // namespace lockstep::tests
