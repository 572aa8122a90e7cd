#include "train/stop_request.h"

#include <csignal>
#include <unistd.h>

#include <atomic>

#include "core/error.h"

namespace lockstep::train {
namespace {

// A signal handler has no argument to carry state: the one place where a process-wide variable cannot be avoided.
std::atomic<int> noted_request{0};
std::atomic<int> num_interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int signal) {
  if (signal == SIGINT && num_interrupts.fetch_add(1) > 0) ::_exit(130);
  const int wish = static_cast<int>(signal == SIGUSR2 ? StopRequest::kSaveAndGoOn : StopRequest::kSaveAndStop);
  int seen = noted_request.load();
  while (seen < wish && !noted_request.compare_exchange_weak(seen, wish)) {
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
void install_signal_handlers() { set_handler(note_signal, {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}); }
StopRequest take_stop_request() { return static_cast<StopRequest>(noted_request.exchange(0)); }
void ignore_stop_signals() { set_handler(SIG_IGN, {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}); }

}  // namespace lockstep::train
