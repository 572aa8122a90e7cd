#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "cli/front/engine_exec.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "draw/render.h"
#include "predict/machine_file.h"
#include "predict/sweep_points.h"
#include "sweep/collect.h"
#include "sweep/follow.h"
#include "sweep/local.h"
#include "sweep/plan_table.h"
#include "sweep/point_fit.h"
#include "sweep/run_outcome.h"
#include "sweep/slurm.h"
#include "sweep/submit.h"
#include "sweep/sweep_folder.h"

namespace lockstep::cli {
namespace {
namespace fs = std::filesystem;
using core::OptionSet;

constexpr const char* kSweepUsage =
    "Usage: lockstep sweep FILE.toml [--dry-run | --submit | --local] [FLAGS]\n"
    "       lockstep sweep COMMAND DIR [FLAGS]\n"
    "\n"
    "Expands a matrix of node counts and settings (docs/sweep.md) into training runs\n"
    "or benchmarks.\n"
    "\n"
    "  FILE.toml            write one job script per point into the sweep's folder\n"
    "  FILE.toml --dry-run  check everything and show the points; write nothing\n"
    "  FILE.toml --submit   write the scripts and submit them to SLURM\n"
    "  FILE.toml --local    run the points one after another on this machine\n"
    "  status DIR           how the points stand\n"
    "  resume DIR           start again what failed, stopped or is missing\n"
    "  collect DIR          one table of what the runs measured and cost\n"
    "  cancel DIR           cancel the jobs that wait or run\n"
    "\n"
    "`lockstep sweep run --help` and `lockstep sweep COMMAND --help` show the flags.\n";

/// All that could be names of variables.
std::set<std::string> names_in(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  std::set<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    while (at < text.size() && (is_letter(text[at]) || (at > begin && text[at] >= '0' && text[at] <= '9'))) ++at;
    if (at == begin)
      ++at;
    else
      names.insert(text.substr(begin, at - begin));
  }
  return names;
}

/// Refuses --set of a name that occurs nowhere in the file, in ${...} or in a formula: it would change nothing.
void check_given(const std::map<std::string, std::string>& given, const std::string& path) {
  const std::set<std::string> names = names_in(core::read_file(path));
  for (const auto& [name, value] : given) {
    if (names.contains(name)) continue;
    const auto nearest = core::nearest_name(name, std::vector<std::string>(names.begin(), names.end()));
    throw UsageError(fmt::format("sweep: --set {}: '{}' asks for no variable of that name", name, path),
                     nearest ? fmt::format("did you mean '{}'?", *nearest)
                             : "write ${NAME} where the value belongs, or leave the flag out");
  }
}

std::map<std::string, std::string> given_variables(const std::vector<std::string>& given) {
  std::map<std::string, std::string> values;
  for (const std::string& pair : given) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UsageError(fmt::format("sweep: --set got '{}', expected NAME=VALUE", pair),
                       "for example --set ACCOUNT=project1");
    values[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return values;
}

/// Variables given as NAME=VALUE, else the environment.
sweep::VariableLookup variable_lookup(const std::map<std::string, std::string>& values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    if (const auto found = values.find(name); found != values.end()) return found->second;
    return core::env(name.c_str());
  };
}

struct RunFlags {
  std::string file, out, device_memory, predict_on;
  bool dry_run = false, submit = false, local = false, as_json = false;
  std::vector<std::string> set;
};

OptionSet declare_run(RunFlags& flags) {
  OptionSet set("sweep run", "Expands a sweep file, checks every point, and writes, submits or runs them.");
  set.add_positional("file", &flags.file, {.help = "Sweep file (docs/sweep.md).", .metavar = "FILE.toml"});
  set.add("dry-run", &flags.dry_run, {.help = "Check and show all points; write nothing."});
  set.add(
      "device-memory", &flags.device_memory,
      {.help = "With --dry-run: say whether each point fits a device of this memory (64G), of this name (H100 80GB), "
               "or of this system (LUMI-G).",
       .metavar = "SIZE|NAME",
       .aliases = {"target-device"}});
  set.add("predict-on", &flags.predict_on,
          {.help = "With --dry-run: predict step, hours and node-hours of each point on this system (docs/predict.md).",
           .metavar = "NAME|FILE.toml"});
  set.add("submit", &flags.submit,
          {.help = "Submit the job scripts to SLURM; called again, it submits what is missing."});
  set.add("local", &flags.local, {.help = "Run the points one after another on this machine."});
  set.add("output", &flags.out,
          {.help = "Folder of sweeps; this one lands in DIR/NAME.",
           .metavar = "DIR",
           .unset_text = "'out' of the file, or sweeps",
           .aliases = {"o", "out"}});
  set.add("set", &flags.set,
          {.help = "Values of ${NAME} in the file; they win over the environment.", .metavar = "NAME=VALUE"});
  set.add("json", &flags.as_json, {.help = "With --dry-run: machine-readable output."});
  return set;
}

/// Points that were not started yet, or stopped on request while they ran here.
std::vector<int64_t> not_done(const sweep::SweepState& state, bool is_local) {
  std::vector<int64_t> indexes;
  for (const int64_t index : sweep::resumable(state))
    for (const sweep::PointRecord& point : state.points) {
      const bool is_open =
          point.status == sweep::PointStatus::kPlanned || (is_local && point.status == sweep::PointStatus::kStopped);
      if (point.index == index && is_open) indexes.push_back(index);
    }
  return indexes;
}

bool uses_slurm(const sweep::SweepState& state) { return state.mode == "slurm"; }

/// Brings states up to date; what SLURM says is kept for the tables. A state that knows of no start may have been
/// written anew beside jobs that wait or run, so SLURM is asked then too. Without an answer it makes do with what the
/// runs say, unless it `must_know` the jobs, as before a submission.
std::optional<sweep::SlurmView> update(const fs::path& folder, sweep::SweepState& state, bool must_know = false) {
  std::optional<sweep::SlurmView> view;
  const bool is_new = state.mode.empty();
  if (is_new) state.mode = sweep::started_mode(folder, state);
  if (uses_slurm(state) || (is_new && sweep::Slurm::is_installed())) {
    try {
      view = sweep::look_at_slurm(folder, state, sweep::Slurm());
      sweep::recover_submissions(folder, state, view->queue);
    } catch (const EnvironmentError& error) {
      if (must_know) throw;
      const std::string what = error.what();
      core::log_warning("{}; jobs of this sweep that SLURM may still have are not seen, the runs are told as they say",
                        what.substr(0, what.find('\n')));
    }
  }
  sweep::refresh(folder, state, view ? &*view : nullptr, core::unix_seconds());
  return view;
}

/// "0002, 0003"
std::string names_of(const std::vector<int64_t>& indexes) {
  std::vector<std::string> names;
  for (const int64_t index : indexes) names.push_back(fmt::format("{:04}", index));
  return core::join(names, ", ");
}

/// Says which points are left alone: somebody else's job is at work on them, or nobody can tell what they are.
void tell_held_back(const sweep::SweepState& state) {
  if (const auto held_back = sweep::held_back(state); !held_back.empty())
    core::log_warning(
        "sweep: not started again: {}: the heartbeat of the run is alive, so a job that this sweep.json does not know "
        "is writing it; try again when it has ended",
        names_of(held_back));
  if (const auto unknown = sweep::unknown_points(state); !unknown.empty())
    core::log_warning("sweep: not started: {}: what the run left cannot be read, `lockstep sweep status` says why",
                      names_of(unknown));
}

/// One sweep runs in one way: what its nodes are, and so every number over them, depends on it.
void refuse_other_mode(const fs::path& folder, const sweep::SweepState& state, bool is_local) {
  if (state.mode.empty() || state.mode == (is_local ? "local" : "slurm")) return;
  throw UsageError(fmt::format("sweep: points of '{}' {}", folder.string(),
                               is_local ? "were submitted to SLURM" : "ran on this machine (--local)"),
                   fmt::format("go on with {}, or give another folder with --out", is_local ? "--submit" : "--local"));
}

int submit(const fs::path& folder, sweep::SweepState& state, const std::vector<int64_t>& indexes) {
  const size_t num_done = sweep::submit_points(folder, state, indexes, sweep::Slurm());
  core::print("{} of {} submitted; follow them with `lockstep sweep status {}`\n", num_done,
              core::counted(indexes.size(), "job"), folder.string());
  return num_done == indexes.size() ? 0 : static_cast<int>(ExitCode::kRequeue);
}

int run_here(const fs::path& folder, sweep::SweepState& state, const std::vector<int64_t>& indexes) {
  const int code = sweep::run_local(folder, state, indexes);
  if (code == static_cast<int>(ExitCode::kRequeue))
    core::print(
        "the sweep was stopped: `lockstep sweep resume {0}` goes on with the points that are left, `lockstep sweep "
        "collect {0}` and `lockstep report {0}` tell what is "
        "there\n",
        folder.string());
  return code;
}

/// The plan, and what its points are expected to take where a system is named.
void print_plan(const sweep::Plan& plan, const RunFlags& flags) {
  core::Json json = flags.as_json ? sweep::plan_json(plan) : core::Json();
  if (!flags.as_json) core::print("{}", sweep::plan_table(plan));
  if (!flags.predict_on.empty()) {
    const predict::Machine machine = predict::find_machine(flags.predict_on);
    std::vector<predict::SweepPoint> points;
    for (const sweep::Point& point : plan.points) {
      points.push_back({point.name, plan.command, point.nodes, point.ranks_per_node});
      points.back().words.insert(points.back().words.end(), point.flags.begin(), point.flags.end());
    }
    const auto predicted = predict::predict_points(points, machine);
    if (flags.as_json)
      json["predicted"] = predict::sweep_json(predicted);
    else
      core::print("\n{}", draw::to_text(predict::sweep_table(predicted, machine)));
  }
  if (flags.as_json) core::print("{}\n", json.dump(2));
}

int run_sweep(std::span<const std::string> args) {
  RunFlags flags;
  OptionSet set = declare_run(flags);
  set.parse(args);
  if (set.wants_help()) {
    core::print("{}", set.help_text());
    return 0;
  }
  if (flags.dry_run + flags.submit + flags.local > 1)
    throw UsageError("sweep: more than one of --dry-run, --submit and --local is given",
                     "give one, or none to write the scripts only");
  const sweep::SweepFile file = sweep::read_sweep_file(flags.file);
  const auto given = given_variables(flags.set);
  check_given(given, flags.file);
  sweep::Plan plan = sweep::make_plan(file, variable_lookup(given));
  if (!flags.predict_on.empty() && !flags.dry_run)
    throw UsageError("sweep: --predict-on belongs to --dry-run", "add --dry-run, or leave it out");
  if (!flags.predict_on.empty() && plan.result != sweep::ResultKind::kRunRecord)
    throw UsageError(fmt::format("sweep: --predict-on predicts training, the command of '{}' is '{}'", flags.file,
                                 core::join(plan.command, " ")),
                     "leave it out");
  if (!flags.device_memory.empty() && !flags.dry_run)
    throw UsageError("sweep: --device-memory belongs to --dry-run", "add --dry-run, or leave it out");
  if (flags.dry_run) {
    sweep::judge_points(plan, flags.device_memory);
    print_plan(plan, flags);
    return 0;
  }
  const fs::path folder = sweep::sweep_folder(plan, flags.out);
  const bool is_new_folder = fs::create_directories(folder);
  const auto lock = sweep::SweepLock::take(folder);
  sweep::SweepState state =
      sweep::write_sweep(file, plan, folder, plan.program.empty() ? own_program().string() : plan.program);
  for (const std::string& warning : plan.warnings) core::log_warning("{}", warning);
  if (!flags.local && !flags.submit) {
    core::print("{} job scripts in {}\n", state.points.size(), (folder / "jobs").string());
    return 0;
  }
  if (flags.submit || !is_new_folder) update(folder, state, flags.submit);
  refuse_other_mode(folder, state, flags.local);
  sweep::write_state(folder, state);
  tell_held_back(state);
  const std::vector<int64_t> indexes = not_done(state, flags.local);
  if (indexes.empty()) {
    core::print("nothing is left to start in {}; `lockstep sweep resume` starts failed points again\n",
                folder.string());
    return 0;
  }
  return flags.local ? run_here(folder, state, indexes) : submit(folder, state, indexes);
}

struct FolderFlags {
  std::string folder;
  bool as_json = false;
};

/// A command that works on the folder of a sweep.
struct FolderCommand {
  const char *name, *summary;
  const char* json_help = nullptr;  // of --json, where the command has it
};
constexpr FolderCommand kStatus{
    "sweep status",
    "Shows how the points of a sweep stand: from the records of their runs, their job scripts and SLURM.",
    "Machine-readable output."};
constexpr FolderCommand kResume{
    "sweep resume",
    "Starts again what failed, stopped, was cancelled or is missing; each run goes on from its latest checkpoint."};
constexpr FolderCommand kCollect{
    "sweep collect",
    "Gathers what the runs measured and what they cost into one table, and writes it as collected.csv and "
    "collected.json into the folder.",
    "Print the JSON."};
constexpr FolderCommand kCancel{
    "sweep cancel", "Cancels every job of a sweep that waits or runs; running ones save a checkpoint first."};

OptionSet declare(const FolderCommand& command, FolderFlags& flags) {
  OptionSet set(command.name, command.summary);
  set.add_positional("folder", &flags.folder, {.help = "Folder of the sweep.", .metavar = "DIR"});
  if (command.json_help != nullptr) set.add("json", &flags.as_json, {.help = command.json_help});
  return set;
}

/// Parses; true when only the help was wanted (and printed).
bool parse_or_help(const FolderCommand& command, FolderFlags& flags, std::span<const std::string> args) {
  OptionSet set = declare(command, flags);
  set.parse(args);
  if (set.wants_help()) core::print("{}", set.help_text());
  if (!set.wants_help()) flags.folder = fs::absolute(flags.folder).lexically_normal().string();
  return set.wants_help();
}

/// The state of a sweep, brought up to date; written unless another process is at work on the folder.
struct OpenSweep {
  fs::path folder;
  sweep::SweepState state;
  std::optional<sweep::SlurmView> view;

