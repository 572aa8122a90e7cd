#include "tasks/contrastive/front/contrastive_options_foreign.h"

#include <array>
#include <vector>

#include "config/option_checks.h"
#include "config/run_options.h"

namespace lockstep::tasks {
namespace {
std::vector<config::RefusedFlags> release_flags() {
  return {
      {"one distributed runtime is built in",
       "drop it; start ranks with `lockstep launch`, torchrun or srun",
       {"horovod"}},
      {"8-bit layers are not in this version", "use --precision bf16 or amp_bf16", {"use-bnb-linear"}},
  };
}

std::vector<config::RefusedFlags> development_flags() {
  return {
      {"parameter sharding is not in this version",
       "drop it; --grad-checkpointing and --accum-freq save memory",
       {"fsdp"}},
      {"variable-resolution towers are not in this version",
       "use a ViT or RN model with a fixed picture size",
       {"use-naflex", "force-naflex-vision"}},
      {"fusion of long clips is not in this version",
       "drop it; --audio-trunc rand_trunc reads a piece of a long clip",
       {"audio-fusion", "enable-fusion", "fusion-type"}},
      {"nothing is downloaded",
       "give shards or a folder of class folders: --zeroshot-data SPEC --classnames FILE --templates FILE",
       {"audio-zeroshot-dataset", "audio-zeroshot-split", "audio-zeroshot-audio-key", "audio-zeroshot-target-key",
        "audio-zeroshot-class-key", "audio-zeroshot-template"}},
      {"mixup of sounds is not in this version", "drop it: it is off by default in LAION's trainer, too", {"mixup"}},
      {"the loss over two extra MLPs is not in this version",
       "drop it: the loss is LAION's default, over one scale",
       {"clap-mlploss"}},
      {"losses weighted by classes are not in this version",
       "drop it",
       {"kappa", "class-label-path", "train-ipc", "val-ipc"}},
      {"one flag names both towers", "use --model HTSAT-tiny-Roberta-base", {"amodel", "tmodel"}},
      {"linear probes are not in this version",
       "train or embed (`lockstep infer embed`) and probe elsewhere",
       {"lp-loss", "lp-metrics", "lp-lr", "lp-mlp", "lp-freeze", "lp-act"}},
      {"shards are named, not looked up by the name of a data set",
       "use --train-data 'DIR/{000..099}.tar' and --val-data",
       {"datasetnames", "datasetpath", "datasetinfos", "full-train-dataset", "exclude-eval-dataset", "train-ratio"}},
      {"sounds have one learning rate for all layers", "use --lr and --wd", {"audio-layer-decay"}},
      {"the pooler of the text belongs to its projection", "drop it", {"text-pooler-own-group"}},
      {"AdamW has named flags", "use --lr, --beta1, --beta2, --eps, --wd", {"opt-kwargs", "opt-fallback-list"}},
  };
}

/// Of LAION-CLAP's trainer, beside those that OpenCLIP's development version has taken over.
std::vector<config::RefusedFlags> laion_flags() {
  return {
      {"the optimiser has OpenCLIP's flag", "use --opt adamw, lion or lamb", {"optimizer"}, {"adamw", "AdamW"}},
      {"no tower of CLAP can be locked",
       "weights that the text tower begins with stay as they are with --pretrained-text FILE --split-opt "
       "--lr-pretrained 0",
       {"freeze-text", "freeze-text-after"}},
      {"a part of the data is named by its shards", "name fewer shards in --train-data", {"dataset-proportion"}},
      {"a caption is drawn from the texts of its sample", "drop it", {"text-augment-selection"}},
      {"evaluation is where --val-data is", "drop it, and --val-data", {"no-eval"}},
      {"a run is continued by its folder", "use --resume latest", {"wandb-id"}},
  };
}

std::vector<config::IgnoredFlags> laion_ignored_flags() {
  return {
      {"shards behind s3:// and https:// are known by their address", {"remotedata"}, {}},
      {"evaluation is always divided among the ranks", {"parallel-eval"}, {}},
      {"threads decode ahead as far as their buffer goes", {}, {"prefetch-factor"}},
      {"nothing is downloaded", {}, {"openai-model-cache-dir"}},
      {"the text tower has names of its own already", {"force-custom-text"}, {}},
      {"a start waits for nothing", {}, {"sleep"}},
  };
}

std::vector<config::IgnoredFlags> ignored_flags() {
  return {
      {"the model is compiled C++ already",
       {"torchscript", "torchcompile", "trace"},
       {"torchcompile-strategy", "torchcompile-backend", "torchcompile-mode"}},
      {"gradient buckets are planned once, before the first step", {"ddp-static-graph"}, {}},
      {"a rank takes the only visible GPU, else the one of its local rank", {"no-set-device-rank"}, {}},
      {"the program is one file; the run's record holds the commit it was built from", {"copy-codebase"}, {}},
      {"the address given to --remote-sync says it", {}, {"remote-sync-protocol"}},
      {"no optimiser here has it beside its betas", {}, {"momentum", "momentum-new", "momentum-pretrained"}},
      {"it belongs to --fsdp, which is not in this version",
       {"fsdp-no-reshard-after-forward", "fsdp-offload-cpu"},
       {"fsdp-checkpoint"}},
      {"it belongs to --use-naflex, which is not in this version",
       {},
       {"naflex-patch-sizes", "naflex-patch-size-probs", "naflex-seq-lens", "naflex-seq-len-probs",
        "naflex-max-tokens-per-batch", "naflex-max-text-tokens", "naflex-num-train-image-tokens", "naflex-pad-multiple",
        "naflex-batch-divisor", "naflex-loss-scale"}},
      {"decoding runs in threads (--workers)",
       {},
       {"audio-multiprocessing-context", "audio-zeroshot-workers", "audio-zeroshot-multiprocessing-context"}},
      {"text behind the end token costs nothing here, so there is nothing to gain by sorting",
       {"length-bucketing"},
       {"bucket-pool", "bucket-chunk", "bucket-prefetch-pools", "text-pad-multiple"}},
      {"every step is in steps.jsonl", {}, {"log-metric-every-n-steps"}},
      {"retrieval is always computed in tiles, in fp32", {}, {"val-retrieval-chunk-size", "val-retrieval-precision"}},
  };
}
}  // namespace

void declare_openclip_foreign_flags(core::OptionSet& set, bool is_clap) {
  config::refuse_guessed_flags(set);
  set.refuse("mock-data", "made-up input has another name here", "use --dataset-type synthetic --train-num-samples N");
  const std::vector<const char*> foreign =
      is_clap ? std::vector{"image-key",           "csv-caption-key", "max-image-pixels",    "aug-cfg",
                            "image-mean",          "image-std",       "image-interpolation", "image-resize-mode",
                            "image-fill-color",    "resize-order",    "force-image-size",    "force-quick-gelu",
                            "force-patch-dropout", "imagenet-val",    "imagenet-v2"}
              : std::vector{"audio-ext", "audio-fill", "audio-trunc", "audio-int16-normalize"};
  for (const char* name : foreign)
    set.refuse(name, is_clap ? "`train clap` reads sounds, no pictures" : "`train clip` reads pictures, no sounds",
               is_clap ? "drop it; pictures are trained on by `lockstep train clip`"
                       : "drop it; sounds are trained on by `lockstep train clap`");
  static const std::array refused = {release_flags(), development_flags()};
  static const std::vector<config::IgnoredFlags> ignored = ignored_flags();
  for (const auto& groups : refused) config::refuse_flags(set, groups);
  config::ignore_flags(set, ignored);
  if (!is_clap) return;
  static const std::vector<config::RefusedFlags> refused_of_laion = laion_flags();
  static const std::vector<config::IgnoredFlags> ignored_of_laion = laion_ignored_flags();
  config::refuse_flags(set, refused_of_laion);
  config::ignore_flags(set, ignored_of_laion);
}

}  // namespace lockstep::tasks
