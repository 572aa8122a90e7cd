#include "tasks/contrastive/front/layer_decay_options.h"

namespace lockstep::tasks {
using core::OptionRole;

void LayerDecayOptions::declare(core::OptionSet& set, const std::string& task) {
  set.group("Updates by layer");
  if (task == "clap") {
    for (const char* name : {"image-layer-decay", "visual-layer-decay"})
      set.refuse(name, "`train clap` reads sounds, no pictures", "drop it");
    set.refuse("text-layer-decay", "layer decay is for `train clip`", "drop it");
  } else {
    set.add("image-layer-decay", &image_layer_decay,
            {.role = OptionRole::kSchedule,
             .help = "Learning rate of each group of layers of the image tower as a factor of the next one's: --lr for "
                     "the projection, F times that for the last block with its norm, F x F for the block before, and "
                     "so on to the embeddings. The groups are those that locks count.",
             .metavar = "F",
             .unset_text = "1",
             .min = 0,
             .max = 1,
             .is_min_excluded = true,
             .aliases = {"visual-layer-decay"}});
    set.add("text-layer-decay", &text_layer_decay,
            {.role = OptionRole::kSchedule,
             .help = "The same of the text tower.",
             .metavar = "F",
             .unset_text = "1",
             .min = 0,
             .max = 1,
             .is_min_excluded = true});
  }
  set.add("wd-exclude", &wd_exclude,
          {.role = OptionRole::kSchedule,
           .help = "Parameters without weight decay, beside those that have none anyway (gains, biases, scalars): "
                   "patterns of their names in the weight file, '*' for any characters ('*positional_embedding').",
           .metavar = "PATTERN...",
           .unset_text = "no others"});
}

void LayerDecayOptions::check(const core::OptionSet&, const std::string&) const {}

}  // namespace lockstep::tasks
