#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/files.h"

namespace lockstep::core {

/// How a child process ended.
struct ExitStatus {
  int code = 0;    ///< Exit code when `signal` is 0.
  int signal = 0;  ///< Signal that ended it, or 0.

  bool ok() const { return code == 0 && signal == 0; }
  int shell_code() const { return signal != 0 ? 128 + signal : code; }  ///< As shells and srun report it.
  std::string text() const;                                             ///< "exit code 3", "signal 9 (Killed)"
};

struct ProcessOptions {
  enum class Stream {
    kInherit,
    kNull,
    kPipe,  ///< The parent reads it from Process::out or err.
    kPty,   ///< Like kPipe, but a terminal for the child, in raw mode and of the size of the parent's standard error.
  };

  std::vector<std::string> argv{};  ///< argv[0]: a path, or a name looked up in PATH.
  std::vector<std::pair<std::string, std::optional<std::string>>> env_changes{};  ///< Nothing: unset the variable.
  std::filesystem::path working_folder{};
  Stream in = Stream::kNull;  ///< kInherit or kNull.
  Stream out = Stream::kInherit;
  Stream err = Stream::kInherit;
  /// Its own process group: signals of the terminal do not reach it, kill_group() reaches its children.
  bool has_own_group = true;
  /// SIGKILL when the thread that spawned it ends; spawn from a thread that lives as long as the child.
  bool dies_with_parent = true;
};

/// A child process. Signal handlers and mask are reset in the child. The destructor kills the group and reaps.
class Process {
 public:
  /// EnvironmentError names the program and the reason (no such file, not executable, too many processes).
  static Process spawn(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  Fd& out() { return out_; }  ///< Read end; invalid unless piped.
  Fd& err() { return err_; }

  /// Status when it has ended, else nothing; never blocks. When it ends, what is left of its process group is killed.
  std::optional<ExitStatus> poll();
  ExitStatus wait();
  /// Nothing when it still runs after `timeout`.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds timeout);
  /// No effect once it has ended.
  void send_signal(int signal);
  void kill_group();

 private:
  Process() = default;

  pid_t pid_ = -1;
  bool has_own_group_ = false;
  std::optional<ExitStatus> status_;
  Fd out_, err_;
};

/// What a finished command left.
struct CommandResult {
  ExitStatus status{};
  bool is_timed_out = false;  ///< It was killed.
  std::string out{}, err{};
};

/// Runs a command to its end and collects both streams (which are piped whatever `options` says). Past `timeout` it is
/// killed with its group.
CommandResult run_command(ProcessOptions options, std::chrono::milliseconds timeout);

}  // namespace lockstep::core
