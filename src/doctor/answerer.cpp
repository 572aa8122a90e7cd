#include "doctor/answerer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/strings.h"
#include "doctor/channel.h"

namespace lockstep::doctor {
namespace {

using core::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kGlance{50}, kSendFor{2000}, kFirstByteTimeout{5000}, kAnswerTimeout{5000};
constexpr size_t kMostTalks = 16, kStreamPieceBytes = 256 << 10, kMostBytesOfAnAnswer = 100;

/// What recv gave within a glance: bytes, 0 at the end, nothing where none came.
std::optional<size_t> take_piece(const core::Fd& socket, std::vector<char>& piece) {
  pollfd poll{socket.get(), POLLIN, 0};
  if (::poll(&poll, 1, static_cast<int>(kGlance.count())) <= 0) return std::nullopt;
  const ssize_t got = ::recv(socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  return static_cast<size_t>(std::max<ssize_t>(got, 0));
}

/// "BYTES MICROSECONDS", counted for kSendFor at most; "" of an end that closes without sending anything.
std::string take_stream(const core::Fd& guest, const std::atomic<bool>& is_over) {
  std::vector<char> piece(kStreamPieceBytes);
  auto begin = Clock::now(), deadline = begin + kFirstByteTimeout;
  size_t total = 0, uncounted = 0;
  while (!is_over && Clock::now() < deadline) {
    const auto got = take_piece(guest, piece);
    if (!got) continue;
    if (*got == 0) break;
    if (total == 0) begin = Clock::now(), deadline = begin + kSendFor;
    total += *got;
    if (uncounted == 0 && total >= kWarmUpBytes) uncounted = total, begin = Clock::now();
  }
  if (total == 0) return "";
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  return fmt::format("{} {}", total - uncounted, std::max<int64_t>(taken.count(), 1));
}

/// Until the other end has read its answer: closing before would take it away from it.
void wait_for_end(const core::Fd& guest, const std::atomic<bool>& is_over) {
  std::vector<char> piece(kStreamPieceBytes);
  for (const auto deadline = Clock::now() + kAnswerTimeout; !is_over && Clock::now() < deadline;)
    if (take_piece(guest, piece) == size_t{0}) return;
}

}  // namespace

Answerer::Answerer(Interfaces interfaces) : listener_(listen_on(0, interfaces)), thread_([this] { run(); }) {}

Answerer::~Answerer() {
  is_over_ = true;
  thread_.join();
}

void Answerer::answer(const core::Fd& guest) const {
  try {
    send_message(guest, kGreeting, kGlance);
    const std::string rate = take_stream(guest, is_over_);
    if (rate.empty()) return;
    send_message(guest, rate, kAnswerTimeout);
    wait_for_end(guest, is_over_);
  } catch (const CommError&) {
    // The other node tells that it was not answered.
  }
}

void Answerer::run() {
  std::vector<std::future<void>> talks;
  while (!is_over_ && listener_.socket.valid()) {
    core::Fd guest = accept_within(listener_.socket, kGlance);
    std::erase_if(talks, [](const auto& talk) { return talk.wait_for(milliseconds(0)) == std::future_status::ready; });
    if (!guest.valid() || talks.size() >= kMostTalks) continue;
    try {
      talks.push_back(std::async(
          std::launch::async, [this](const core::Fd& socket) { answer(socket); }, std::move(guest)));
    } catch (const std::system_error&) {  // no more threads here: the other node tells that it was not answered
    }
  }
}

double measure_stream(const core::Fd& socket) {
  const std::vector<char> piece(kStreamPieceBytes, 'x');
  const auto deadline = Clock::now() + kSendFor;
  for (size_t left = kStreamBytes; left > 0 && Clock::now() < deadline;) {
    pollfd poll{socket.get(), POLLOUT | POLLIN, 0};
    if (::poll(&poll, 1, static_cast<int>(kGlance.count())) <= 0) continue;
    if ((poll.revents & ~POLLOUT) != 0) break;  // it has counted enough, or is gone
    const ssize_t sent = ::send(socket.get(), piece.data(), std::min(left, piece.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) break;
    left -= static_cast<size_t>(std::max<ssize_t>(sent, 0));
  }
  ::shutdown(socket.get(), SHUT_WR);
  const std::string told = receive_message(socket, kAnswerTimeout, kMostBytesOfAnAnswer);
  const auto words = core::split(told, " ");
  const auto bytes = core::parse_int(words[0]), microseconds = core::parse_int(words.back());
  if (words.size() != 2 || !bytes || !microseconds || *bytes < 0 || *microseconds < 1)
    throw CommError("doctor: another program answers there");
  return static_cast<double>(*bytes) / static_cast<double>(*microseconds) / 1e3;
}

}  // namespace lockstep::doctor
