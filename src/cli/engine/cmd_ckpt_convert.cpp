#include <filesystem>

#include "cli/engine/commands.h"
#include "core/error.h"
#include "core/log.h"
#include "models/weights.h"
#include "record/checkpoint_manifest.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// The weight file behind what the user named: a file, a checkpoint folder, or a run folder (its newest whole checkpoint).
fs::path weight_file(const fs::path& named, record::CheckpointManifest& manifest) {
  if (!fs::is_directory(named)) return named;
  fs::path checkpoint = named;
  if (!fs::exists(named / record::kManifestName)) {
    const auto choice = record::choose_latest(named, record::VerifyDepth::kHashes);
    if (!choice.chosen) throw CheckpointError(fmt::format("ckpt: '{}' holds no whole checkpoint", named.string()));
    checkpoint = choice.chosen->folder;
  }
  manifest = record::read_manifest(checkpoint);
  return checkpoint / "model.safetensors";
}

}  // namespace

int cmd_ckpt_convert(const spec::ParsedCommand& command) {
  const auto& options = *command.ckpt;
  record::CheckpointManifest manifest;
  models::WeightFile weights = models::read_weights(weight_file(options.path, manifest));
  if (options.prefix == "module")
    for (auto& [name, tensor] : weights.tensors) name = "module." + name;
  if (options.format == "safetensors")
    models::write_weights_safetensors(options.output, weights.tensors);
  else
    models::write_weights_pt(options.output, weights.tensors,
                             models::CheckpointHead{.epoch = weights.epoch.value_or(manifest.epoch), .name = fs::path(options.path).stem().string()});
  core::log_info("{} tensors -> {}", weights.tensors.size(), options.output);
  return 0;
}

}  // namespace lockstep::cli
