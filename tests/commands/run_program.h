#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace lockstep::tests {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when a signal ended it.
  bool timed_out = false;
  std::string out, err;
};

/// Variables to set, or with nullopt to remove, in the child's environment.
using EnvChanges = std::map<std::string, std::optional<std::string>>;

/// The program under test.
inline std::string lockstep_program() { return std::string(LOCKSTEP_BUILD_DIR) + "/lockstep"; }

namespace detail {
inline std::vector<std::string> changed_environment(const EnvChanges& changes) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!changes.contains(std::string(*variable, strchrnul(*variable, '=')))) variables.emplace_back(*variable);
  for (const auto& [name, value] : changes)
    if (value) variables.push_back(name + "=" + *value);
  return variables;
}

inline std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Appends what can be read now; false at the end of the stream.
inline bool drain(int fd, std::string& text) {
  char buffer[65536];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count > 0) text.append(buffer, static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}
}  // namespace detail

/// Ends a program that hangs; more than any takes on a slow machine that others use, too.
constexpr std::chrono::minutes kPatience{15};

/// Runs a program to its end and collects its output; its standard input is empty. At the timeout its process group is
/// killed and timed_out set.
inline ProgramResult run_program(std::vector<std::string> argv, const EnvChanges& changes = {},
                                 std::chrono::milliseconds timeout = kPatience) {
  int out_pipe[2], err_pipe[2];
  if (pipe2(out_pipe, O_CLOEXEC) != 0 || pipe2(err_pipe, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_pipe[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err_pipe[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  auto environment = detail::changed_environment(changes);
  auto argv_pointers = detail::pointers(argv), environment_pointers = detail::pointers(environment);
  pid_t child = 0;
  const int code =
      posix_spawn(&child, argv[0].c_str(), &actions, &attributes, argv_pointers.data(), environment_pointers.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(out_pipe[1]);
  close(err_pipe[1]);
  ProgramResult result;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  bool is_out_open = code == 0, is_err_open = code == 0;
  while (is_out_open || is_err_open) {
    const auto left_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left_ms <= 0) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      break;
    }
    pollfd fds[2] = {{is_out_open ? out_pipe[0] : -1, POLLIN, 0}, {is_err_open ? err_pipe[0] : -1, POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(left_ms)) <= 0) continue;
    if (fds[0].revents != 0) is_out_open = detail::drain(out_pipe[0], result.out);
    if (fds[1].revents != 0) is_err_open = detail::drain(err_pipe[0], result.err);
  }
  close(out_pipe[0]);
  close(err_pipe[0]);
  if (code != 0) throw std::runtime_error("cannot start " + argv[0] + ": " + std::strerror(code));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {  // it may live on with its outputs closed
    if (!result.timed_out && std::chrono::steady_clock::now() >= deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

/// Runs `lockstep` with these arguments.
inline ProgramResult run_lockstep(std::vector<std::string> args, const EnvChanges& changes = {},
                                  std::chrono::milliseconds timeout = kPatience) {
  args.insert(args.begin(), lockstep_program());
  return run_program(std::move(args), changes, timeout);
}

}  // namespace lockstep::tests
