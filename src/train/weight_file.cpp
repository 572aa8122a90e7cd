#include "train/weight_file.h"

#include <optional>

#include "checkpoint/openclip_files.h"
#include "config/weights_config.h"
#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint_files.h"
#include "train/checkpointer_writer.h"

namespace lockstep::train {
namespace fs = std::filesystem;

fs::path checkpoint_folder(const fs::path& named) {
  if (fs::exists(named / checkpoint::kManifestName)) {
    require_whole(named, of_model(checkpoint::verify_hashes));
    return named;
  }
  const auto choice = checkpoint::choose_latest(named);
  if (!choice.chosen) {
    const fs::path of_openclip = checkpoint::newest_openclip_file(named);
    throw CheckpointError(
        fmt::format("checkpoints: '{}' holds no whole checkpoint{}", named.string(),
                    choice.skipped.empty() ? "" : ": " + choice.skipped.front()),
        of_openclip.empty()
            ? "give a file of weights, a checkpoint, or the folder of a run (<logs>/<name>) or of Hugging Face's "
              "save_pretrained (config.json with model.safetensors); `lockstep ckpt verify` says what is wrong"
            : fmt::format("weights in OpenCLIP's format lie there: give their file, '{}'", of_openclip.string()));
  }
  for (const auto& reason : choice.skipped) core::log_warning("checkpoints: passed over: {}", reason);
  core::log_info("taking {}, the newest checkpoint of {}", choice.chosen->folder.filename().string(), named.string());
  return choice.chosen->folder;
}

fs::path weight_file(const fs::path& named, checkpoint::CheckpointManifest& manifest) {
  if (!fs::is_directory(named)) return named;
  const bool is_of_hugging_face = !fs::exists(named / checkpoint::kManifestName) && fs::exists(named / "config.json");
  if (const auto weights = is_of_hugging_face ? config::weights_in_folder(named) : std::nullopt) return *weights;
  const fs::path checkpoint = checkpoint_folder(named);
  manifest = checkpoint::read_manifest(checkpoint);
  return checkpoint / kModelFile;
}

}  // namespace lockstep::train
