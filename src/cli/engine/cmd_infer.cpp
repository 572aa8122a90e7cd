#include "cli/engine/commands.h"
#include "config/infer_options.h"
#include "core/log.h"
#include "hw/ranks.h"
#include "infer/classify_pictures.h"
#include "infer/contrastive_infer.h"
#include "infer/embed_shards.h"
#include "infer/generate.h"
#include "infer/model_of_weights.h"
#include "infer/retrieve.h"

namespace lockstep::cli {

int cmd_infer(commands::ParsedCommand& command) {
  for (const std::string& warning : command.warnings) core::log_warning("{}", warning);
  const hw::RankInfo ranks = hw::discover_ranks({}, hw::process_env());
  config::check_infer_ranks(command.info->name, command.infer && !command.infer->shards.empty(), ranks.world_size);
  if (command.infer && command.infer->asks_weights) infer::take_model_of_weights(*command.infer, *command.set);
  if (command.generate)
    infer::generate(*command.generate);
  else if (command.retrieve)
    infer::retrieve(*command.retrieve);
  else if (!command.infer->shards.empty())
    infer::embed_shards(*command.infer, ranks);
  else if (command.infer->job == config::InferJob::kEmbed)
    infer::embed(*command.infer);
  else if (command.infer->job == config::InferJob::kCaption)
    infer::caption(*command.infer);
  else if (command.infer->has_classifier())
    infer::classify_pictures(*command.infer);
  else
    infer::classify(*command.infer);
  return 0;
}

}  // namespace lockstep::cli
