#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "cli/front/engine_exec.h"
#include "core/env.h"
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "core/strings.h"
#include "sweep/local.h"
#include "sweep/plan_table.h"
#include "sweep/sweep_folder.h"

namespace lockstep::cli {
namespace {
namespace fs = std::filesystem;
using core::OptionSet;

constexpr const char* kUsage =
    "Usage: lockstep sweep FILE.toml [--dry-run | --submit | --local] [FLAGS]\n"
    "       lockstep sweep COMMAND DIR [FLAGS]\n"
    "\n"
    "Expands a matrix of node counts and settings (docs/sweep.md) into training runs.\n"
    "\n"
    "  FILE.toml            write one job script per point into the sweep's folder\n"
    "  FILE.toml --dry-run  check everything and show the points; write nothing\n"
    "  FILE.toml --submit   write the scripts and submit them to SLURM\n"
    "  FILE.toml --local    run the points one after another on this machine\n"
    "\n"
    "`lockstep sweep run --help` shows the flags.\n";

/// Variables given as NAME=VALUE, else the environment.
sweep::VariableLookup variable_lookup(const std::vector<std::string>& given) {
  std::map<std::string, std::string> values;
  for (const std::string& pair : given) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw UsageError(fmt::format("sweep: --set got '{}', expected NAME=VALUE", pair), "for example --set ACCOUNT=project1");
    values[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return [values](const std::string& name) -> std::optional<std::string> {
    if (const auto found = values.find(name); found != values.end()) return found->second;
    return core::env(name.c_str());
  };
}

struct RunFlags {
  std::string file, out;
  bool dry_run = false, submit = false, local = false, as_json = false;
  std::vector<std::string> set;
};

OptionSet declare_run(RunFlags& flags) {
  OptionSet set("sweep run", "Expands a sweep file, checks every point, and writes, submits or runs them.");
  set.add_positional("file", &flags.file, {.help = "Sweep file (docs/sweep.md).", .metavar = "FILE.toml"});
  set.add("dry-run", &flags.dry_run, {.help = "Check and show all points; write nothing."});
  set.add("submit", &flags.submit, {.help = "Submit the job scripts to SLURM; called again, it submits what is missing."});
  set.add("local", &flags.local, {.help = "Run the points one after another on this machine."});
  set.add("out", &flags.out, {.help = "Folder of sweeps; this one lands in OUT/NAME.", .metavar = "DIR", .unset_text = "'out' of the file, or sweeps"});
  set.add("set", &flags.set, {.help = "Values of ${NAME} in the file; they win over the environment.", .metavar = "NAME=VALUE"});
  set.add("json", &flags.as_json, {.help = "With --dry-run: machine-readable output."});
  return set;
}

/// Points that were not started yet, or stopped on request.
std::vector<int64_t> not_done(const sweep::SweepState& state) {
  std::vector<int64_t> indexes;
  for (const int64_t index : state.submit_order)
    for (const sweep::PointRecord& point : state.points)
      if (point.index == index && (point.status == sweep::PointStatus::kPlanned || point.status == sweep::PointStatus::kStopped)) indexes.push_back(index);
  return indexes;
}

int run_sweep(std::span<const std::string> args) {
  RunFlags flags;
  OptionSet set = declare_run(flags);
  set.parse(args);
  if (set.wants_help()) {
    fmt::print("{}", set.help_text());
    return 0;
  }
  if (flags.dry_run + flags.submit + flags.local > 1)
    throw UsageError("sweep: more than one of --dry-run, --submit and --local is given", "give one, or none to write the scripts only");
  const sweep::SweepFile file = sweep::read_sweep_file(flags.file);
  const sweep::Plan plan = sweep::make_plan(file, variable_lookup(flags.set));
  if (flags.dry_run) {
    if (flags.as_json) fmt::print("{}\n", sweep::plan_json(plan).dump(2));
    else fmt::print("{}", sweep::plan_table(plan));
    return 0;
  }
  const fs::path folder = sweep::sweep_folder(plan, flags.out);
  fs::create_directories(folder);
  const auto lock = sweep::SweepLock::take(folder);
  sweep::SweepState state = sweep::write_sweep(file, plan, folder, plan.program.empty() ? own_program().string() : plan.program);
  for (const std::string& warning : plan.warnings) core::log_warning("{}", warning);
  if (flags.local) return sweep::run_local(folder, state, not_done(state));
  fmt::print("{}\n", folder.string());
  return 0;
}
}  // namespace

int cmd_sweep(std::span<const std::string> args) {
  const bool wants_help = !args.empty() && (args[0] == "--help" || args[0] == "-h" || args[0] == "help");
  if (wants_help) {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (args.empty()) throw UsageError("sweep: expected a sweep file or a command", "see `lockstep sweep --help`");
  return run_sweep(args[0] == "run" ? args.subspan(1) : args);
}

}  // namespace lockstep::cli
