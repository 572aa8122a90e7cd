#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/common/guarded_main.h"
#include "cli/front/commands.h"
#include "cli/front/dry_run.h"
#include "cli/front/engine_exec.h"
#include "cli/front/overview.h"
#include "commands/commands.h"
#include "core/error.h"
#include "core/print.h"
#include "core/strings.h"
#include "tasks/tasks.h"

namespace lockstep::cli {
namespace {
using Args = std::vector<std::string>;

struct FrontCommand {
  const char* name;
  int (*run)(const commands::ParsedCommand& command);
};

constexpr FrontCommand kFrontCommands[] = {
    {"data", cmd_data},
    {"launch", cmd_launch},
    {"doctor", cmd_doctor},
    {"sweep", cmd_sweep},
    {"ckpt list", cmd_ckpt},
    {"ckpt verify", cmd_ckpt},
    {"report", cmd_report},
    {"report compare", cmd_report_compare},
    {"predict", cmd_predict},
    {"config show", cmd_config_show},
    {"config compare", cmd_config_compare},
    {"config reference", cmd_config_reference},
};

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

/// `train TASK --list-models` or --list-pretrained: whatever else is asked, the list is printed and nothing run.
std::string (*asked_list(const Args& args))() {
  if (args.size() < 3 || args[0] != "train") return nullptr;
  const auto asks_for = [&](const char* flag) { return std::find(args.begin(), args.end(), flag) != args.end(); };
  for (const tasks::FrontTaskRow& row : tasks::front_tasks()) {
    if (row.name != args[1]) continue;
    if (asks_for("--list-pretrained")) return row.list_pretrained;
    if (!asks_for("--list-models")) return nullptr;
    return row.list_models_on_terminal != nullptr && stdout_is_terminal() ? row.list_models_on_terminal
                                                                          : row.list_models;
  }
  return nullptr;
}

/// Of a training command whose run is to be traced.
std::string profile_help(const core::OptionSet& set) {
  const std::string usage = "Usage: lockstep train";
  return core::replace_all(set.help_text(), usage, "Usage: lockstep profile train") +
         "\nThe run is that of `lockstep " + set.command() +
         "`, and the steps\nthat --profile-step-start and --profile-step-end choose are traced into its\nfolder.\n";
}

int run_engine_command(commands::ParsedCommand& command, const Args& args) {
  if (command.wants_help) {
    core::print("{}", args[0] == "profile" ? profile_help(*command.set) : command.set->help_text());
    return 0;
  }
  if (const auto* run = command.run_options(); run != nullptr && run->dry_run) {
    commands::read_files(command);
    return print_dry_run(command);
  }
  exec_engine(args);
}

/// `help train imagenet` is `train imagenet --help`.
Args with_help_behind(Args args) {
  if (args.size() > 1 && args[0] == "help") {
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  return args;
}

int run(const Args& words) {
  const Args args = with_help_behind(words);
  if (args.empty() || (args.size() == 1 && asks_for_help(args[0]))) {
    core::print("{}", overview_text());
    return 0;
  }
  if (args[0] == "--version" || args[0] == "version") {
    core::print("{}", version_text(std::find(args.begin(), args.end(), "--json") != args.end()));
    return 0;
  }
  if (args.size() == 2 && asks_for_help(args[1])) {
    if (const std::string help = word_help_text(args[0]); !help.empty()) {
      core::print("{}", help);
      return 0;
    }
  }
  if (const auto list = asked_list(args)) {
    core::print("{}", list());
    return 0;
  }
  commands::ParsedCommand command = commands::parse_command_here(args);
  if (command.info->half == commands::Half::kEngine) return run_engine_command(command, args);
  for (const FrontCommand& front : kFrontCommands)
    if (command.info->name == front.name) return front.run(command);
  LOCKSTEP_CHECK(false, "command '{}' has no function", command.info->name);
  return 1;
}
}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  return lockstep::cli::guarded_main([&] { return lockstep::cli::run({argv + 1, argv + argc}); });
}
