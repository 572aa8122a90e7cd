#include "config/train_options.h"

#include <fmt/format.h>

#include "config/audio_options.h"
#include "config/image_options.h"
#include "config/train_options_refused.h"

namespace lockstep::config {
namespace {
void declare_dataset_type(core::OptionSet& set, TrainOptions& o) {
  if (o.is_clap())
    set.add(
        "dataset-type", &o.dataset_type,
        {.help = "Kind of data set. auto goes by the name: .tar and pipe: are webdataset. synthetic: random waveforms "
                 "with one and the same caption. "
                 "webdataset-audio and synthetic-audio are the same two.",
         .choices = {"auto", "webdataset", "synthetic"},
         .choice_aliases = {{"webdataset-audio", "webdataset"}, {"synthetic-audio", "synthetic"}},
         .refused_choices = {
             {"csv",
              "tables of sounds are not in this version: pack them into shards of .flac and .json or .txt members"}}});
  else
    set.add(
        "dataset-type", &o.dataset_type,
        {.help = "Kind of data set. auto goes by the name: .tar and pipe: are webdataset, .csv and .tsv csv.",
         .choices = {"auto", "webdataset", "csv", "synthetic"},
         .refused_choices = {
             {"imagefolder", "folders of classes hold no captions; they serve as --imagenet-val or --zeroshot-data"},
             {"webdataset-audio", "sounds are trained on by `lockstep train clap`"},
             {"synthetic-audio", "sounds are trained on by `lockstep train clap`"}}});
}

/// Which members or columns hold what.
void declare_members(core::OptionSet& set, TrainOptions& o) {
  if (o.is_clap()) {
    set.add("audio-ext", &o.audio_ext,
            {.help = "WebDataset members that hold the sound, joined with ';'.", .metavar = "EXT;EXT"});
    set.add("text-key", &o.text_key,
            {.help = "WebDataset members that hold the caption, joined with ';'. Of a json member the value of "
                     "\"text\" counts; of a list one is drawn.",
             .metavar = "EXT;EXT"});
    return;
  }
  set.add("csv-separator", &o.csv_separator, {.help = "Separator of columns in CSV data.", .metavar = "CHAR"});
  set.add("csv-img-key", &o.csv_img_key, {.help = "CSV column with the path of the picture.", .metavar = "COLUMN"});
  set.add("csv-caption-key", &o.csv_caption_key, {.help = "CSV column with the caption.", .metavar = "COLUMN"});
  set.add("image-key", &o.image_key,
          {.help = "WebDataset members that hold the picture, joined with ';'.", .metavar = "EXT;EXT"});
  set.add("text-key", &o.text_key,
          {.help = "WebDataset members that hold the caption, joined with ';'.", .metavar = "EXT;EXT"});
}

void declare_data(core::OptionSet& set, TrainOptions& o) {
  set.group("Data");
  set.add(
      "train-data", &o.train_data,
      {.help =
           o.is_clap()
               ? "Training data, sounds with captions: WebDataset shards as a brace pattern ('/d/{00000..00099}.tar', "
                 "'pipe:COMMAND'). Several sources are joined with '::'."
               : "Training data, pictures with captions: WebDataset shards as a brace pattern "
                 "('/d/{00000..00099}.tar', "
                 "'pipe:COMMAND'), or a .csv or .tsv file. Several WebDataset sources are joined with '::'.",
       .metavar = "SPEC",
       .unset_text = "none: evaluate only"});
  set.add(
      "train-data-upsampling-factors", &o.train_data_upsampling_factors,
      {.help =
           "One factor per source of --train-data, joined with '::' (1::2::0.5): how much more often shards of that "
           "source are drawn. "
           "Needs --dataset-resampled.",
       .metavar = "F::F",
       .unset_text = "1 for each"});
  set.add("train-num-samples", &o.train_num_samples,
          {.help = "Samples of one epoch. Needed for synthetic data and where no index, sizes.json or __len__ beside "
                   "the shards tells.",
           .unit = "samples",
           .unset_text = "size of the data set",
           .min = 1,
           .max = 1e12});
  set.add("val-data", &o.val_data, {.help = "Validation data, in the forms of --train-data.", .metavar = "SPEC"});
  set.add("val-num-samples", &o.val_num_samples,
          {.help = "Samples that --val-data should hold: shown as the goal while they are read, with a warning when it "
                   "is another number.",
           .unit = "samples",
           .unset_text = "counted",
           .min = 1});
  declare_dataset_type(set, o);
  set.add("dataset-resampled", &o.dataset_resampled,
          {.help = "Draw shards with replacement instead of reading each once per epoch."});
  declare_members(set, o);
  set.add("batch-size", &o.samples_per_rank,
          {.help = "Samples of one micro-batch on one rank. The global batch is this x --accum-freq x number of ranks.",
           .unit = "samples per rank",
           .min = 1,
           .max = 1e9});
  set.add("global-batch-size", &o.global_batch,
          {.help = "Samples of one optimiser step over all ranks; gives --batch-size.",
           .unit = "samples",
           .unset_text = "from --batch-size",
           .min = 1,
           .max = 1e12});
  set.add("workers", &o.workers,
          {.help = "Decoding threads of each rank.", .unit = "threads per rank", .min = 1, .max = 1024});
}

void declare_data_order(core::OptionSet& set, TrainOptions& o) {
  set.group("Data order and damage");
  set.add(
      "data-order", &o.data_order,
      {.help =
           "lockstep: the global batch of a step holds the same samples on any number of ranks. openclip: OpenCLIP's "
           "streams per worker.",
       .choices = {"lockstep", "openclip"}});
  set.add(
      "data-lanes", &o.data_lanes,
      {.help =
           "Independent shard sequences that make up the lockstep order; ranks should divide it. Fewer where there are "
           "fewer shards.",
       .unit = "lanes",
       .min = 1,
       .max = 1 << 20});
  set.add("shuffle", &o.shuffle,
          {.help = "on: shuffle shards and samples, keyed by --seed and epoch. off: keep both in the order given.",
           .choices = {"on", "off"}});
  set.add("on-bad-sample", &o.on_bad_sample,
          {.help = "stop: a sample that cannot be read or decoded ends the run. skip: it is replaced, counted and "
                   "listed in the run's folder. "
                   "Evaluation data have no substitutes: a bad sample there ends the run when it is evaluated; "
                   "`lockstep data inspect` finds it before.",
           .choices = {"stop", "skip"}});
  set.add("max-bad-samples", &o.max_bad_samples,
          {.help = "With --on-bad-sample skip: more bad samples than this end the run.",
           .unit = "samples",
           .unset_text = "1000",
           .min = 0});
  set.add("index-dir", &o.index_dir,
          {.help = "Folder of the index that `lockstep data index` wrote.",
           .metavar = "DIR",
           .unset_text = "beside the shards"});
  if (!o.is_clap())
    set.add("max-image-pixels", &o.max_image_pixels,
            {.help = "Larger pictures are bad samples (decompression bombs).", .unit = "pixels", .min = 1});
}

void declare_preparation(core::OptionSet& set, TrainOptions& o) {
  set.group(o.is_clap() ? "Sound and text preparation" : "Image and text preparation");
  set.add(
      "train-transform", &o.train_transform,
      {.help = o.is_clap()
                   ? "train: --audio-trunc as it says. eval: the evaluation transform, for reproducible comparisons."
                   : "train: random resized crop. eval: the evaluation transform, for reproducible comparisons.",
       .choices = {"train", "eval"}});
  if (o.is_clap()) {
    declare_audio_options(set, {&o.audio_fill, &o.audio_trunc, &o.audio_int16_normalize});
    set.add("tokenizer-vocab", &o.tokenizer_vocab,
            {.help = "RoBERTa's vocabulary: a folder with vocab.json and merges.txt or with tokenizer.json, or the "
                     "latter file itself.",
             .metavar = "DIR|FILE",
             .unset_text = "synthetic data: texts of full length"});
    return;
  }
  set.add("aug-cfg", &o.aug_cfg,
          {.help = "Changes of the random resized crop: scale=(MIN,MAX) as fractions of the area, ratio=(MIN,MAX) "
                   "width over height.",
           .metavar = "KEY=VALUE",
           .unset_text = "scale=(0.9,1.0) ratio=(0.75,1.3333)"});
  declare_image_options(set,
                        {&o.image_mean, &o.image_std, &o.image_interpolation, &o.image_resize_mode, &o.resize_order});
  set.add("tokenizer-vocab", &o.tokenizer_vocab,
          {.help = "Byte-pair vocabulary in the format of OpenAI's bpe_simple_vocab_16e6.txt.gz.",
           .metavar = "FILE",
           .unset_text = "the one fetched at set-up"});
}

void declare_optimisation(core::OptionSet& set, TrainOptions& o) {
  set.group("Optimisation");
  set.add("epochs", &o.epochs, {.help = "Epochs to train.", .unit = "epochs", .min = 1, .max = 1e6});
  set.add(
      "max-steps", &o.max_steps,
      {.help = "Stop after this many optimiser steps, counted from the first of the run; the learning rate keeps the "
               "schedule of --epochs.",
       .unit = "steps",
       .unset_text = "by --epochs",
       .min = 1});
  set.add("lr", &o.lr, {.help = "Peak learning rate.", .unset_text = "5e-4", .min = 0, .is_min_excluded = true});
  set.add(
      "beta1", &o.beta1,
      {.help = "AdamW: decay of the first moment.", .unset_text = "0.9", .min = 0, .max = 1, .is_max_excluded = true});
  set.add("beta2", &o.beta2,
          {.help = "AdamW: decay of the second moment.",
           .unset_text = "0.98 if the model name contains 'vit', else 0.999",
           .min = 0,
           .max = 1,
           .is_max_excluded = true});
  set.add("eps", &o.eps,
          {.help = "AdamW: added to the root of the second moment.",
           .unset_text = "1e-6 if the model name contains 'vit', else 1e-8",
           .min = 0,
           .is_min_excluded = true});
  set.add("wd", &o.wd, {.help = "AdamW: weight decay (not of gains, biases and scalars).", .min = 0});
  set.add("warmup", &o.warmup_steps, {.help = "Linear warm-up.", .unit = "optimiser steps", .min = 0, .max = 1e12});
  set.add("opt", &o.opt,
          {.help = "Optimiser.", .choices = {"adamw"}, .refused_choices = {{"nadamw", "use --opt adamw"}}});
  set.add("lr-scheduler", &o.lr_scheduler,
          {.help = "Learning rate after the warm-up: half a cosine to zero, constant, or constant with a cool-down "
                   "over the last "
                   "--epochs-cooldown epochs.",
           .choices = {"cosine", "const", "const-cooldown"}});
  set.add("epochs-cooldown", &o.epochs_cooldown,
          {.help = "Length of the cool-down; only with --lr-scheduler const-cooldown.", .unit = "epochs", .min = 1});
  set.add("lr-cooldown-end", &o.lr_cooldown_end, {.help = "Learning rate at the end of the cool-down.", .min = 0});
  set.add("lr-cooldown-power", &o.lr_cooldown_power, {.help = "Exponent of the cool-down; 1 is linear.", .min = 0});
  set.add("skip-scheduler", &o.skip_scheduler,
          {.help = "Keep --lr from the first step to the last: no warm-up, no schedule."});
  set.add("accum-freq", &o.accum_freq,
          {.help = "Micro-batches of one optimiser step. Features are cached, so that the loss is that of the whole "
                   "batch; costs "
                   "a second forward "
                   "pass.",
           .unit = "micro-batches",
           .min = 1,
           .max = 1e6});
  set.add("grad-clip-norm", &o.grad_clip_norm,
          {.help = "Largest global L2 norm of the gradient.",
           .unset_text = "no clipping",
           .min = 0,
           .is_min_excluded = true});
  set.add("seed", &o.seed, {.help = "Seed of parameters, data order, crops and dropout.", .min = 0});
}

void declare_model(core::OptionSet& set, TrainOptions& o) {
  set.group("Model, precision and loss");
  set.add(
      "model", &o.model,
      {.help = o.is_clap() ? "Name of a CLAP model (HTSAT-tiny-Roberta-base, HTSAT-base-Roberta-base, ...), or a JSON "
                             "file in LAION's or OpenCLIP's format."
                           : "Name of an OpenCLIP model (ViT-B-32, RN50, ...), or a JSON file in OpenCLIP's format.",
       .metavar = "NAME|FILE.json"});
  set.add(
      "pretrained", &o.pretrained,
      {.help = o.is_clap() ? "Weights to start from: .safetensors or .pt, with the names of LAION's CLAP, OpenCLIP or "
                             "Hugging Face. Tags are not downloaded."
                           : "Weights to start from: .safetensors, or an OpenCLIP .pt file. Tags are not downloaded.",
       .metavar = "FILE"});
  set.add(
      "precision", &o.precision,
      {.help = "amp: parameters fp32, compute fp16 with loss scaling on CUDA, bf16 autocast on the CPU. amp_bf16: bf16 "
               "autocast. bf16: weights "
               "bf16, norms fp32. pure_bf16: everything bf16. bf16_master: all weights bf16, updated through fp32 "
               "master copies (NeMo's "
               "bf16 O2, megatron_amp_O2; Megatron's --bf16). fp16_master: the same in fp16 with loss scaling. fp32.",
       .choices = {"amp", "amp_bf16", "bf16", "pure_bf16", "bf16_master", "fp16_master", "fp32"},
       .choice_aliases = {{"amp_bfloat16", "amp_bf16"}},
       .refused_choices = {{"fp16", "use fp16_master: fp16 weights without a master copy lose updates"},
                           {"pure_fp16", "use fp16_master: fp16 weights without a master copy lose updates"}}});
  set.add("grad-checkpointing", &o.grad_checkpointing,
          {.help = "Recompute activations in the backward pass, block by block: less memory, one more forward pass."});
  set.add("force-context-length", &o.force_context_length,
          {.help = "Text tokens.", .unit = "tokens", .unset_text = "by the model", .min = 2, .max = 65536});
  if (!o.is_clap()) {
    declare_shape_overrides(set, {&o.force_image_size, &o.force_quick_gelu});
    set.add("force-patch-dropout", &o.force_patch_dropout,
            {.help = "Share of image patches left out while training.",
             .unset_text = "by the model",
             .min = 0,
             .max = 1,
             .is_max_excluded = true});
  }
  set.add("use-bn-sync", &o.use_bn_sync,
          {.help = o.is_clap() ? "Batch-norm statistics of the audio tower over all ranks."
                               : "Batch-norm statistics over all ranks (ModifiedResNet models)."});
  set.add("local-loss", &o.local_loss,
          {.help = "Each rank computes only its own rows of the logits. Alone, without --gather-with-grad, the "
                   "gradient is biased."});
  set.add("gather-with-grad", &o.gather_with_grad, {.help = "Let gradients flow through the gather of features."});
}

void declare_distributed(core::OptionSet& set, TrainOptions& o) {
  set.group("Device and ranks");
  set.add("device", &o.device,
          {.help = "auto: CUDA where a GPU is visible, else the CPU.", .choices = {"auto", "cuda", "cpu"}});
  set.add("dist-backend", &o.dist_backend,
          {.help = "auto: NCCL on CUDA, Gloo on the CPU.",
           .choices = {"auto", "nccl", "gloo"},
           .refused_choices = {{"hccl", "use nccl or gloo: Ascend devices are not supported"},
                               {"ccl", "use nccl or gloo: Intel XPU devices are not supported"}}});
  set.add("dist-url", &o.dist_url,
          {.help = "Where ranks meet: tcp://HOST:PORT, or env:// for MASTER_ADDR and MASTER_PORT.",
           .metavar = "URL",
           .unset_text = "from torchrun, SLURM or MPI"});
  set.add("dist-rank", &o.dist_rank,
          {.help = "Rank of this process, with --dist-world-size; where no launcher tells.",
           .unset_text = "discovered",
           .min = 0,
           .max = 1 << 24});
  set.add("dist-world-size", &o.dist_world_size,
          {.help = "Number of ranks, with --dist-rank.",
           .unit = "ranks",
           .unset_text = "discovered",
           .min = 1,
           .max = 1 << 24});
  set.add("dist-local-rank", &o.dist_local_rank,
          {.help = "Rank within this machine; picks the GPU.", .unset_text = "discovered", .min = 0, .max = 4096});
  set.add("dist-timeout", &o.dist_timeout_s,
          {.help = "A collective that takes longer ends the run and names the missing ranks.",
           .unit = "seconds",
           .min = 0,
           .max = 1e6,
           .is_min_excluded = true});
  set.add("grad-sync", &o.grad_sync,
          {.help = "auto: ddp with several ranks, none with one. ddp: gradients averaged in buckets while backward "
                   "runs. zero1: each rank "
                   "receives, and updates, its share of every bucket, then all gather the weights (ZeRO stage 1): "
                   "moments and master copies "
                   "take a share of the memory, what is computed stays the same.",
           .choices = {"auto", "none", "ddp", "zero1"}});
  set.add("use-distributed-optimizer", &o.use_distributed_optimizer, {.help = "Megatron's name of --grad-sync zero1."});
  set.add("accumulate-allreduce-grads-in-fp32", &o.fp32_gradients,
          {.help = "Gradients of 16-bit weights are added up over micro-batches, and averaged over ranks, in fp32. "
                   "Needs --precision bf16_master or "
                   "fp16_master."});
  set.add("bucket-mb", &o.bucket_mib,
          {.help = "Size of a gradient bucket.", .unit = "MiB", .min = 0, .max = 1 << 20, .is_min_excluded = true});
  set.add(
      "threads", &o.threads,
      {.help = "Compute threads of each rank; 0: the cores of this process shared out among the ranks of the machine.",
       .unit = "threads per rank",
       .min = 0,
       .max = 4096});
  set.add("deterministic", &o.deterministic,
          {.help = "Only kernels that give the same bits in every run; may be slower."});
  set.add("check-replicas", &o.check_replicas_steps,
          {.help = "Compare a hash of the parameters across ranks every N steps; a difference stops the run. 0: never.",
           .unit = "steps",
           .min = 0});
}

void declare_profile(core::OptionSet& set, TrainOptions& o) {
  set.group("Profile");
  set.add("profile", &o.profile,
          {.help = "Trace some steps; the run is marked as no measurement. `lockstep profile train ...` sets it."});
  set.add("profile-step-start", &o.profile_step_start,
          {.help = "First step that is traced.", .unit = "step from 0", .min = 0});
  set.add("profile-step-end", &o.profile_step_end,
          {.help = "Step before which the trace ends. Without --max-steps the run ends there, too.",
           .unit = "step from 0",
           .min = 1});
  set.add("profile-ranks", &o.profile_ranks,
          {.help = "Ranks that are traced, such as 0,1,4-7, or all.", .metavar = "RANKS"});
  set.add("profile-tool", &o.profile_tool,
          {.help = "kineto: Chrome traces in the run's folder profile/. nsys: ranges and capture range for Nsight "
                   "Systems, under which the ranks then run.",
           .choices = {"kineto", "nsys"}});
}

void declare_logging(core::OptionSet& set, TrainOptions& o) {
  set.group("Logging");
  set.add("logs", &o.logs,
          {.help = "Folder of runs; this one lands in LOGS/NAME.",
           .metavar = "DIR",
           .refused_choices = {{"none", "a run always leaves its record; name a folder"},
                               {"None", "a run always leaves its record; name a folder"},
                               {"", "a run always leaves its record; name a folder"}}});
  set.add("name", &o.name,
          {.help = "Name of the run. An existing one is refused without --resume.",
           .metavar = "NAME",
           .unset_text = "time and main options"});
  set.add("log-local", &o.log_local, {.help = "Every rank writes its own log file, not rank 0 alone."});
  set.add("log-every-n-steps", &o.log_every_n_steps, {.help = "Distance of log lines.", .unit = "steps", .min = 1});
  set.add(
      "report-to", &o.report_to,
      {.help = "tensorboard: also write TensorBoard event files.",
       .choices = {"none", "tensorboard"},
       .choice_aliases = {{"", "none"}, {"tensorboard,", "tensorboard"}, {",tensorboard", "tensorboard"}},
       .refused_choices = {{"wandb", "use --report-to tensorboard; the record of a run is plain JSON, easy to upload"},
                           {"all", "use --report-to tensorboard"},
                           {"wandb,tensorboard", "use --report-to tensorboard"},
                           {"tensorboard,wandb", "use --report-to tensorboard"},
                           {"trackio", "use --report-to tensorboard"}}});
  set.add("debug", &o.debug, {.help = "Log more."});
}

void declare_checkpoint(core::OptionSet& set, TrainOptions& o) {
  set.group("Checkpoints");
  set.add("save-frequency", &o.save_frequency_epochs,
          {.help = "Save every N epochs; 0: only at the end.", .unit = "epochs", .min = 0});
  set.add("save-every-n-steps", &o.save_every_n_steps,
          {.help = "Also save every N optimiser steps; 0: do not.", .unit = "steps", .min = 0});
  set.add(
      "save-most-recent", &o.save_most_recent,
      {.help = "Save after every epoch, whatever --save-frequency says. Older ones stay unless --keep limits them."});
  set.add("delete-previous-checkpoint", &o.delete_previous_checkpoint,
          {.help = "Remove the previous checkpoint when a new one is complete."});
  set.add("keep", &o.keep,
          {.help = "Keep the newest N checkpoints.", .unit = "checkpoints", .unset_text = "all", .min = 1});
  set.add("resume", &o.resume,
          {.help = "Go on from a checkpoint: a path, or latest, which starts afresh where there is none yet.",
           .metavar = "latest|PATH"});
}

void declare_zero_shot(core::OptionSet& set, TrainOptions& o) {
  if (o.is_clap()) {
    set.add("zeroshot-data", &o.zeroshot_data,
            {.help = "Sounds for zero-shot classification: a folder with one sub-folder per class, or shards with the "
                     "member 'cls'; needs --classnames.",
             .metavar = "DIR|SPEC"});
  } else {
    set.add(
        "imagenet-val", &o.imagenet_val,
        {.help =
             "ImageNet validation pictures for zero-shot evaluation: a folder with one sub-folder per class, or shards "
             "with the member 'cls'.",
         .metavar = "DIR|SPEC"});
    set.add(
        "zeroshot-data", &o.zeroshot_data,
        {.help = "Other pictures for zero-shot evaluation, in the forms of --imagenet-val; needs --classnames, which "
                 "then belongs to these pictures alone.",
         .metavar = "DIR|SPEC"});
  }
  set.add("classnames", &o.classnames,
          {.help = "Class names for zero-shot evaluation, one per line in the order of the class numbers.",
           .metavar = "FILE",
           .unset_text = o.is_clap() ? "none" : "ImageNet's"});
  set.add("templates", &o.templates,
          {.help = "Prompts for zero-shot evaluation, one per line with {} for the class name.",
           .metavar = "FILE",
           .unset_text = o.is_clap() ? "This is a sound of {}." : "the 80 prompts of OpenAI"});
}

void declare_evaluation(core::OptionSet& set, TrainOptions& o) {
  set.group("Evaluation");
  set.add("val-frequency", &o.val_frequency_epochs,
          {.help = "Evaluate on --val-data every N epochs and at the end; 0: never.", .unit = "epochs", .min = 0});
  set.add("zeroshot-frequency", &o.zeroshot_frequency_epochs,
          {.help = "Zero-shot evaluation every N epochs and at the end; 0: never.", .unit = "epochs", .min = 0});
  declare_zero_shot(set, o);
}
}  // namespace

core::OptionSet declare_train_options(TrainOptions& options) {
  if (options.is_clap()) {
    options.model = "HTSAT-tiny-Roberta-base";
    options.text_key = "json;txt";
  }
  core::OptionSet set("train " + options.task,
                      fmt::format("Train a {} model on {} and captions. Flags are OpenCLIP's where it has them.",
                                  options.is_clap() ? "CLAP" : "CLIP", options.is_clap() ? "sounds" : "pictures"));
  set.group("Recipe and dry run");
  set.add_config_option();
  set.add("dry-run", &options.dry_run, {.help = "Print what would be run, and exit."});
  set.add("world-size", &options.world_size,
          {.help = "With --dry-run: ask about this many ranks.",
           .unit = "ranks",
           .unset_text = "as found",
           .min = 1,
           .max = 1 << 24});
  set.add("device-memory", &options.device_memory,
          {.help = "With --dry-run: plan for a device of this memory (64G), or of this name (H100, A100 64GB, MI250X).",
           .metavar = "SIZE|NAME",
           .unset_text = "this machine's"});
  set.add("json", &options.json, {.help = "With --dry-run: machine-readable output."});
  declare_data(set, options);
  declare_data_order(set, options);
  declare_preparation(set, options);
  declare_optimisation(set, options);
  declare_model(set, options);
  declare_distributed(set, options);
  declare_logging(set, options);
  declare_profile(set, options);
  declare_checkpoint(set, options);
  declare_evaluation(set, options);
  refuse_openclip_flags(set, options.is_clap());
  return set;
}

}  // namespace lockstep::config
