#include "doctor/channel.h"

#include <fmt/format.h>

#include <utility>

#include "core/digest.h"
#include "core/error.h"
#include "core/strings.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {
namespace {

constexpr size_t kCodeBytes = 32;
constexpr size_t kMaxGreetingBytes = 100;

Channel::Side other(Channel::Side side) {
  return side == Channel::Side::kHost ? Channel::Side::kGuest : Channel::Side::kHost;
}

}  // namespace

Channel::Channel(core::Fd socket, Side side, const std::string& secret, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), side_(side) {
  const std::string own = fmt::format("{} {}", kGreeting, core::random_secret());
  send_message(socket_, own, timeout);
  const std::string theirs = receive_message(socket_, timeout, kMaxGreetingBytes);
  if (!core::starts_with(theirs, std::string(kGreeting) + " ") || theirs.size() != own.size())
    throw CommError("doctor: another program answers there, or another version of this one");
  if (!secret.empty())
    key_ = core::hmac_sha256(secret, side == Side::kHost ? own + "\n" + theirs : theirs + "\n" + own);
}

std::string Channel::code_of(Side side, int number, const std::string& text) const {
  return core::hmac_sha256(key_, fmt::format("{} {} {}", side == Side::kHost ? "host" : "guest", number, text));
}

void Channel::send(const std::string& text, std::chrono::milliseconds timeout) {
  const int number = num_sent_++;
  send_message(socket_, key_.empty() ? text : text + code_of(side_, number, text), timeout);
}

std::string Channel::receive(std::chrono::milliseconds timeout) {
  std::string text = receive_message(socket_, timeout);
  const int number = num_received_++;
  if (key_.empty()) return text;
  const std::string code = text.substr(text.size() - std::min(text.size(), kCodeBytes));
  text.resize(text.size() - code.size());
  if (!core::same_bytes(code, code_of(other(side_), number, text)))
    throw CommError("doctor: the other end does not know the job's secret",
                    "set LOCKSTEP_STORE_SECRET to the same word on all nodes");
  return text;
}

}  // namespace lockstep::doctor
