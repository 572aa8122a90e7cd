#include "cli/front/launch_group.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <optional>

#include "checkpoint/manifest.h"
#include "cli/front/launch_output.h"
#include "config/run_options.h"
#include "core/error.h"
#include "core/files.h"
#include "core/host_name.h"
#include "core/json.h"
#include "core/log_file.h"
#include "core/print.h"
#include "core/strings.h"
#include "record/reader.h"
#include "record/run_record.h"

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;
using core::ExitStatus;

constexpr int kLostPeerCode = static_cast<int>(ExitCode::kCommunication);
constexpr int kRequeueCode = static_cast<int>(ExitCode::kRequeue);
constexpr size_t kTailLines = 60;
constexpr std::chrono::milliseconds kTellAfter{1000};  // a group that ends sooner tells it once, at its end

/// What an exit says about the group, the most telling first.
enum class Verdict { kCause, kLostPeer, kStopped, kGood };

struct Rank {
  int rank;
  core::Process process;
  std::filesystem::path error_file;
  LineSplitter out{false}, err{true};
  std::deque<std::string> tail{};  // last lines of standard error
  std::optional<ExitStatus> status{};
  int exit_order = 0;
  Verdict verdict = Verdict::kGood;
  bool was_killed = false;   // by launch
  std::string accusation{};  // of a rank that answers nobody and did not end by itself: why it failed the others

  bool is_silent() const { return verdict != Verdict::kCause && !accusation.empty(); }
};

/// Stopped by a signal or a debugger. Linux: proc(5), the field behind the name in parentheses.
bool is_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'T' || state == 't';
}

/// Signals of this thread as a descriptor; the mask of before comes back with the object's end.
class SignalReader {
 public:
  SignalReader() {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) ::sigaddset(&wanted, signal);
    ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
    fd_ = core::Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    LOCKSTEP_CHECK(fd_.valid(), "signalfd: {}", std::strerror(errno));
  }
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;
  ~SignalReader() {
    while (next() != 0) {  // a signal left pending would strike when the mask comes back
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_.get(); }
  /// Next pending signal, 0 for none.
  int next() {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo)
                                                                                      : 0;
  }

 private:
  sigset_t before_{};
  core::Fd fd_;
};

const char* meaning_of(const ExitStatus& status) {
  if (status.signal == SIGKILL) return ", perhaps by the system for want of memory";
  if (status.signal != 0) return "";
  switch (static_cast<ExitCode>(status.code)) {
    case ExitCode::kInternal: return ", internal error";
    case ExitCode::kUsage: return ", usage error";
    case ExitCode::kCommunication: return ", communication error";
    case ExitCode::kData: return ", data error";
    case ExitCode::kCheckpoint: return ", checkpoint error";
    case ExitCode::kEnvironment: return ", environment error";
    default: return "";
  }
}

/// "rank 3", "ranks 1, 4"
std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// Message that the rank left as JSON, in torchrun's form.
std::string message_of_file(const std::filesystem::path& path) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::exists(path, failure)) return "";
  try {
    const core::Json json = core::read_json_file(path);
    const core::Json& message = json.at("message");
    return message.is_string() ? message.get<std::string>() : message.at("message").get<std::string>();
  } catch (const std::exception&) {
    return "";
  }
}

/// A line of a log (core/log.h) by which a run tells that all is well.
bool is_plain_log_line(const std::string& line) {
  return line.find(" | INFO | ") != std::string::npos || line.find(" | DEBUG | ") != std::string::npos;
}

/// The last line of standard error that speaks of an error, with what is indented below it; else the last that is no
/// plain line of a log.
std::string message_of_tail(const std::deque<std::string>& tail) {
  size_t found = tail.size();
  for (size_t index = 0; index < tail.size(); ++index) {
    const bool is_own_line = !tail[index].empty() && tail[index][0] != ' ' && !is_plain_log_line(tail[index]);
    if (is_own_line && core::to_lower_ascii(tail[index]).find("error") != std::string::npos) found = index;
  }
  if (found == tail.size()) {
    while (found > 0 && (core::trim(tail[found - 1]).empty() || is_plain_log_line(tail[found - 1]))) --found;
    return found > 0 ? tail[found - 1] : "";
  }
  std::string message = tail[found];
  for (size_t index = found + 1; index < tail.size() && core::starts_with(tail[index], " "); ++index)
    message += "\n" + tail[index];
  return message;
}

