#include "core/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "core/error.h"
#include "core/strings.h"

extern char** environ;

namespace lockstep::core {
namespace {

using Stream = ProcessOptions::Stream;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& program, const char* what, int reason) {
  std::string hint;
  if (reason == ENOENT) hint = "check the path, or PATH for a bare name";
  if (reason == EACCES) hint = "it must be a file with the permission to execute (chmod +x)";
  if (reason == ENOEXEC) hint = "it is no program of this machine; a script needs a first line such as #!/bin/sh";
  if (reason == EAGAIN || reason == ENOMEM) hint = "too many processes or too little memory; see ulimit -u";
  throw EnvironmentError(fmt::format("process: cannot {} '{}': {}", what, program, std::strerror(reason)), hint);
}

std::vector<std::string> merged_environment(const ProcessOptions& options) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : options.env_changes) {
    if (value)
      variables[name] = *value;
    else
      variables.erase(name);
  }
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  return environment;
}

/// The file that execvp would take; looked up here so that the child does nothing but system calls.
std::string find_program(const std::string& name) {
  if (name.empty()) fail(name, "start", ENOENT);
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ":")) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  fail(name, "start", ENOENT);
}

struct Channel {
  Fd parent, child;
};

Channel open_pty(const std::string& program) {
  Channel channel;
  channel.parent = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!channel.parent.valid() || ::grantpt(channel.parent.get()) != 0 || ::unlockpt(channel.parent.get()) != 0)
    fail(program, "open a terminal for", errno);
  char name[128];
  if (::ptsname_r(channel.parent.get(), name, sizeof name) != 0) fail(program, "open a terminal for", errno);
  channel.child = Fd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!channel.child.valid() || ::tcgetattr(channel.child.get(), &mode) != 0)
    fail(program, "open a terminal for", errno);
  ::cfmakeraw(&mode);
  ::tcsetattr(channel.child.get(), TCSANOW, &mode);
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) ::ioctl(channel.child.get(), TIOCSWINSZ, &size);
  return channel;
}

Channel open_channel(Stream stream, const std::string& program) {
  Channel channel;
  if (stream == Stream::kPty) return open_pty(program);
  if (stream == Stream::kPipe) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail(program, "open a pipe for", errno);
    channel.parent = Fd(ends[0]);
    channel.child = Fd(ends[1]);
  }
  if (stream == Stream::kNull) {
    channel.child = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!channel.child.valid()) fail(program, "open /dev/null for", errno);
  }
  return channel;
}

/// All that the child needs, prepared before fork: after it only async-signal-safe calls are allowed.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* folder;  // or nullptr
  int in, out, err;    // descriptors to put in place, or -1
  int failure;         // where errno goes when something fails
  pid_t parent;
  bool has_own_group, dies_with_parent;
};

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal)
    ::sigaction(signal, &action, nullptr);  // SIGKILL and SIGSTOP refuse, rightly
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool put_in_place(int from, int to) { return from < 0 || ::dup2(from, to) >= 0; }

[[noreturn]] void run_child(const ChildPlan& plan) {
  bool good = true;
  if (plan.has_own_group) good = ::setpgid(0, 0) == 0;
  if (good && plan.dies_with_parent) {
    good = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (::getppid() != plan.parent) ::_exit(127);  // the parent died before prctl
  }
  reset_signals();
  good = good && put_in_place(plan.in, STDIN_FILENO) && put_in_place(plan.out, STDOUT_FILENO) &&
         put_in_place(plan.err, STDERR_FILENO);
  good = good && (plan.folder == nullptr || ::chdir(plan.folder) == 0);
  if (good) ::execve(plan.program, plan.argv, plan.envp);
  const int reason = errno;
  (void)!::write(plan.failure, &reason, sizeof reason);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string ExitStatus::text() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

Process Process::spawn(const ProcessOptions& options) {
  LOCKSTEP_CHECK(!options.argv.empty(), "argv is empty");
  const std::string program = find_program(options.argv[0]);
  std::vector<std::string> arguments = options.argv, environment = merged_environment(options);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  Channel in = open_channel(options.in, program), out = open_channel(options.out, program),
          err = open_channel(options.err, program);
  int failure_ends[2];
  if (::pipe2(failure_ends, O_CLOEXEC) != 0) fail(program, "open a pipe for", errno);
  Fd failure_read(failure_ends[0]), failure_write(failure_ends[1]);
  const std::string folder = options.working_folder.string();
  const ChildPlan plan{.program = program.c_str(),
                       .argv = argv.data(),
                       .envp = envp.data(),
                       .folder = folder.empty() ? nullptr : folder.c_str(),
                       .in = in.child.get(),
                       .out = out.child.get(),
                       .err = err.child.get(),
                       .failure = failure_write.get(),
                       .parent = ::getpid(),
                       .has_own_group = options.has_own_group,
                       .dies_with_parent = options.dies_with_parent};
  const pid_t pid = ::fork();
  if (pid < 0) fail(program, "start", errno);
  if (pid == 0) run_child(plan);
  failure_write.reset();
  int reason = 0;
  ssize_t count = 0;
  do {
    count = ::read(failure_read.get(), &reason, sizeof reason);  // ends when exec succeeds: the pipe closes on exec
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof reason)) {
    ::waitpid(pid, nullptr, 0);
    fail(folder.empty() ? program : program + "' in '" + folder, "start", reason);
  }
  Process process;
  process.pid_ = pid;
  process.has_own_group_ = options.has_own_group;
  process.out_ = std::move(out.parent);
  process.err_ = std::move(err.parent);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), has_own_group_(other.has_own_group_), status_(other.status_),
      out_(std::move(other.out_)), err_(std::move(other.err_)) {}

