#include <filesystem>

#include "cli/engine/commands.h"
#include "core/error.h"
#include "core/log.h"
#include "models/weights.h"
#include "record/checkpoint_manifest.h"
#include "train/weight_file.h"

namespace lockstep::cli {
namespace fs = std::filesystem;

namespace {
bool writes_pt(const spec::CkptOptions& options) {
  if (options.format != "auto") return options.format == "openclip-pt";
  const std::string ending = fs::path(options.output).extension();
  return ending == ".pt" || ending == ".pth" || ending == ".bin";
}
}  // namespace

int cmd_ckpt_convert(const spec::ParsedCommand& command) {
  const auto& options = *command.ckpt;
  if (!fs::exists(options.path))
    throw CheckpointError(fmt::format("ckpt: '{}' does not exist", options.path), "give a checkpoint, the folder of a run (<logs>/<name>), or a file of weights");
  record::CheckpointManifest manifest;
  models::WeightFile weights = models::read_weights(train::weight_file(options.path, manifest));
  if (options.prefix == "module")
    for (auto& [name, tensor] : weights.tensors) name = "module." + name;
  if (!writes_pt(options))
    models::write_weights_safetensors(options.output, weights.tensors);
  else
    models::write_weights_pt(options.output, weights.tensors,
                             models::CheckpointHead{.epoch = weights.epoch.value_or(manifest.epoch), .name = fs::path(options.path).stem().string()});
  const std::string step = manifest.files.empty() ? "" : fmt::format(" of step {}", manifest.step);
  core::log_info("{} tensors{} -> {}", weights.tensors.size(), step, options.output);
  return 0;
}

}  // namespace lockstep::cli