/// The first rank that the message of another one names as silent (comm/rank_report.cpp).
std::optional<int64_t> silent_rank_of(const std::string& message) {
  constexpr std::string_view kName = "rank ";
  const size_t end = message.find(") does not answer any more");
  const size_t pid = end == std::string::npos ? end : message.rfind(" (pid ", end);
  const size_t name = pid == std::string::npos ? pid : message.rfind(kName, pid);
  if (name == std::string::npos) return std::nullopt;
  const size_t number = name + kName.size();
  return core::parse_int(std::string_view(message).substr(number, pid - number));
}

class RankGroup {
 public:
  RankGroup(const std::vector<RankCommand>& commands, const GroupConfig& config);
  int run();

 private:
  /// Results belong to rank 0 alone, so its standard output stays as it is and `... --json | jq` works.
  std::string prefix(const Rank& rank, bool is_err) const {
    return config_.has_prefix && (is_err || rank.rank != 0) ? fmt::format("[rank {}] ", rank.rank) : "";
  }
  bool is_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.status; });
  }
  void wait_for_events(std::chrono::milliseconds limit);
  bool read_stream(Rank& rank, bool is_err);
  void take_signals();
  void reap();
  Verdict judge(const ExitStatus& status) const;
  void act();
  std::chrono::milliseconds grace() const { return is_rank_lost_ ? config_.lost_rank_grace : config_.kill_grace; }
  void terminate_others();
  void kill(Rank& rank);
  void kill_all();
  void drain();
  void accuse_silent_ranks();
  const Rank* first_failure() const;
  int exit_code_of(const Rank& first) const;
  std::string message_of(const Rank& rank) const;
  std::string how_it_failed(const Rank& first) const;
  std::string advice(const Rank& first) const;
  void tell_first(const Rank& first);
  void tell_end_of_others(const Rank& first) const;
  void note_in_record(const Rank& first) const;

  const GroupConfig config_;
  SignalReader signals_;  // before the ranks: no SIGCHLD may be missed
  mutable SharedOutput output_;
  std::vector<Rank> ranks_;
  int num_ended_ = 0, num_interrupts_ = 0;
  int stop_signal_ = 0;        // that was passed on to the ranks
  bool is_rank_lost_ = false;  // to a signal that was not ours
  bool is_terminating_ = false, is_killed_ = false, has_told_first_ = false;
  std::optional<Clock::time_point> terminate_at_, kill_at_, tell_at_;
};

RankGroup::RankGroup(const std::vector<RankCommand>& commands, const GroupConfig& config) : config_(config) {
  using Stream = core::ProcessOptions::Stream;
  for (const RankCommand& command : commands) {
    core::ProcessOptions options = command.process;
    options.out = config_.has_prefix ? Stream::kPipe : Stream::kInherit;
    // The first rank believes in a terminal where there is one, so that it shows its progress line.
    options.err = output_.is_terminal() && ranks_.empty() ? Stream::kPty : Stream::kPipe;
    ranks_.push_back(
        {.rank = command.rank, .process = core::Process::spawn(options), .error_file = command.error_file});
  }
}

void RankGroup::wait_for_events(std::chrono::milliseconds limit) {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
  for (Rank& rank : ranks_) {
    fds.push_back({rank.process.out().get(), POLLIN, 0});  // a negative descriptor is passed over
    fds.push_back({rank.process.err().get(), POLLIN, 0});
  }
  ::poll(fds.data(), fds.size(), static_cast<int>(limit.count()));
  for (size_t index = 0; index < ranks_.size(); ++index) {
    if (fds[1 + 2 * index].revents != 0) read_stream(ranks_[index], false);
    if (fds[2 + 2 * index].revents != 0) read_stream(ranks_[index], true);
  }
}