Process::~Process() {
  if (pid_ < 0 || status_) return;
  kill_group();
  send_signal(SIGKILL);
  wait();
}

std::optional<ExitStatus> Process::poll() {
  if (status_ || pid_ < 0) return status_;
  siginfo_t info{};
  // WNOWAIT: while the leader is a zombie its id cannot be given away, so the group can be killed safely before it is
  // reaped.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  if (has_own_group_) ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = WIFSIGNALED(status) ? ExitStatus{.code = 0, .signal = WTERMSIG(status)}
                                : ExitStatus{.code = WEXITSTATUS(status), .signal = 0};
  return status_;
}

ExitStatus Process::wait() {
  if (!status_) {
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    poll();
  }
  LOCKSTEP_CHECK(status_.has_value(), "pid={}", pid_);
  return *status_;
}

std::optional<ExitStatus> Process::wait_for(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kStep{5};  // pidfd_open is missing on kernels before 5.3
  const auto deadline = Clock::now() + timeout;
  while (!poll() && Clock::now() < deadline) std::this_thread::sleep_for(kStep);
  return poll();
}

void Process::send_signal(int signal) {
  if (pid_ > 0 && !status_) ::kill(pid_, signal);
}

void Process::kill_group() {
  if (pid_ > 0 && !status_) ::kill(has_own_group_ ? -pid_ : pid_, SIGKILL);
}

CommandResult run_command(ProcessOptions options, std::chrono::milliseconds timeout) {
  options.out = options.err = Stream::kPipe;
  Process process = Process::spawn(options);
  CommandResult result;
  const auto deadline = Clock::now() + timeout;
  constexpr std::chrono::milliseconds kPollStep{20}, kDrain{500};
  std::optional<Clock::time_point> drained_by;  // a stray grandchild may hold the pipes for ever
  while (process.out().valid() || process.err().valid()) {
    std::array<pollfd, 2> fds{pollfd{process.out().get(), POLLIN, 0}, pollfd{process.err().get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), static_cast<int>(kPollStep.count()));
    for (size_t index = 0; index < fds.size(); ++index) {
      if (fds[index].fd < 0 || fds[index].revents == 0) continue;
      char buffer[65536];
      const ssize_t count = ::read(fds[index].fd, buffer, sizeof buffer);
      if (count > 0)
        (index == 0 ? result.out : result.err).append(buffer, static_cast<size_t>(count));
      else if (count == 0 || errno != EINTR)
        (index == 0 ? process.out() : process.err()).reset();
    }
    if (!drained_by && process.poll()) drained_by = Clock::now() + kDrain;
    if (drained_by && Clock::now() > *drained_by) break;
    if (!drained_by && Clock::now() > deadline) {
      result.is_timed_out = true;
      process.kill_group();
    }
  }
  while (!process.wait_for(std::max(std::chrono::milliseconds(0),
                                    std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now())))) {
    result.is_timed_out = true;
    process.kill_group();
    process.wait();
  }
  result.status = process.wait();
  return result;
}

}  // namespace lockstep::core
