#include "train/stop_request.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/error.h"

namespace lockstep::train {
namespace {

enum class Answer : int { kLeave, kNote, kNoteAtEnd, kIgnore };

// Signals come to a process, not to an object of it: the one place where process-wide variables cannot be avoided.
std::atomic<Answer> answer{Answer::kLeave};
std::atomic<int> noted_request{0};
std::atomic<int> num_interrupts{0};
std::atomic<bool> is_told_to_end{false};
std::atomic<const char*> interrupt_text{nullptr};  // where this rank is the one that tells

void tell(const char* text) {
  if (interrupt_text.load() != nullptr) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void note(int signal) {
  if (signal == SIGINT && num_interrupts.fetch_add(1) > 0) {
    tell("\nlockstep: interrupted again: ending at once, nothing more is saved\n");
    ::_exit(130);
  }
  if (signal == SIGINT) tell(interrupt_text.load());
  const int request = static_cast<int>(signal == SIGUSR2 ? StopRequest::kSaveAndGoOn : StopRequest::kSaveAndStop);
  int seen = noted_request.load();
  while (seen < request && !noted_request.compare_exchange_weak(seen, request)) {
  }
}

void note_at_end(int signal) {
  if (signal == SIGINT && num_interrupts.fetch_add(1) > 0) ::_exit(130);
  if (signal != SIGUSR2) is_told_to_end = true;
}

sigset_t stop_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) ::sigaddset(&signals, signal);
  return signals;
}

/// Safe in a handler.
void take(int signal) {
  if (answer == Answer::kNote) note(signal);
  if (answer == Answer::kNoteAtEnd) note_at_end(signal);
  if (answer == Answer::kLeave && signal != SIGUSR2) ::_exit(static_cast<int>(ExitCode::kRequeue));
}

[[noreturn]] void take_signals() {
  const sigset_t signals = stop_signals();
  for (;;) {
    int signal = 0;
    if (::sigwait(&signals, &signal) == 0) take(signal);
  }
}

/// Blocks the signals in this thread and in those that it starts, and takes them in one of their own. A handler would
/// run on the stack of the thread that it interrupts, and oneDNN's fp32 products for processors without AVX-512 point
/// the stack at a buffer on the heap (avx_gemm_f32), below which a signal's frame overwrites what others hold. Only
/// threads that a preloaded library started before, which compute nothing, still see signals: for them is the handler.
void begin_to_take_signals() {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  struct sigaction action {};
  action.sa_handler = take;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) ::sigaction(signal, &action, nullptr);
  [[maybe_unused]] static const bool has_begun = [] {
    std::thread(take_signals).detach();
    return true;
  }();
}

}  // namespace

void leave_on_stop_signals() {
  answer = Answer::kLeave;
  begin_to_take_signals();
}

void note_stop_signals(bool tells, int num_ranks) {
  if (tells)
    interrupt_text = num_ranks == 1 ? "\nlockstep: saving after this step, then ending; interrupt again to end at once "
                                      "without saving\n"
                                    : "\nlockstep: saving when the ranks have agreed, two steps after this one, then "
                                      "ending; interrupt again to end at once without saving\n";
  answer = Answer::kNote;
}

StopRequest take_stop_request() { return static_cast<StopRequest>(noted_request.exchange(0)); }
void note_stop_signals_at_end() {
  num_interrupts = 0;
  is_told_to_end = false;
  answer = Answer::kNoteAtEnd;
}
bool was_told_to_end() { return is_told_to_end; }
void ignore_stop_signals() { answer = Answer::kIgnore; }

}  // namespace lockstep::train