/// Passes on what one read gives; false when nothing came.
bool RankGroup::read_stream(Rank& rank, bool is_err) {
  core::Fd& fd = is_err ? rank.process.err() : rank.process.out();
  LineSplitter& splitter = is_err ? rank.err : rank.out;
  const auto on_line = [&](std::string_view line) {
    output_.write_line(is_err ? STDERR_FILENO : STDOUT_FILENO, prefix(rank, is_err), line);
    if (!is_err) return;
    rank.tail.emplace_back(line);
    if (rank.tail.size() > kTailLines) rank.tail.pop_front();
  };
  char buffer[65536];
  const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (count <= 0) {  // end; a terminal whose last writer left gives EIO
    splitter.finish(on_line);
    fd.reset();
  } else {
    splitter.feed({buffer, static_cast<size_t>(count)}, on_line);
  }
  if (is_err && &rank == &ranks_.front()) output_.set_progress(splitter.progress());
  return count > 0;
}

void RankGroup::take_signals() {
  while (const int signal = signals_.next()) {
    if (signal == SIGCHLD || signal == SIGPIPE) continue;
    if (signal == SIGINT && ++num_interrupts_ > 1) {
      kill_all();
      continue;
    }
    const int passed = signal == SIGHUP ? SIGTERM : signal;
    if (passed == SIGINT || passed == SIGTERM) stop_signal_ = passed;
    for (Rank& rank : ranks_) rank.process.send_signal(passed);
  }
}

Verdict RankGroup::judge(const ExitStatus& status) const {
  if (status.ok()) return Verdict::kGood;
  if (status.signal == 0 && status.code == kRequeueCode) return Verdict::kStopped;
  if (status.signal != 0 && status.signal == stop_signal_) return Verdict::kStopped;
  if (is_terminating_ ||
      is_killed_) {  // what ranks do after our signal is a consequence, unless the code names a cause
    const bool names_cause = status.signal == 0 && status.code >= static_cast<int>(ExitCode::kData) &&
                             status.code <= static_cast<int>(ExitCode::kEnvironment);
    return names_cause ? Verdict::kCause : Verdict::kStopped;
  }
  return status.signal == 0 && status.code == kLostPeerCode ? Verdict::kLostPeer : Verdict::kCause;
}

void RankGroup::reap() {
  for (Rank& rank : ranks_) {
    if (rank.status) continue;
    rank.status = rank.process.poll();
    if (!rank.status) continue;
    rank.exit_order = ++num_ended_;
    rank.verdict = judge(*rank.status);
    if (rank.verdict == Verdict::kCause) terminate_at_ = std::min(terminate_at_.value_or(Clock::now()), Clock::now());
    if (rank.verdict == Verdict::kCause && rank.status->signal != 0) is_rank_lost_ = true;
    if (rank.verdict == Verdict::kCause && !tell_at_) tell_at_ = Clock::now() + kTellAfter;
    if (rank.verdict == Verdict::kLostPeer && !terminate_at_) terminate_at_ = Clock::now() + config_.settle;
  }
}

/// A rank that stands still cannot act on a SIGTERM, so that waiting for it gains nothing.
void RankGroup::terminate_others() {
  is_terminating_ = true;
  kill_at_ = Clock::now() + grace();
  for (Rank& rank : ranks_) {
    if (rank.status) continue;
    if (is_stopped(rank.process.pid())) {
      rank.accusation = "it was stopped, as by SIGSTOP, and answered nobody";
      kill(rank);
      if (!tell_at_) tell_at_ = Clock::now() + kTellAfter;
    } else {
      rank.process.send_signal(SIGTERM);
    }
  }
}

void RankGroup::kill(Rank& rank) {
  if (!rank.status) rank.was_killed = true;
  rank.process.kill_group();
}

void RankGroup::kill_all() {
  is_killed_ = true;
  for (Rank& rank : ranks_) kill(rank);
}

void RankGroup::act() {
  const auto now = Clock::now();
  if (tell_at_ && now >= *tell_at_ && is_running()) {
    tell_first(*first_failure());
    const auto num_left = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.status; });
    output_.write_line(STDERR_FILENO, "",
                       fmt::format("launch: {} other rank{} being ended, for which {} {:.0f} s", num_left,
                                   num_left == 1 ? " is" : "s are", num_left == 1 ? "it has" : "they have",
                                   std::chrono::duration<double>(grace()).count()));
    tell_at_ = Clock::time_point::max();  // once
  }
  if (terminate_at_ && !is_terminating_ && now >= *terminate_at_) terminate_others();
  if (kill_at_ && !is_killed_ && now >= *kill_at_) kill_all();
}

