#include "tasks/contrastive/front/tower_weight_options.h"

#include "config/option_checks.h"

namespace lockstep::tasks {
using core::OptionRole;

void TowerWeightOptions::declare(core::OptionSet& set, const std::string& task) {
  set.group("Weights of single towers");
  set.add("pretrained-text", &pretrained_text,
          {.role = OptionRole::kConfiguration,
           .help = "Weights that a text tower of Hugging Face begins with: a name of the Hub (roberta-base), found in "
                   "the local caches, a folder or a file; none: drawn at random. Nothing is downloaded.",
           .metavar = "NAME|PATH|none",
           .unset_text = "those of the encoder that it is, but for made-up data and with --pretrained"});
  set.add(
      "cache-dir", &cache_dir,
      {.role = OptionRole::kConfiguration,
       .help = "Local cache, of the Hugging Face Hub and of OpenCLIP, in which weights and vocabularies are looked for "
               "before the usual ones: HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub, ~/.cache/clip. Nothing "
               "is downloaded.",
       .metavar = "DIR"});
  if (task == "clap") {
    set.add("pretrained-audio", &pretrained_audio,
            {.role = OptionRole::kConfiguration,
             .help = "Weights that the sound tower begins with: the file of an HTSAT that was trained on labelled "
                     "sounds, or of a whole CLAP model.",
             .metavar = "FILE"});
    set.refuse("pretrained-image", "`train clap` reads sounds, no pictures", "drop it");
    return;
  }
  set.add(
      "pretrained-image", &pretrained_image,
      {.role = OptionRole::kConfiguration,
       .help =
           "An image tower of timm (ConvNeXt, Swin, FastViT, EVA, PE, SigLIP's ViT) begins with the weights that timm "
           "takes for it by default, found in the local caches. Nothing is downloaded."});
  set.refuse("pretrained-audio", "`train clip` reads pictures, no sounds", "drop it");
}

void TowerWeightOptions::check(const core::OptionSet& set, const std::string&) const {
  if (!set.is_given("pretrained")) return;
  const bool names_text = !pretrained_text.empty() && pretrained_text != "none";
  config::refuse_if(names_text || pretrained_image || !pretrained_audio.empty(),
                    "--pretrained has the weights of both towers, so there is nothing for --pretrained-text, "
                    "--pretrained-image and --pretrained-audio to begin with",
                    "drop one of them");
}

}  // namespace lockstep::tasks
