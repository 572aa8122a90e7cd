#include "cli/common/version.h"
#include "cli/engine/commands.h"
#include "core/error.h"
#include "tasks/tasks_engine.h"

namespace lockstep::cli {

int cmd_train(const commands::ParsedCommand& command) {
  const VersionInfo version = version_info();
  train::TrainRequest request = tasks::train_request(*command.task, *command.set);
  request.warnings = command.warnings;
  return static_cast<int>(train::train(request, {.lockstep = version.version + " " + version.commit,
                                                 .libtorch = version.libtorch,
                                                 .cuda = version.cuda,
                                                 .nccl = version.nccl}));
}

}  // namespace lockstep::cli
