#include "tasks/contrastive/front/contrastive_options.h"

#include <fmt/format.h>

#include "config/audio_options.h"
#include "config/image_options.h"
#include "config/optimizers.h"
#include "data/sounds/sound_caption.h"
#include "data/train_stream.h"
#include "tasks/contrastive/front/contrastive_options_foreign.h"
#include "tasks/front/device_memory.h"

namespace lockstep::tasks {
using core::OptionRole;
namespace {
void declare_dataset_type(core::OptionSet& set, ContrastiveOptions& o) {
  std::vector<std::string> choices = {"auto"};
  core::TextPairs aliases;
  for (const data::DatasetName& kind :
       data::captioned_datasets(o.is_clap() ? data::Media::kSounds : data::Media::kPictures)) {
    const bool is_noise = kind.name == data::DatasetType::kSyntheticAudio;  // what users of either task call synthetic
    choices.push_back(is_noise ? data::DatasetType::kSynthetic : kind.name);
    if (is_noise) aliases.emplace_back(kind.name, choices.back());
    if (!kind.alias.empty()) aliases.emplace_back(kind.alias, choices.back());
  }
  if (o.is_clap())
    set.add(
        "dataset-type", &o.dataset_type,
        {.role = OptionRole::kConfiguration,
         .help = "Kind of data set. auto goes by the name: .tar and pipe: are webdataset. synthetic: random waveforms "
                 "with one and the same caption. "
                 "webdataset-audio and synthetic-audio are the same two.",
         .choices = choices,
         .choice_aliases = aliases,
         .refused_choices = {
             {"csv",
              "tables of sounds are not in this version: pack them into shards of .flac and .json or .txt members"}}});
  else
    set.add(
        "dataset-type", &o.dataset_type,
        {.role = OptionRole::kConfiguration,
         .help = "Kind of data set. auto goes by the name: .tar and pipe: are webdataset, .csv and .tsv csv.",
         .choices = choices,
         .refused_choices = {
             {"imagefolder", "folders of classes hold no captions; they serve as --imagenet-val or --zeroshot-data"},
             {"webdataset-audio", "sounds are trained on by `lockstep train clap`"},
             {"synthetic-audio", "sounds are trained on by `lockstep train clap`"}}});
}

void declare_label_column(core::OptionSet& set, ContrastiveOptions& o) {
  set.add("csv-label-key", &o.csv_label_key,
          {.role = OptionRole::kConfiguration,
           .help = "CSV column with the number of the class, of --zeroshot-data.",
           .metavar = "COLUMN"});
}

/// Which members or columns hold what.
void declare_members(core::OptionSet& set, ContrastiveOptions& o) {
  if (o.is_clap()) {
    set.add("csv-separator", &o.csv_separator,
            {.role = OptionRole::kConfiguration,
             .help = "Separator of columns in a table of --zeroshot-data.",
             .metavar = "CHAR"});
    set.add("csv-img-key", &o.csv_img_key,
            {.role = OptionRole::kConfiguration,
             .help = "CSV column with the path of the recording, of --zeroshot-data.",
             .metavar = "COLUMN"});
    declare_label_column(set, o);
    set.add("audio-ext", &o.audio_ext,
            {.role = OptionRole::kConfiguration,
             .help = "WebDataset members that hold the sound, joined with ';'.",
             .metavar = "EXT;EXT"});
    set.add("text-key", &o.text_key,
            {.role = OptionRole::kConfiguration,
             .help = "WebDataset members that hold the caption, joined with ';'. Of a json member the value of "
                     "\"text\" counts; of a list one is drawn.",
             .metavar = "EXT;EXT"});
    for (const char* name : {"json-text-key", "json-text-key-probs"})
      set.refuse(name, "of a json member \"text\" or \"caption\" is the caption of a sound", "drop it");
    return;
  }
  set.add("csv-separator", &o.csv_separator,
          {.role = OptionRole::kConfiguration, .help = "Separator of columns in CSV data.", .metavar = "CHAR"});
  set.add(
      "csv-img-key", &o.csv_img_key,
      {.role = OptionRole::kConfiguration, .help = "CSV column with the path of the picture.", .metavar = "COLUMN"});
  set.add("csv-caption-key", &o.csv_caption_key,
          {.role = OptionRole::kConfiguration, .help = "CSV column with the caption.", .metavar = "COLUMN"});
  declare_label_column(set, o);
  set.add("image-key", &o.image_key,
          {.role = OptionRole::kConfiguration,
           .help = "WebDataset members that hold the picture, joined with ';'.",
           .metavar = "EXT;EXT"});
  set.add("text-key", &o.text_key,
          {.role = OptionRole::kConfiguration,
           .help = "WebDataset members that hold the caption, joined with ';'.",
           .metavar = "EXT;EXT"});
  set.add("json-text-key", &o.json_text_key,
          {.role = OptionRole::kConfiguration,
           .help = "WebDataset: the caption is in the json member, in the first of these of its values that is a text "
                   "and not empty; joined with ';'. --text-key is then not used.",
           .metavar = "KEY;KEY"});
  set.add("json-text-key-probs", &o.json_text_key_probs,
          {.role = OptionRole::kConfiguration,
           .help = "In training an order of the keys is drawn for each sample by these weights, one a key; keys of "
                   "weight 0, or without one, come last. Evaluation takes the keys as they stand.",
           .metavar = "P...",
           .unset_text = "the order of the keys",
           .min = 0});
}

void declare_data(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Data");
  set.add(
      "train-data", &o.train_data,
      {.role = OptionRole::kConfiguration,
       .help =
           o.is_clap()
               ? "Training data, sounds with captions: WebDataset shards as a brace pattern ('/d/{00000..00099}.tar', "
                 "s3:// and https:// too, 'pipe:COMMAND'). Several sources are joined with '::'."
               : "Training data, pictures with captions: WebDataset shards as a brace pattern "
                 "('/d/{00000..00099}.tar', s3:// and https:// too, "
                 "'pipe:COMMAND'), or a .csv or .tsv file. Several WebDataset sources are joined with '::'.",
       .metavar = "SPEC",
       .unset_text = "none: evaluate only"});
  set.add(
      "train-data-upsampling-factors", &o.train_data_upsampling_factors,
      {.role = OptionRole::kConfiguration,
       .help =
           "One factor per source of --train-data, joined with '::' (1::2::0.5): how much more often shards of that "
           "source are drawn. "
           "Needs --dataset-resampled.",
       .metavar = "F::F",
       .unset_text = "1 for each"});
  set.add("train-num-samples", &o.train_num_samples,
          {.role = OptionRole::kIdentity,
           .help = "Samples of one epoch. Needed for synthetic data and where no index, sizes.json or __len__ beside "
                   "the shards tells.",
           .unit = "samples",
           .unset_text = "size of the data set",
           .min = 1,
           .max = 1e12});
  set.add(
      "val-data", &o.val_data,
      {.role = OptionRole::kNoInfluence, .help = "Validation data, in the forms of --train-data.", .metavar = "SPEC"});
  set.add("val-num-samples", &o.val_num_samples,
          {.role = OptionRole::kNoInfluence,
           .help = "Samples that --val-data should hold: shown as the goal while they are read, with a warning when it "
                   "is another number.",
           .unit = "samples",
           .unset_text = "counted",
           .min = 1});
  declare_dataset_type(set, o);
  set.add("dataset-resampled", &o.dataset_resampled,
          {.role = OptionRole::kConfiguration,
           .help = "Draw shards with replacement instead of reading each once per epoch."});
  declare_members(set, o);
}

void declare_batch(core::OptionSet& set, ContrastiveOptions& o) {
  set.add("batch-size", &o.micro_batch_size,
          {.role = OptionRole::kSetup,
           .help = "Samples of one micro-batch on one rank. The global batch is this x --accum-freq x number of ranks.",
           .unit = "samples per rank",
           .min = 1,
           .max = 1e9});
  set.add("global-batch-size", &o.global_batch,
          {.role = OptionRole::kSetup,
           .help = "Samples of one optimiser step over all ranks; gives --batch-size.",
           .unit = "samples",
           .unset_text = "from --batch-size",
           .min = 1,
           .max = 1e12});
  set.add("workers", &o.workers,
          {.role = OptionRole::kConfiguration,
           .help = "Decoding threads of each rank.",
           .unit = "threads per rank",
           .min = 1,
           .max = 1024});
}

void declare_data_order(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Data order and damage");
  set.add(
      "data-order", &o.data_order,
      {.role = OptionRole::kConfiguration,
       .help =
           "lockstep: the global batch of a step holds the same samples on any number of ranks. openclip: OpenCLIP's "
           "streams per worker.",
       .choices = {"lockstep", "openclip"}});
  set.add(
      "data-lanes", &o.data_lanes,
      {.role = OptionRole::kConfiguration,
       .help =
           "Independent shard sequences that make up the lockstep order; ranks should divide it. Fewer where there are "
           "fewer shards.",
       .unit = "lanes",
       .min = 1,
       .max = 1 << 20});
  set.add("shuffle", &o.shuffle,
          {.role = OptionRole::kConfiguration,
           .help = "on: shuffle shards and samples, keyed by --seed and epoch. off: keep both in the order given.",
           .choices = {"on", "off"}});
  set.add("on-bad-sample", &o.on_bad_sample,
          {.role = OptionRole::kConfiguration,
           .help = "stop: a sample that cannot be read or decoded ends the run. skip: it is replaced, counted and "
                   "listed in the run's folder. Evaluation data have no substitutes: there it is left out and counted.",
           .choices = {"stop", "skip"}});
  set.add("max-bad-samples", &o.max_bad_samples,
          {.role = OptionRole::kNoInfluence,
           .help = "With --on-bad-sample skip: more bad samples than this end the run.",
           .unit = "samples",
           .unset_text = "1000",
           .min = 0});
  set.add("index-dir", &o.index_dir,
          {.role = OptionRole::kIdentity,
           .help = "Folder of the index that `lockstep data index` wrote.",
           .metavar = "DIR",
           .unset_text = "beside the shards"});
  if (!o.is_clap())
    set.add("max-image-pixels", &o.max_image_pixels,
            {.role = OptionRole::kConfiguration,
             .help = "Larger pictures are bad samples (decompression bombs).",
             .unit = "pixels",
             .min = 1});
}

void declare_preparation(core::OptionSet& set, ContrastiveOptions& o) {
  set.group(o.is_clap() ? "Sound and text preparation" : "Image and text preparation");
  set.add(
      "train-transform", &o.train_transform,
      {.role = OptionRole::kConfiguration,
       .help = o.is_clap()
                   ? "train: --audio-trunc as it says. eval: the evaluation transform, for reproducible comparisons."
                   : "train: random resized crop. eval: the evaluation transform, for reproducible comparisons.",
       .choices = {"train", "eval"}});
  if (o.is_clap()) {
    config::declare_audio_options(set, {&o.audio_fill, &o.audio_trunc, &o.audio_int16_normalize});
    set.add("tokenizer-vocab", &o.tokenizer_vocab,
            {.role = OptionRole::kConfiguration,
             .help = "RoBERTa's vocabulary: a folder with vocab.json and merges.txt or with tokenizer.json, or the "
                     "latter file itself.",
             .metavar = "DIR|FILE",
             .unset_text = "synthetic data: texts of full length"});
    return;
  }
  set.add("aug-cfg", &o.aug_cfg,
          {.role = OptionRole::kConfiguration,
           .help = "What happens to pictures in training: scale=(MIN,MAX) of the random resized crop as fractions of "
                   "the area, ratio=(MIN,MAX) width over height; "
                   "color_jitter=(BRIGHTNESS,CONTRAST,SATURATION,HUE) with color_jitter_prob=P; gray_scale_prob=P.",
           .metavar = "KEY=VALUE",
           .unset_text = "scale=(0.9,1.0) ratio=(0.75,1.3333)"});
  config::declare_image_options(set, {&o.image_mean, &o.image_std, &o.image_interpolation, &o.image_resize_mode,
                                      &o.image_fill_color, &o.resize_order});
  set.add("tokenizer-vocab", &o.tokenizer_vocab,
          {.role = OptionRole::kConfiguration,
           .help = "Byte-pair vocabulary in the format of OpenAI's bpe_simple_vocab_16e6.txt.gz; for models with other "
                   "tokens RoBERTa's (DIR or tokenizer.json) or a SentencePiece file (FILE.model: SigLIP, XLM-RoBERTa, "
                   "worldwide models).",
           .metavar = "FILE|DIR",
           .unset_text = "CLIP's, fetched at set-up"});
}

void declare_optimisation(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Optimisation");
  set.add("epochs", &o.epochs,
          {.role = OptionRole::kIdentity, .help = "Epochs to train.", .unit = "epochs", .min = 1, .max = 1e6});
  set.add(
      "max-steps", &o.max_steps,
      {.role = OptionRole::kIdentity,
       .help = "Stop after this many optimiser steps, counted from the first of the run; the learning rate keeps the "
               "schedule of --epochs.",
       .unit = "steps",
       .unset_text = "by --epochs",
       .min = 1});
  set.add("lr", &o.lr, {.role = OptionRole::kSchedule, .help = "Peak learning rate.", .unset_text = "5e-4", .min = 0});
  set.add("beta1", &o.beta1,
          {.role = OptionRole::kSchedule,
           .help = "Decay of the first moment.",
           .unset_text = "0.9",
           .min = 0,
           .max = 1,
           .is_max_excluded = true});
  set.add("beta2", &o.beta2,
          {.role = OptionRole::kSchedule,
           .help = "Decay of the second moment; Lion: of the momentum.",
           .unset_text = "0.98 if the model name contains 'vit', else 0.999; Lion: 0.99; LAMB: 0.999",
           .min = 0,
           .max = 1,
           .is_max_excluded = true});
  set.add("eps", &o.eps,
          {.role = OptionRole::kSchedule,
           .help = "Added to the root of the second moment; Lion has no use for it.",
           .unset_text = "1e-6 if the model name contains 'vit' or for LAMB, else 1e-8",
           .min = 0,
           .is_min_excluded = true});
  set.add("wd", &o.wd,
          {.role = OptionRole::kSchedule, .help = "Weight decay (not of gains, biases and scalars).", .min = 0});
  set.add("warmup", &o.warmup_steps,
          {.role = OptionRole::kSchedule, .help = "Linear warm-up.", .unit = "optimiser steps", .min = 0, .max = 1e12});
  set.add(
      "opt", &o.opt,
      {.role = OptionRole::kConfiguration,
       .help = "Optimiser. lion and lamb are timm's, with its defaults and its choice of what decays: OpenCLIP's own "
               "position embeddings do not, but CoCa's do.",
       .choices = config::optimizer_names(config::OptimizerFlags::kBetas),
       .choice_aliases = {{"timm/lion", "lion"}, {"timm/lamb", "lamb"}},
       .refused_choices = {{"nadamw", "use --opt adamw"}, {"timm/adamw", "use --opt adamw"}}});
}

void declare_schedule_and_accumulation(core::OptionSet& set, ContrastiveOptions& o) {
  set.add("lr-scheduler", &o.lr_scheduler,
          {.role = OptionRole::kSchedule,
           .help = "Learning rate after the warm-up: half a cosine to zero, constant, or constant with a cool-down "
                   "over the last "
                   "--epochs-cooldown epochs.",
           .choices = {"cosine", "const", "const-cooldown"}});
  set.add("epochs-cooldown", &o.epochs_cooldown,
          {.role = OptionRole::kSchedule,
           .help = "Length of the cool-down; only with --lr-scheduler const-cooldown.",
           .unit = "epochs",
           .min = 1});
  set.add("lr-cooldown-end", &o.lr_cooldown_end,
          {.role = OptionRole::kSchedule, .help = "Learning rate at the end of the cool-down.", .min = 0});
  set.add("lr-cooldown-power", &o.lr_cooldown_power,
          {.role = OptionRole::kSchedule, .help = "Exponent of the cool-down; 1 is linear.", .min = 0});
  set.add(
      "skip-scheduler", &o.skip_scheduler,
      {.role = OptionRole::kSchedule, .help = "Keep --lr from the first step to the last: no warm-up, no schedule."});
  set.add("accum-freq", &o.accum_freq,
          {.role = OptionRole::kSetup,
           .help = "Micro-batches of one optimiser step. Features are cached, so that the loss is that of the whole "
                   "batch; costs "
                   "a second forward "
                   "pass.",
           .unit = "micro-batches",
           .min = 1,
           .max = 1e6});
  set.add("grad-clip-norm", &o.grad_clip_norm,
          {.role = OptionRole::kConfiguration,
           .help = "Largest global L2 norm of the gradient.",
           .unset_text = "no clipping",
           .min = 0,
           .is_min_excluded = true});
  config::declare_run_flags(set, o, {"seed"});
}

void declare_model(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Model and precision");
  set.add(
      "model", &o.model,
      {.role = OptionRole::kSetup,
       .help = o.is_clap() ? "Name of a CLAP model (HTSAT-tiny-Roberta-base, HTSAT-base-Roberta-base, ...), or a JSON "
                             "file in LAION's or OpenCLIP's format."
                           : "Name of an OpenCLIP model (ViT-B-32, RN50, ...), a JSON file in OpenCLIP's format, or a "
                             "configuration with weights beside it: hf-hub:ORG/NAME in a local cache, local-dir:DIR.",
       .metavar = o.is_clap() ? "NAME|FILE.json" : "NAME|FILE.json|hf-hub:ORG/NAME|local-dir:DIR"});
  if (!o.is_clap()) {
    set.add("list-models", &o.list_models,
            {.role = OptionRole::kNoInfluence,
             .help = "Print OpenCLIP's configurations, which are all here, with their sizes, and end."});
    set.add("list-pretrained", &o.list_pretrained,
            {.role = OptionRole::kNoInfluence,
             .help = "Print the models and tags that --pretrained knows, and which of them are in a local cache, and "
                     "end."});
  }
  set.add(
      "pretrained", &o.pretrained,
      {.role = OptionRole::kConfiguration,
       .help = o.is_clap() ? "Weights to start from: .safetensors or .pt, with the names of LAION's CLAP, OpenCLIP or "
                             "Hugging Face. Nothing is downloaded."
                           : "Weights to start from: .safetensors, an OpenCLIP .pt file, or what OpenCLIP calls them: "
                             "a tag (laion2b_s34b_b79k) or hf-hub:ORG/NAME, found in the caches of Hugging Face and "
                             "OpenCLIP. Nothing is downloaded.",
       .metavar = o.is_clap() ? "FILE" : "FILE|TAG|hf-hub:ORG/NAME"});
  set.add(
      "precision", &o.precision,
      {.role = OptionRole::kSetup,
       .help = "amp: parameters fp32, compute fp16 with loss scaling on CUDA, bf16 autocast on the CPU. amp_bf16: bf16 "
               "autocast. bf16: weights "
               "bf16, norms fp32. pure_bf16: everything bf16. bf16_master: all weights bf16, updated through fp32 "
               "master copies (NeMo's "
               "bf16 O2, megatron_amp_O2; Megatron's --bf16). fp16_master: the same in fp16 with loss scaling. fp32.",
       .choices = {"amp", "amp_bf16", "bf16", "pure_bf16", "bf16_master", "fp16_master", "fp32"},
       .choice_aliases = {{"amp_bfloat16", "amp_bf16"}},
       .refused_choices = {{"fp16", "use fp16_master: fp16 weights without a master copy lose updates"},
                           {"pure_fp16", "use fp16_master: fp16 weights without a master copy lose updates"}}});
  set.add("grad-checkpointing", &o.grad_checkpointing,
          {.role = OptionRole::kConfiguration,
           .help = "Recompute activations in the backward pass, block by block: less memory, one more forward pass."});
  set.add("force-context-length", &o.force_context_length,
          {.role = OptionRole::kConfiguration,
           .help = "Text tokens.",
           .unit = "tokens",
           .unset_text = "by the model",
           .min = 2,
           .max = 65536});
  if (!o.is_clap()) {
    config::declare_shape_overrides(set, {&o.force_image_size, &o.force_quick_gelu});
    set.add("force-patch-dropout", &o.force_patch_dropout,
            {.role = OptionRole::kConfiguration,
             .help = "Share of image patches left out while training.",
             .unset_text = "by the model",
             .min = 0,
             .max = 1,
             .is_max_excluded = true});
    set.add("force-custom-text", &o.force_custom_text,
            {.role = OptionRole::kConfiguration,
             .help = "Names of the text tower begin with text., in files and where random weights are drawn by name, "
                     "as OpenCLIP's CustomTextCLIP has them."});
  }
  set.add("use-bn-sync", &o.use_bn_sync,
          {.role = OptionRole::kConfiguration,
           .help = o.is_clap() ? "Batch-norm statistics of the audio tower over all ranks."
                               : "Batch-norm statistics over all ranks (ModifiedResNet models)."});
}

void declare_distributed(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Device and ranks");
  config::declare_run_flags(set, o,
                            {"device", "dist-backend", "dist-url", "dist-rank", "dist-world-size", "dist-local-rank",
                             "dist-timeout", "join-timeout"});
  set.add("grad-sync", &o.grad_sync,
          {.role = OptionRole::kConfiguration,
           .help = "auto: ddp with several ranks, none with one. ddp: gradients averaged in buckets while backward "
                   "runs. zero1: each rank "
                   "receives, and updates, its share of every bucket, then all gather the weights (ZeRO stage 1): "
                   "moments and master copies "
                   "take a share of the memory, what is computed stays the same.",
           .choices = {"auto", "none", "ddp", "zero1"}});
  set.add("use-distributed-optimizer", &o.use_distributed_optimizer,
          {.role = OptionRole::kConfiguration, .help = "Megatron's name of --grad-sync zero1."});
  set.add("accumulate-allreduce-grads-in-fp32", &o.fp32_gradients,
          {.role = OptionRole::kConfiguration,
           .help = "Gradients of 16-bit weights are added up over micro-batches, and averaged over ranks, in fp32. "
                   "Needs --precision bf16_master or "
                   "fp16_master."});
  set.add("bucket-mb", &o.bucket_mib,
          {.role = OptionRole::kConfiguration,
           .help = "Size of a gradient bucket.",
           .unit = "MiB",
           .min = 0,
           .max = 1 << 20,
           .is_min_excluded = true});
  config::declare_run_flags(
      set, o, {"threads", "deterministic", "tf32", "cudnn-tf32", "cudnn-benchmark", "cuda-graphs", "check-replicas"});
}

void declare_logging(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Logging");
  config::declare_run_flags(
      set, o,
      {"logs", "name", "log-local", "log-every-n-steps", "report-to", "wandb-project-name", "wandb-notes", "debug"});
  set.add("train-loss-ema-samples", &o.train_loss_ema_samples,
          {.role = OptionRole::kNoInfluence,
           .help = "The losses in brackets on log lines are exponential means over about so many samples, which go on "
                   "from epoch to epoch, as in OpenCLIP's development version; 0: means of the epoch so far. "
                   "TensorBoard and W&B show each loss as it is.",
           .unit = "samples",
           .min = 0});
}

void declare_profile(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Profile");
  config::declare_run_flags(set, o,
                            {"profile", "profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"});
}

void declare_checkpoint(core::OptionSet& set, ContrastiveOptions& o) {
  set.group("Checkpoints");
  set.add("save-frequency", &o.save_frequency_epochs,
          {.role = OptionRole::kNoInfluence,
           .help = "Save every N epochs; 0: only at the end.",
           .unit = "epochs",
           .min = 0});
  config::declare_run_flags(set, o, {"save-every-n-steps"});
  set.add("save-most-recent", &o.save_most_recent,
          {.role = OptionRole::kNoInfluence,
           .help = "Save after every epoch. Of checkpoints that --save-frequency does not ask for the newest stays; "
                   "--keep does not count the others."});
  if (!o.is_clap())
    set.add("save-format", &o.save_format,
            {.role = OptionRole::kNoInfluence,
             .help = "openclip: beside each checkpoint of an epoch's end also epoch_K.pt, from which OpenCLIP resumes; "
                     "with --save-most-recent epoch_latest.pt, too.",
             .choices = {"lockstep", "openclip"}});
  set.add("delete-previous-checkpoint", &o.delete_previous_checkpoint,
          {.role = OptionRole::kNoInfluence, .help = "Remove the previous checkpoint when a new one is complete."});
  config::declare_run_flags(
      set, o,
      {"keep", "save-top-performance", "top-k-checkpoint-select-dataset", "top-k-checkpoint-select-metric", "resume",
       "remote-sync", "remote-sync-frequency", "remote-sync-deadline"});
}
}  // namespace

bool ContrastiveOptions::has_made_up_data() const { return data::is_made_up(dataset_type); }

core::OptionSet declare_contrastive_options(ContrastiveOptions& options) {
  if (options.is_clap()) {
    options.model = "HTSAT-tiny-Roberta-base";
    options.text_key = data::kSoundTextKeys;
  }
  options.takes_openclip_checkpoints = !options.is_clap();
  options.wandb_project = "open-clip";
  core::OptionSet set("train " + options.task,
                      fmt::format("Train a {} model on {} and captions. Flags are OpenCLIP's where it has them.",
                                  options.is_clap() ? "CLAP" : "CLIP", options.is_clap() ? "sounds" : "pictures"));
  set.require_roles();
  set.group("Recipe and dry run");
  set.add_config_option();
  config::declare_run_flags(set, options, {"dry-run", "world-size"});
  declare_device_memory_option(set, &options.device_memory);
  config::declare_run_flags(set, options, {"json"});
  declare_data(set, options);
  declare_batch(set, options);
  declare_data_order(set, options);
  declare_preparation(set, options);
  declare_optimisation(set, options);
  declare_schedule_and_accumulation(set, options);
  declare_model(set, options);
  declare_distributed(set, options);
  declare_logging(set, options);
  declare_profile(set, options);
  declare_checkpoint(set, options);
  options.declare_groups(set, options.task);
  declare_openclip_foreign_flags(set, options.is_clap());
  return set;
}

}  // namespace lockstep::tasks
