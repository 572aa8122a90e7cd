// lockstep-engine: the half that is linked with LibTorch. Users start it through `lockstep`.
#include <c10/util/Logging.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/common/guarded_main.h"
#include "cli/engine/commands.h"
#include "commands/commands.h"
#include "core/error.h"
#include "core/log.h"
#include "nn/bf16_products.h"

namespace lockstep::cli {
namespace {

int run_command(const std::vector<std::string>& args) {
  commands::ParsedCommand command = commands::parse_command(args);
  if (command.info == nullptr || command.info->half != commands::Half::kEngine || command.wants_help)
    throw UsageError("lockstep-engine runs engine commands only", "start the program lockstep that lies beside it");
  commands::read_files(command);
  if (command.task) return cmd_train(command);
  if (command.infer || command.generate || command.retrieve) return cmd_infer(command);
  if (command.ckpt) return cmd_ckpt_convert(command);
  if (command.bench) return cmd_bench(command, args);
  throw UsageError(fmt::format("'{}' is not a command of the engine", command.info->name));
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  c10::initLogging();  // which reads TORCH_CPP_LOG_LEVEL; LibTorch leaves that to programs
  lockstep::nn::multiply_bf16_fast();
  const std::vector<std::string> args(argv + 1, argv + argc);
  const int code = lockstep::cli::guarded_main([&] { return lockstep::cli::run_command(args); });
  const bool has_failed = code != 0 && code != static_cast<int>(lockstep::ExitCode::kRequeue);
  if (has_failed) {
    std::fflush(nullptr);
    std::_Exit(code);  // static destructors would wait for kernels whose peers are gone
  }
  return code;
}
