#include "tasks/contrastive/front/tower_lock_options.h"

#include <fmt/format.h>

#include "config/option_checks.h"

namespace lockstep::tasks {
using core::OptionRole;

void TowerLockOptions::declare(core::OptionSet& set, const std::string& task) {
  if (task == "clap") {
    for (const char* name : {"lock-image", "lock-image-unlocked-groups", "lock-image-freeze-bn-stats"})
      set.refuse(name, "`train clap` reads sounds, no pictures", "drop it");
    for (const char* name : {"lock-text", "lock-text-unlocked-layers", "lock-text-freeze-layer-norm"})
      set.refuse(name, "no tower of CLAP can be locked",
                 "weights that the text tower begins with stay as they are with --pretrained-text FILE --split-opt "
                 "--lr-pretrained 0");
    return;
  }
  set.group("Locked towers");
  set.add("lock-image", &lock_image,
          {.role = OptionRole::kConfiguration,
           .help = "Do not train the image tower: neither gradients nor moments exist of it."});
  set.add("lock-image-unlocked-groups", &lock_image_unlocked_groups,
          {.role = OptionRole::kConfiguration,
           .help = "With --lock-image: train so many groups at the output. The last group of a ViT is the projection, "
                   "the one before it the last block with its norm, then block by block, then the embeddings. Groups "
                   "of timm's towers are timm's; what OpenCLIP puts behind them is trained anyway. ResNets are locked "
                   "whole.",
           .unit = "groups",
           .min = 0});
  set.add("lock-image-freeze-bn-stats", &lock_image_freeze_bn_stats,
          {.role = OptionRole::kConfiguration,
           .help = "With --lock-image: batch norm uses its running statistics, and keeps them."});
  set.add("lock-text", &lock_text, {.role = OptionRole::kConfiguration, .help = "Do not train the text tower."});
  set.add("lock-text-unlocked-layers", &lock_text_unlocked_layers,
          {.role = OptionRole::kConfiguration,
           .help = "With --lock-text: train so many groups at the output, counted as those of the image tower.",
           .unit = "groups",
           .min = 0});
  set.add(
      "lock-text-freeze-layer-norm", &lock_text_freeze_layer_norm,
      {.role = OptionRole::kConfiguration,
       .help = "With --lock-text, for text towers of Hugging Face: their layer norms are locked, too. Those of other "
               "towers always are, as in OpenCLIP."});
  set.add("cache-locked-features", &cache_locked_features,
          {.role = OptionRole::kConfiguration,
           .help = "Keep the features of towers that are locked as a whole in up to SIZE (8G) of each rank's memory: "
                   "what a tower has seen before it does not compute again. Of pictures with --train-transform eval.",
           .metavar = "SIZE",
           .unset_text = "off"});
}

void TowerLockOptions::check(const core::OptionSet&, const std::string& task) const {
  if (task == "clap") return;  // it has none of these
  // Scripts may give a default without the lock: it asks for nothing.
  const auto need = [](bool asks, const char* name, bool is_locked, const char* lock) {
    config::refuse_if(asks && !is_locked, fmt::format("--{} belongs to --{}", name, lock),
                      fmt::format("add --{}, or drop it", lock));
  };
  need(lock_image_unlocked_groups != 0, "lock-image-unlocked-groups", lock_image, "lock-image");
  need(lock_image_freeze_bn_stats, "lock-image-freeze-bn-stats", lock_image, "lock-image");
  need(lock_text_unlocked_layers != 0, "lock-text-unlocked-layers", lock_text, "lock-text");
  need(lock_text_freeze_layer_norm, "lock-text-freeze-layer-norm", lock_text, "lock-text");
  if (cache_locked_features.empty()) return;
  config::refuse_if(!lock_image && !lock_text, "--cache-locked-features belongs to locked towers",
                    "add --lock-image or --lock-text, or drop it");
  config::parse_bytes(cache_locked_features, "--cache-locked-features");
}

}  // namespace lockstep::tasks
