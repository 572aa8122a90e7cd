#include "train/stop_request.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include <atomic>

#include "core/error.h"

namespace lockstep::train {
namespace {

// A signal handler has no argument to carry state: the one place where a process-wide variable cannot be avoided.
std::atomic<int> noted_request{0};
std::atomic<int> num_interrupts{0};
std::atomic<const char*> interrupt_text{nullptr};  // where this rank is the one that tells
static_assert(std::atomic<int>::is_always_lock_free);

/// Safe in a signal handler.
void tell(const char* text) {
  if (interrupt_text.load() != nullptr) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void note_signal(int signal) {
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

void set_handler(void (*handler)(int), std::initializer_list<int> signals) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) ::sigaction(signal, &action, nullptr);
}

}  // namespace

void leave_on_stop_signals() {
  set_handler([](int) { ::_exit(static_cast<int>(ExitCode::kRequeue)); }, {SIGTERM, SIGINT, SIGUSR1});
}
void install_signal_handlers(bool tells, int num_ranks) {
  static_assert(std::atomic<const char*>::is_always_lock_free);
  if (tells)
    interrupt_text = num_ranks == 1 ? "\nlockstep: saving after this step, then ending; interrupt again to end at once "
                                      "without saving\n"
                                    : "\nlockstep: saving when the ranks have agreed, two steps after this one, then "
                                      "ending; interrupt again to end at once without saving\n";
  set_handler(note_signal, {SIGTERM, SIGINT, SIGUSR1, SIGUSR2});
}
StopRequest take_stop_request() { return static_cast<StopRequest>(noted_request.exchange(0)); }
void ignore_stop_signals() { set_handler(SIG_IGN, {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}); }

}  // namespace lockstep::train
