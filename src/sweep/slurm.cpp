#include "sweep/slurm.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "core/env.h"
#include "core/error.h"
#include "core/process.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {
constexpr std::chrono::seconds kTimeout{60};

core::CommandResult call(const std::vector<std::string>& argv) {
  core::ProcessOptions options{.argv = argv};
  options.env_changes.emplace_back("SLURM_TIME_FORMAT",
                                   argv[0] == "sacct" ? std::optional<std::string>("%s") : std::nullopt);
  try {
    core::CommandResult result = core::run_command(options, kTimeout);
    if (result.is_timed_out)
      throw EnvironmentError(fmt::format("sweep: {} gave no answer within {} s", argv[0], kTimeout.count()),
                             "the SLURM controller is busy or down: try again later");
    return result;
  } catch (const EnvironmentError& error) {
    if (core::starts_with(error.what(), "sweep:")) throw;
    const std::string what = error.what();
    throw EnvironmentError(
        fmt::format("sweep: cannot run {}: {}", argv[0], what.substr(0, what.find('\n'))),
        argv[0] == "sbatch" ? "log in to a node of the cluster, or use --local" : "log in to a node of the cluster");
  }
}

[[noreturn]] void throw_failed(const std::string& program, const core::CommandResult& result, const std::string& hint) {
  const std::string said(core::trim(result.err.empty() ? result.out : result.err));
  throw EnvironmentError(fmt::format("sweep: {} ended with {}: {}", program, result.status.text(),
                                     core::replace_all(said.substr(0, 2000), "\n", "; ")),
                         hint);
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr ? entry->pw_name : fmt::format("{}", ::geteuid());
}

/// "2026-01-31T12:00:00" in local time.
std::optional<double> parse_local_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  parts.tm_isdst = -1;
  return static_cast<double>(::mktime(&parts));
}

std::optional<double> parse_seconds(const std::string& text) {
  const auto value = core::parse_int(text);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}
}  // namespace

bool QueueEntry::is_waiting() const {
  constexpr std::array kWaiting{"PENDING",      "CONFIGURING",  "REQUEUED",     "REQUEUE_FED",
                                "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
  return std::count(kWaiting.begin(), kWaiting.end(), state) > 0;
}

bool QueueEntry::is_running() const {
  constexpr std::array kRunning{"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"};
  return std::count(kRunning.begin(), kRunning.end(), state) > 0;
}

bool Slurm::is_installed() {
  for (const std::string& folder : core::split(core::env("PATH").value_or(""), ":"))
    if (::access((folder + "/squeue").c_str(), X_OK) == 0) return true;
  return false;
}

std::string Slurm::submit(const std::string& script, const std::vector<std::string>& options) const {
  std::vector<std::string> argv{"sbatch", "--parsable"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(script);
  const core::CommandResult result = call(argv);
  if (!result.status.ok())
    throw_failed("sbatch", result,
                 fmt::format("the script is {}; what was submitted before is noted in sweep.json", script));
  const std::string id(core::trim(core::split(core::trim(result.out), ";")[0]));
  if (!core::parse_int(id)) throw_failed("sbatch", result, "expected a job id");
  return id;
}

std::map<std::string, QueueEntry> parse_squeue(const std::string& text) {
  std::map<std::string, QueueEntry> entries;
  for (const std::string& line : core::split(text, "\n")) {
    const auto fields = core::split(line, "|");
    if (fields.size() >= 5)
      entries[fields[0]] = {.state = fields[1], .reason = fields[2], .nodes = fields[3], .comment = fields[4]};
  }
  return entries;
}

std::map<std::string, QueueEntry> Slurm::queue() const {
  const core::CommandResult result =
      call({"squeue", "-h", "-r", "-t", "all", "-u", user_name(), "-o", "%i|%T|%r|%N|%k"});
  if (!result.status.ok()) throw_failed("squeue", result, "is the SLURM controller up? `scontrol ping` tells");
  return parse_squeue(result.out);
}

std::map<std::string, std::vector<PastJob>> parse_sacct(const std::string& text) {
  std::map<std::string, std::vector<PastJob>> jobs;
  for (const std::string& line : core::split(text, "\n")) {
    const auto fields = core::split(line, "|");
    if (fields.size() < 5) continue;
    // "CANCELLED by 0": the first word is the state.
    jobs[fields[0]].push_back({.state = core::split(fields[1], " ")[0],
                               .submit_s = parse_seconds(fields[2]),
                               .start_s = parse_seconds(fields[3]),
                               .end_s = parse_seconds(fields[4])});
  }
  return jobs;
}

std::optional<PastJob> parse_scontrol(const std::string& text) {
  PastJob job;
  for (const std::string& word : core::split(core::trim(text), " ")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "JobState") job.state = value;
    if (key == "SubmitTime") job.submit_s = parse_local_time(value);
    if (key == "StartTime") job.start_s = parse_local_time(value);
    if (key == "EndTime") job.end_s = parse_local_time(value);
  }
  return job.state.empty() ? std::nullopt : std::optional(job);
}

std::map<std::string, std::vector<PastJob>> Slurm::history(std::span<const std::string> ids) const {
  std::map<std::string, std::vector<PastJob>> jobs;
  if (ids.empty()) return jobs;
  const core::CommandResult accounting =
      call({"sacct", "-P", "-n", "-X", "-D", "-j", core::join(ids, ","), "-o", "JobID,State,Submit,Start,End"});
  if (accounting.status.ok()) jobs = parse_sacct(accounting.out);
  for (const std::string& id : ids) {
    if (jobs.contains(id)) continue;
    const core::CommandResult shown = call({"scontrol", "show", "job", "-o", id});
    if (const auto job = shown.status.ok() ? parse_scontrol(shown.out) : std::nullopt) jobs[id].push_back(*job);
  }
  return jobs;
}

void Slurm::cancel(std::span<const std::string> ids) const {
  if (ids.empty()) return;
  std::vector<std::string> argv{"scancel"};
  argv.insert(argv.end(), ids.begin(), ids.end());
  const core::CommandResult result = call(argv);
  if (!result.status.ok()) throw_failed("scancel", result, "");
}

}  // namespace lockstep::sweep