void RankGroup::drain() {
  constexpr std::chrono::milliseconds kLimit{500};  // a process that left the group may hold the pipe open for ever
  const auto deadline = Clock::now() + kLimit;
  const auto is_open = [](Rank& rank) { return rank.process.out().valid() || rank.process.err().valid(); };
  while (std::any_of(ranks_.begin(), ranks_.end(), is_open) && Clock::now() < deadline)
    wait_for_events(std::chrono::milliseconds(20));
  for (Rank& rank : ranks_) {
    for (const bool is_err : {false, true}) {
      LineSplitter& splitter = is_err ? rank.err : rank.out;
      splitter.finish([&](std::string_view line) {
        output_.write_line(is_err ? STDERR_FILENO : STDOUT_FILENO, prefix(rank, is_err), line);
      });
    }
  }
  output_.set_progress("");
}

/// Ranks that lost their peer name it with its process. Where it is one of this node that has shown no cause, it is the
/// one that failed.
void RankGroup::accuse_silent_ranks() {
  for (const Rank& witness : ranks_) {
    if (witness.verdict != Verdict::kLostPeer) continue;
    const std::string message = message_of(witness);
    for (Rank& rank : ranks_) {
      const bool is_named =
          message.find(fmt::format("rank {} (pid {} on ", rank.rank, rank.process.pid())) != std::string::npos;
      if (is_named && rank.verdict == Verdict::kStopped && rank.accusation.empty())
        rank.accusation = "it answered the other ranks no more";
    }
  }
}

/// In this order: a rank that shows a cause, one that answered nobody, one that lost its peer.
const Rank* RankGroup::first_failure() const {
  const auto place = [](const Rank& rank) {
    const int kind = rank.verdict == Verdict::kCause ? 0 : rank.is_silent() ? 1 : 2;
    return std::pair(kind, rank.exit_order);
  };
  const Rank* first = nullptr;
  for (const Rank& rank : ranks_) {
    const bool has_failed = rank.verdict == Verdict::kCause || rank.verdict == Verdict::kLostPeer || rank.is_silent();
    if (has_failed && (first == nullptr || place(rank) < place(*first))) first = &rank;
  }
  return first;
}

/// Of one that was killed because it answered nobody: what the others made of it.
int RankGroup::exit_code_of(const Rank& first) const {
  return first.is_silent() ? kLostPeerCode : first.status->shell_code();
}

std::string RankGroup::message_of(const Rank& rank) const {
  const std::string message = message_of_file(rank.error_file);
  return message.empty() ? message_of_tail(rank.tail) : message;
}

std::string RankGroup::how_it_failed(const Rank& first) const {
  const std::string who = fmt::format("rank {} on {}", first.rank, core::host_name());
  if (first.is_silent()) return fmt::format("{} failed first: {}", who, first.accusation);
  const std::string how = first.status->text() + meaning_of(*first.status);
  return fmt::format("{} {}: {}", who,
                     first.verdict == Verdict::kCause ? "failed first" : "was the first here to lose another rank",
                     how);
}

/// By the options in the run's record; without one as if the command had not named the run.
std::string flags_to_resume(const std::filesystem::path& run_folder) {
  std::string given_name, given_save;
  try {
    const core::Json attempts = record::read_run(run_folder).attempts;
    if (!attempts.empty()) {
      const core::Json options = attempts.back().value("options", core::Json::object());
      given_name = core::text_at(options, "name"), given_save = core::text_at(options, "save");
    }
  } catch (const std::exception&) {
    // What the record cannot say is no reason to say nothing.
  }
  return config::flags_to_resume(given_name, given_save, run_folder.filename().string());
}

/// What to do about a run that lost a rank, here or on another node, to no error of its own.
std::string RankGroup::advice(const Rank& first) const {
  std::error_code failure;
  const bool is_run = !config_.run_folder_file.empty() && std::filesystem::exists(config_.run_folder_file, failure);
  const bool has_own_error = first.status && first.status->signal == 0 && first.verdict != Verdict::kLostPeer;
  if (!is_run || has_own_error) return "";
  const std::filesystem::path run_folder = core::read_file(config_.run_folder_file);
  return "\n  hint: " + checkpoint::how_to_continue(run_folder, flags_to_resume(run_folder));
}

