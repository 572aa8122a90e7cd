#pragma once
#include <span>
#include <string>

#include "config/commands.h"

namespace lockstep::cli {

/// Commands of the engine. The result is the exit code; errors are thrown.
int cmd_train(const config::ParsedCommand& command);
int cmd_infer(const config::ParsedCommand& command);
int cmd_ckpt_convert(const config::ParsedCommand& command);
/// `args`: the command line, for the result.
int cmd_bench(const config::ParsedCommand& command, std::span<const std::string> args);

}  // namespace lockstep::cli
