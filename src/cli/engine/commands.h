#pragma once
#include <span>
#include <string>

#include "spec/commands.h"

namespace lockstep::cli {

/// Commands of the engine. The result is the exit code; errors are thrown.
int cmd_train(const spec::ParsedCommand& command);
int cmd_infer(const spec::ParsedCommand& command);
int cmd_ckpt_convert(const spec::ParsedCommand& command);
/// `args`: the command line, for the result.
int cmd_bench(const spec::ParsedCommand& command, std::span<const std::string> args);

}  // namespace lockstep::cli