/// Once: while the others, which may wait for each other, are still ending, or at the end.
void RankGroup::tell_first(const Rank& first) {
  if (std::exchange(has_told_first_, true)) return;
  std::string text = "launch: " + how_it_failed(first);
  const auto add_message = [&](const std::string& from, const Rank& rank) {
    if (const std::string message = message_of(rank); !message.empty())
      text += fmt::format("\n  {}: {}", from, core::replace_all(core::printable(core::trim(message)), "\n", "\n  "));
  };
  const auto witness =
      std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.verdict == Verdict::kLostPeer; });
  if (first.is_silent() && witness != ranks_.end())
    add_message(fmt::format("rank {} says", witness->rank), *witness);
  else
    add_message("its last message", first);
  output_.write_line(STDERR_FILENO, "", text + advice(first));
}

/// "launch: then ranks 0, 2: exit code 3, communication error; rank 3: still there 2.0 s after SIGTERM, killed"
void RankGroup::tell_end_of_others(const Rank& first) const {
  std::map<std::string, std::vector<int>> ranks_of;  // by how they ended
  for (const Rank& rank : ranks_) {
    if (&rank == &first) continue;
    std::string how = rank.status->text() + meaning_of(*rank.status);
    if (rank.was_killed && !rank.accusation.empty())
      how = "killed, " + rank.accusation;
    else if (rank.was_killed)
      how = num_interrupts_ > 1 ? "killed"
                                : fmt::format("still there {:.1f} s after SIGTERM, killed",
                                              std::chrono::duration<double>(grace()).count());
    ranks_of[how].push_back(rank.rank);
  }
  std::vector<std::string> parts;
  for (const auto& [how, ranks] : ranks_of) parts.push_back(ranks_text(ranks) + ": " + how);
  if (!parts.empty()) output_.write_line(STDERR_FILENO, "", "launch: then " + core::join(parts, "; "));
}

/// Also in the log of the run, which has no word of a rank 0 that was killed.
void RankGroup::note_in_record(const Rank& first) const {
  std::error_code failure;
  if (config_.run_folder_file.empty() || !std::filesystem::exists(config_.run_folder_file, failure)) return;
  const std::filesystem::path run_folder = core::read_file(config_.run_folder_file);
  core::append_error_to_log(run_folder / "out.log", "launch: " + how_it_failed(first));
  record::FirstFailure told{
      .rank = first.rank, .exit_code = exit_code_of(first), .text = first.status->text() + meaning_of(*first.status)};
  if (first.is_silent()) told.text = fmt::format("{}: {}", first.status->text(), first.accusation);
  if (first.verdict == Verdict::kLostPeer) {  // who failed first was on another node, or is silent
    const Rank& writer = ranks_.front();
    if (writer.rank != 0) return;
    if (writer.was_killed) {
      told = {.rank = 0,
              .exit_code = writer.status->shell_code(),
              .text = writer.status->text() + ": it was still there after SIGTERM and was killed by launch"};
    } else {
      const auto lost = silent_rank_of(message_of(first));
      if (!lost) return;
      told = {.rank = static_cast<int>(*lost), .exit_code = kLostPeerCode};
    }
  }
  record::note_first_failure(run_folder, told);
}

int RankGroup::run() {
  constexpr std::chrono::milliseconds kTick{100};
  while (is_running()) {
    wait_for_events(kTick);
    take_signals();
    reap();
    act();
  }
  drain();
  accuse_silent_ranks();
  if (const Rank* first = first_failure()) {
    tell_first(*first);
    tell_end_of_others(*first);
    note_in_record(*first);
    return exit_code_of(*first);
  }
  if (num_interrupts_ > 1) return 128 + SIGINT;
  int code = 0;
  for (const Rank& rank : ranks_) {
    if (rank.status->ok() || code == kRequeueCode) continue;
    code = rank.status->signal == 0 ? rank.status->code : rank.status->shell_code();
  }
  return code;
}

}  // namespace

int run_rank_group(const std::vector<RankCommand>& commands, const GroupConfig& config) {
  return RankGroup(commands, config).run();
}

}  // namespace lockstep::cli
