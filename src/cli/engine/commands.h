#pragma once
#include <span>
#include <string>

#include "commands/commands.h"

namespace lockstep::cli {

/// Commands of the engine. The result is the exit code; errors are thrown.
int cmd_train(const commands::ParsedCommand& command);
int cmd_infer(commands::ParsedCommand& command);
int cmd_ckpt_convert(const commands::ParsedCommand& command);
/// `args`: the command line, for the result.
int cmd_bench(const commands::ParsedCommand& command, std::span<const std::string> args);

}  // namespace lockstep::cli
