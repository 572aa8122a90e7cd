#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/bench_options.h"
#include "config/ckpt_options.h"
#include "config/generate_options.h"
#include "config/infer_options.h"
#include "config/report_options.h"
#include "config/retrieve_options.h"
#include "core/options.h"
#include "tasks/tasks.h"

namespace lockstep::commands {

/// Which program runs a command.
enum class Half { kFront, kEngine };

struct CommandInfo {
  std::string name;     ///< Words as typed: "train clip", "data".
  std::string summary;  ///< One line.
  Half half = Half::kFront;
  bool is_implemented = true;  ///< false: known for a later version, refused by name.
};

/// All commands in the order of the overview.
std::span<const CommandInfo> command_table();

/// A command line, parsed. Of train, infer, bench, ckpt and report the member of that command is set (of `infer
/// generate` generate), and the set reads and prints its present values; other commands take their arguments from
/// `rest` themselves.
struct ParsedCommand {
  const CommandInfo* info = nullptr;
  std::vector<std::string> rest;  ///< What follows the words of the command.
  bool wants_help = false;        ///< --help was given: nothing has been checked.
  std::unique_ptr<tasks::FrontTask> task;
  std::unique_ptr<config::InferOptions> infer;
  std::unique_ptr<config::GenerateOptions> generate;
  std::unique_ptr<config::RetrieveOptions> retrieve;
  std::unique_ptr<config::CkptOptions> ckpt;
  std::unique_ptr<config::ReportOptions> report;
  std::unique_ptr<BenchOptions> bench;
  std::optional<core::OptionSet> set;
  std::vector<std::string> warnings;  ///< To be logged once by the program that does the work.

  /// Of a command that trains: what all tasks share (ranks, device, record, dry run); else nullptr.
  const config::RunOptions* run_options() const { return task ? &task->options() : nullptr; }
};

/// Parses "train clip --batch-size 64 ..." (without the program name) and checks all that can be checked without
/// devices and files of data. UsageError for unknown commands and flags, bad values, contradictions, and commands that
/// are not in this version yet.
ParsedCommand parse_command(std::span<const std::string> args);
/// The same for a command that is about to run on this machine, whose devices are then asked for, too.
ParsedCommand parse_command_here(std::span<const std::string> args);

/// The same without the check for missing flags and contradictions; for `config`, which looks at parts of command
/// lines.
ParsedCommand parse_flags(std::span<const std::string> args);

/// Completes a training command by what files say (a tokenizer's vocabulary); adds warnings.
void read_files(ParsedCommand& command);

/// `train NAME` of the first task, where users leave out which.
std::string default_train_command();

/// A command with its options at their defaults, nothing parsed. UsageError when it is not in this version.
ParsedCommand declare_command(const CommandInfo& info);

/// The command of this name, or nullptr.
const CommandInfo* find_command(const std::string& name);

}  // namespace lockstep::commands