  explicit OpenSweep(const std::string& path) : folder(path), state(sweep::read_state(folder)) {
    const auto lock = sweep::SweepLock::try_take(folder);
    if (lock) state = sweep::read_state(folder);
    view = update(folder, state);
    if (lock) sweep::write_state(folder, state);
  }
  const sweep::SlurmView* slurm() const { return view ? &*view : nullptr; }
};

/// The state of a sweep, brought up to date by the one process that may change it.
struct LockedSweep {
  fs::path folder;
  sweep::SweepState state;
  sweep::SweepLock lock;

  explicit LockedSweep(const std::string& path)
      : folder(path), state(sweep::read_state(folder)),  // before the lock: no lock file where there is no sweep
        lock(sweep::SweepLock::take(folder)) {
    state = sweep::read_state(folder);
    update(folder, state, uses_slurm(state));
  }
};

void print_json(const core::Json& json) {
  core::print("{}\n", json.dump(2, ' ', false, core::Json::error_handler_t::replace));
}

int run_status(std::span<const std::string> args) {
  FolderFlags flags;
  if (parse_or_help(kStatus, flags, args)) return 0;
  const OpenSweep sweep(flags.folder);
  if (flags.as_json)
    print_json(sweep::status_json(sweep.folder, sweep.state, sweep.slurm(), core::unix_seconds()));
  else
    core::print("{}", sweep::status_table(sweep.folder, sweep.state, sweep.slurm(), core::unix_seconds()));
  return 0;
}

int run_resume(std::span<const std::string> args) {
  FolderFlags flags;
  if (parse_or_help(kResume, flags, args)) return 0;
  LockedSweep locked(flags.folder);
  const fs::path& folder = locked.folder;
  sweep::SweepState& state = locked.state;
  sweep::write_state(folder, state);
  if (state.mode.empty())
    throw UsageError(fmt::format("sweep: nothing of '{}' was started yet", folder.string()),
                     "`lockstep sweep FILE.toml --submit` or --local starts it");
  tell_held_back(state);
  const std::vector<int64_t> indexes = sweep::resumable(state);
  if (indexes.empty()) {
    if (const auto unknown = sweep::unknown_points(state); !unknown.empty())
      throw EnvironmentError(fmt::format("sweep: nothing was started: what {} of {} points left cannot be read: {}",
                                         unknown.size(), state.points.size(), names_of(unknown)),
                             "`lockstep sweep status` says why; mend it and resume again");
    core::print("every point has finished or has a job\n");
    return 0;
  }
  return uses_slurm(state) ? submit(folder, state, indexes) : run_here(folder, state, indexes);
}

int run_collect(std::span<const std::string> args) {
  FolderFlags flags;
  if (parse_or_help(kCollect, flags, args)) return 0;
  const OpenSweep sweep(flags.folder);
  const sweep::Collection collection = sweep::collect(sweep.folder, sweep.state, sweep.slurm(), core::unix_seconds());
  const core::Json json = sweep::collection_json(sweep.state, collection);
  core::write_file_atomic(sweep.folder / "collected.csv", sweep::collection_csv(sweep.state, collection));
  core::write_file_atomic(sweep.folder / "collected.json",
                          json.dump(1, ' ', false, core::Json::error_handler_t::replace) + "\n");
  if (flags.as_json)
    print_json(json);
  else
    core::print("{}", sweep::collection_text(sweep.state, collection));
  return 0;
}

int run_cancel(std::span<const std::string> args) {
  FolderFlags flags;
  if (parse_or_help(kCancel, flags, args)) return 0;
  LockedSweep locked(flags.folder);
  const size_t num_cancelled = sweep::cancel_points(locked.folder, locked.state, sweep::Slurm());
  core::print("{} cancelled\n", core::counted(num_cancelled, "job"));
  return 0;
}
}  // namespace

void visit_sweep_options(const OptionVisitor& visit) {
  RunFlags run;
  visit(declare_run(run));
  for (const FolderCommand& command : {kStatus, kResume, kCollect, kCancel}) {
    FolderFlags flags;
    visit(declare(command, flags));
  }
}

int cmd_sweep(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  struct Command {
    const char* name;
    int (*run)(std::span<const std::string> args);
  };
  constexpr std::array kCommands{Command{"run", run_sweep}, Command{"status", run_status},
                                 Command{"resume", run_resume}, Command{"collect", run_collect},
                                 Command{"cancel", run_cancel}};
  const bool wants_help = !args.empty() && (args[0] == "--help" || args[0] == "-h" || args[0] == "help");
  if (wants_help) {
    core::print("{}", kSweepUsage);
    return 0;
  }
  if (args.empty()) throw UsageError("sweep: expected a sweep file or a command", "see `lockstep sweep --help`");
  for (const Command& command : kCommands)
    if (args[0] == command.name) return command.run(args.subspan(1));
  return run_sweep(args);
}

}  // namespace lockstep::cli
