#pragma once

namespace lockstep::train {

/// What was asked of this process, by a signal or by its clock; larger requests win, so ranks agree by their maximum.
enum class StopRequest : int {
  kNone = 0,
  kSaveAndGoOn = 1,    ///< SIGUSR2
  kSaveAndFinish = 2,  ///< --exit-duration-in-mins: save and end with exit code 0
  kSaveAndStop = 3,    ///< SIGTERM, SIGINT, SIGUSR1: save and end with exit code 75
};

/// From now on a thread of its own takes the signals above, which the calling thread and those that it starts no longer
/// see: call it before others exist. SIGTERM, SIGINT and SIGUSR1 end this process at once with exit code 75, since
/// nothing has begun that would have to be saved.
void leave_on_stop_signals();
/// From now on the signals are noted; a second SIGINT ends the process at once with exit code 130. `tells`: say on
/// standard error what an interrupt does, which with several ranks takes two steps more. After leave_on_stop_signals().
void note_stop_signals(bool tells, int num_ranks);
/// The largest request noted since the last call.
StopRequest take_stop_request();
/// Once the exit code is decided: signals no longer end the process, so that srun reports that code. They are noted,
/// for was_told_to_end(); the second SIGINT from here on still ends it at once with exit code 130.
void note_stop_signals_at_end();
/// Whether SIGTERM, SIGINT or SIGUSR1 has come since note_stop_signals_at_end(): what may be left undone is.
bool was_told_to_end();
/// Behind that: further signals are ignored.
void ignore_stop_signals();

}  // namespace lockstep::train
