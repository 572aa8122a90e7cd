#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/bench_options.h"
#include "config/ckpt_options.h"
#include "config/generate_options.h"
#include "config/gpt_options.h"
#include "config/infer_options.h"
#include "config/report_options.h"
#include "config/train_options.h"
#include "core/options.h"

namespace lockstep::config {

/// Which program runs a command.
enum class Half { kFront, kEngine };

struct CommandInfo {
  std::string name;     ///< Words as typed: "train clip", "data".
  std::string summary;  ///< One line.
  Half half = Half::kFront;
  bool is_implemented = true;  ///< false: known for a later version, refused by name.
};

/// All commands in the order of the overview.
std::span<const CommandInfo> commands();

/// A command line, parsed. Of train, infer, bench, ckpt and report the member of that task is set (of `train gpt` gpt,
/// of `infer generate` generate); the arguments of other commands are left in `rest` for the command itself. The set
/// reads and prints the member's present values.
struct ParsedCommand {
  const CommandInfo* info = nullptr;
  std::vector<std::string> rest;
  bool wants_help = false;  ///< --help was given: nothing has been checked.
  std::unique_ptr<TrainOptions> train;
  std::unique_ptr<GptOptions> gpt;
  std::unique_ptr<InferOptions> infer;
  std::unique_ptr<GenerateOptions> generate;
  std::unique_ptr<CkptOptions> ckpt;
  std::unique_ptr<ReportOptions> report;
  std::unique_ptr<BenchOptions> bench;
  std::optional<core::OptionSet> set;
  std::vector<std::string> warnings;  ///< To be logged once by the program that does the work.

  /// Of a command that trains: what all tasks share (ranks, device, record, dry run); else nullptr.
  const TrainOptions* run_options() const { return gpt ? &gpt->run : train.get(); }
};

/// Parses "train clip --batch-size 64 ..." (without the program name) and checks all that can be checked without
/// devices and files of data. UsageError for unknown commands and flags, bad values, contradictions, and commands that
/// are not in this version yet.
ParsedCommand parse_command(std::span<const std::string> args);

/// The same without the check for missing flags and contradictions; for `config`, which looks at parts of command
/// lines.
ParsedCommand parse_flags(std::span<const std::string> args);

/// A command with its options at their defaults, nothing parsed. UsageError when it is not in this version.
ParsedCommand declare_command(const CommandInfo& info);

/// The command of this name, or nullptr.
const CommandInfo* find_command(const std::string& name);

}  // namespace lockstep::config
