#include "config/audio_options.h"

namespace lockstep::config {
using core::OptionRole;

void declare_audio_options(core::OptionSet& set, const AudioFields& fields) {
  set.add("audio-fill", fields.fill,
          {.role = OptionRole::kConfiguration,
           .help = "Sounds shorter than the model's clip. repeatpad: as many whole copies as fit, then silence. pad: "
                   "silence. repeat: copies, the last "
                   "one cut.",
           .choices = {"repeatpad", "pad", "repeat"},
           .aliases = {"data-filling"}});
  set.add("audio-trunc", fields.trunc,
          {.role = OptionRole::kConfiguration,
           .help = "Longer sounds. rand_trunc: a piece from a random place while training, the first piece in "
                   "evaluation. trunc: the first piece. "
                   "centre: the middle.",
           .choices = {"rand_trunc", "trunc", "centre"},
           .refused_choices = {{"fusion", "fusion of long clips is not in this version: use rand_trunc"}},
           .aliases = {"data-truncating"}});
  set.add("audio-int16-normalize", fields.int16_normalize,
          {.role = OptionRole::kConfiguration,
           .help = "Round samples to 16 bits and back, as LAION's CLAP does; --no-audio-int16-normalize keeps them."});
}

}  // namespace lockstep::config
