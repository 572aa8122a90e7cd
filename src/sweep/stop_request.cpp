#include "sweep/stop_request.h"

#include <csignal>

namespace lockstep::sweep {
namespace {
volatile std::sig_atomic_t num_signals = 0;  // written by the handler, so it cannot be a member

void note_signal(int) { num_signals = num_signals + 1; }

void set_handler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // the state of the sweep may be on its way to the disk
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}
}  // namespace

StopRequest::StopRequest() {
  num_signals = 0;
  set_handler(note_signal);
}

StopRequest::~StopRequest() { set_handler(SIG_DFL); }

int StopRequest::count() const { return num_signals; }

}  // namespace lockstep::sweep
