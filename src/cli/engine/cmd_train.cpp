#include "cli/common/version.h"
#include "cli/engine/commands.h"
#include "core/error.h"
#include "train/train_run.h"

namespace lockstep::cli {

int cmd_train(const config::ParsedCommand& command) {
  const VersionInfo version = version_info();
  return static_cast<int>(train::train(command, {.lockstep = version.version + " " + version.commit,
                                                 .libtorch = version.libtorch,
                                                 .cuda = version.cuda,
                                                 .nccl = version.nccl}));
}

}  // namespace lockstep::cli
