#include "tasks/imagenet/front/imagenet_options_foreign.h"

#include "config/option_checks.h"
#include "config/run_options.h"

namespace lockstep::tasks {

void declare_imagenet_foreign_flags(core::OptionSet& set) {
  config::refuse_guessed_flags(set);
  config::refuse_flags(
      set, {{"ranks are started from outside",
             "start them with `lockstep launch --nproc-per-node N -- train imagenet ...`, torchrun or srun",
             {"multiprocessing-distributed", "rank"}},
            {"a run goes on where its checkpoint ends",
             "use --resume latest, or --pretrained FILE to begin anew",
             {"start-epoch"}},
            {"the folder is an argument without a flag",
             "write the folder alone, or use --train-data and --val-data",
             {"data-path"}},
            {"it has another name here", "use --device cpu", {"no-accel"}},
            {"a rank takes the only visible GPU, else the one of its local rank", "set CUDA_VISIBLE_DEVICES", {"gpu"}},
            {"training takes random crops", "use --train-transform eval for the centre", {"train-center-crop"}},
            {"repeated augmentation is not in this version", "drop it", {"ra-sampler", "ra-reps"}},
            {"AugMix is not in this version", "use --auto-augment imagenet, ra or ta_wide", {"augmix-severity"}},
            {"weight decay of embeddings has no group of its own", "use --wd", {"transformer-embedding-decay"}}});
  config::ignore_flags(set, {{"pictures are decoded into tensors directly", {"use-v2"}, {"backend"}},
                             {"shards and folders are read without a cache", {"cache-dataset"}, {}}});
}

}  // namespace lockstep::tasks
