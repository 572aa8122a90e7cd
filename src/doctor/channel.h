#pragma once
#include <chrono>
#include <string>

#include "core/files.h"

namespace lockstep::doctor {

/// Messages between rank 0 and another rank of one job. Where the job has a secret each carries an HMAC-SHA256 code, of
/// a key that holds for this connection only, the side and the number of the message: a stranger is refused at the
/// first one, and nothing that was heard can be said again. Nothing is encrypted.
class Channel {
 public:
  enum class Side { kHost, kGuest };
  /// Greets, and waits for the greeting of the other end; CommError when another program answers.
  Channel(core::Fd socket, Side side, const std::string& secret, std::chrono::milliseconds timeout);

  /// As send_message and receive_message; CommError too where the code is wrong.
  void send(const std::string& text, std::chrono::milliseconds timeout);
  std::string receive(std::chrono::milliseconds timeout);

 private:
  std::string code_of(Side side, int number, const std::string& text) const;

  core::Fd socket_;
  Side side_;
  std::string key_;  // empty: without codes
  int num_sent_ = 0, num_received_ = 0;
};

/// What a doctor says first; behind it, in a meeting, a random word.
inline constexpr const char* kGreeting = "lockstep doctor 3";

}  // namespace lockstep::doctor
