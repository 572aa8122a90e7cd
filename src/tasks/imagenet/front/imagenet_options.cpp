#include "tasks/imagenet/front/imagenet_options.h"

#include "config/image_options.h"
#include "config/optimizers.h"
#include "core/strings.h"
#include "data/train_stream.h"
#include "tasks/front/device_memory.h"
#include "tasks/imagenet/front/imagenet_options_foreign.h"

namespace lockstep::tasks {
using core::OptionRole;
namespace {

std::vector<std::string> dataset_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const data::DatasetName& kind : data::labelled_datasets()) choices.push_back(kind.name);
  return choices;
}

void declare_imagenet_data(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Data");
  set.add_positional("data", &o.data,
                     {.role = OptionRole::kConfiguration,
                      .help = "Folder whose folders train and val have one folder of pictures for each class. Not read "
                              "where --train-data, --val-data or --dummy say what to read.",
                      .metavar = "DIR"});
  set.add("train-data", &o.train_data,
          {.role = OptionRole::kConfiguration,
           .help = "Training data, pictures with labels: a folder of class folders, an LMDB (`lockstep data to-lmdb`), "
                   "WebDataset shards with .cls members as a brace pattern ('/d/{00000..00099}.tar'), or a .csv or "
                   ".tsv file.",
           .metavar = "SPEC",
           .unset_text = "DIR/train"});
  set.add("val-data", &o.val_data,
          {.role = OptionRole::kNoInfluence,
           .help = "Validation data, in the forms of --train-data.",
           .metavar = "SPEC",
           .unset_text = "DIR/val, with --train-data none"});
  set.add("dataset-type", &o.dataset_type,
          {.role = OptionRole::kConfiguration,
           .help = "Kind of data set. auto goes by the name: folders are imagefolder or lmdb, .tar and pipe: are "
                   "webdataset, .csv and .tsv csv. --val-data goes by its name where that tells.",
           .choices = dataset_choices()});
  set.add("dummy", &o.is_dummy,
          {.role = OptionRole::kConfiguration,
           .help = "Made-up pictures of noise, 16 in turn, with random labels: --dataset-type synthetic."});
  set.add("train-num-samples", &o.train_num_samples,
          {.role = OptionRole::kIdentity,
           .help = "Pictures of one epoch. Needed where no index, sizes.json or __len__ beside the shards tells.",
           .unit = "pictures",
           .unset_text = "size of the data set; made up: 1281167",
           .min = 1,
           .max = 1e12});
  set.add("val-num-samples", &o.val_num_samples,
          {.role = OptionRole::kNoInfluence,
           .help = "With made-up data: pictures of an evaluation; 0: none.",
           .unit = "pictures",
           .min = 0,
           .max = 1e12});
  set.add("dataset-repeat", &o.dataset_repeat,
          {.role = OptionRole::kIdentity,
           .help = "An epoch reads the training data so many times: small sets stand in for large ones.",
           .unit = "times",
           .min = 1,
           .max = 1000});
  set.add(
      "stage-to", &o.stage_to,
      {.role = OptionRole::kIdentity,
       .help = "Copies the training data, not the validation data, once per node to this folder, on storage of the "
               "node or in /dev/shm, and reads them there. Sizes and hashes are compared; the time is logged apart.",
       .metavar = "DIR"});
  set.add("num-classes", &o.num_classes,
          {.role = OptionRole::kConfiguration,
           .help = "Classes that the network tells apart; labels count from 0.",
           .unit = "classes",
           .unset_text = "the class folders of the training data, or of the LMDB made of them, else 1000",
           .min = 1,
           .max = 1e7});
  set.add("image-key", &o.image_key,
          {.role = OptionRole::kConfiguration,
           .help = "WebDataset members that hold the picture, joined with ';'.",
           .metavar = "EXT;EXT"});
  set.add("csv-separator", &o.csv_separator,
          {.role = OptionRole::kConfiguration, .help = "Separator of columns in CSV data.", .metavar = "CHAR"});
  set.add(
      "csv-img-key", &o.csv_img_key,
      {.role = OptionRole::kConfiguration, .help = "CSV column with the path of the picture.", .metavar = "COLUMN"});
  set.add(
      "csv-label-key", &o.csv_label_key,
      {.role = OptionRole::kConfiguration, .help = "CSV column with the number of the class.", .metavar = "COLUMN"});
  set.add("workers", &o.workers,
          {.role = OptionRole::kConfiguration,
           .help = "Decoding threads of each rank.",
           .unit = "threads per rank",
           .min = 1,
           .max = 1024,
           .aliases = {"j"}});
}

void declare_imagenet_order(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Data order and damage");
  set.add("data-lanes", &o.data_lanes,
          {.role = OptionRole::kConfiguration,
           .help = "Independent shard sequences that make up the order; ranks should divide it. Fewer where there are "
                   "fewer shards.",
           .unit = "lanes",
           .min = 1,
           .max = 1 << 20});
  set.add("shuffle", &o.shuffle,
          {.role = OptionRole::kConfiguration,
           .help = "on: shuffle pictures, keyed by --seed and epoch. off: keep the order given.",
           .choices = {"on", "off"}});
  set.add("on-bad-sample", &o.on_bad_sample,
          {.role = OptionRole::kConfiguration,
           .help = "stop: a picture that cannot be read or decoded ends the run. skip: it is replaced, counted and "
                   "listed in the run's folder. Evaluation data have no substitutes: there it is left out and counted.",
           .choices = {"stop", "skip"}});
  set.add("max-bad-samples", &o.max_bad_samples,
          {.role = OptionRole::kNoInfluence,
           .help = "With --on-bad-sample skip: more bad pictures than this end the run.",
           .unit = "pictures",
           .unset_text = "1000",
           .min = 0});
  set.add("index-dir", &o.index_dir,
          {.role = OptionRole::kIdentity,
           .help = "Folder of the index that `lockstep data index` wrote.",
           .metavar = "DIR",
           .unset_text = "beside the shards"});
  set.add("max-image-pixels", &o.max_image_pixels,
          {.role = OptionRole::kConfiguration,
           .help = "Larger pictures are bad samples (decompression bombs).",
           .unit = "pixels",
           .min = 1});
}

void declare_imagenet_preparation(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Preparation of pictures");
  set.add("train-transform", &o.train_transform,
          {.role = OptionRole::kConfiguration,
           .help = "train: random resized crop and flip. eval: the evaluation transform, for reproducible comparisons.",
           .choices = {"train", "eval"}});
  set.add("train-crop-size", &o.image_pixels,
          {.role = OptionRole::kConfiguration,
           .help = "Side of the pictures that the network sees in training.",
           .unit = "pixels",
           .min = 8,
           .max = 8192,
           .aliases = {"image-size"}});
  set.add("val-crop-size", &o.val_pixels,
          {.role = OptionRole::kConfiguration,
           .help = "Side of the pictures that the network sees in evaluation (torchvision's ResNet-50 V2: 224 behind a "
                   "training crop of 176). A ViT has one size.",
           .unit = "pixels",
           .unset_text = "as --train-crop-size",
           .min = 8,
           .max = 8192});
  set.add("val-resize-size", &o.resize_pixels,
          {.role = OptionRole::kConfiguration,
           .help = "Evaluation: the shortest side becomes this long, then the centre is cut out.",
           .unit = "pixels",
           .unset_text = "8/7 of --val-crop-size: 256 of 224",
           .min = 8,
           .max = 8192});
  set.add("scale", &o.scale,
          {.role = OptionRole::kConfiguration,
           .help = "Random resized crop: smallest and largest share of the picture's area.",
           .metavar = "MIN MAX"});
  set.add("ratio", &o.ratio,
          {.role = OptionRole::kConfiguration,
           .help = "Random resized crop: smallest and largest width over height.",
           .metavar = "MIN MAX"});
  set.add("hflip", &o.hflip,
          {.role = OptionRole::kConfiguration,
           .help = "How often pictures are mirrored left to right.",
           .min = 0,
           .max = 1});
  set.add("interpolation", &o.interpolation,
          {.role = OptionRole::kConfiguration, .help = "Filter of the resize.", .choices = {"bilinear", "bicubic"}});
  set.add(
      "jpeg-decode", &o.jpeg_decode,
      {.role = OptionRole::kConfiguration,
       .help = "exact: torchvision's pixels. scaled: JPEG pictures whose crop has at least twice the result's width "
               "and height are decoded at a half, a quarter or an eighth of their size, which is faster; "
               "docs/imagenet.md tells how far the results are apart.",
       .choices = {"exact", "scaled"}});
  set.add(
      "auto-augment", &o.auto_augment,
      {.role = OptionRole::kConfiguration,
       .help = "Operations on training pictures, drawn as torchvision draws them: imagenet (AutoAugment's pairs), ra "
               "(RandAugment, two of --ra-magnitude), ta_wide (TrivialAugment).",
       .choices = {"none", "imagenet", "ra", "ta_wide"},
       .refused_choices = {{"augmix", "use imagenet, ra or ta_wide"}}});
  set.add("ra-magnitude", &o.ra_magnitude,
          {.role = OptionRole::kConfiguration, .help = "Strength of --auto-augment ra.", .min = 0, .max = 30});
  set.add("random-erase", &o.random_erase,
          {.role = OptionRole::kConfiguration,
           .help = "How often a box of a training picture is erased (2 to 33 % of its area).",
           .min = 0,
           .max = 1});
  set.add("image-mean", &o.image_mean,
          {.role = OptionRole::kConfiguration,
           .help = "Mean of each colour, taken off: one or three numbers.",
           .unset_text = "0.485 0.456 0.406"});
  set.add("image-std", &o.image_std,
          {.role = OptionRole::kConfiguration,
           .help = "Deviation of each colour, divided by: one or three numbers.",
           .unset_text = "0.229 0.224 0.225"});
}

void declare_imagenet_batch(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Batch and length");
  set.add("batch-size", &o.global_batch,
          {.role = OptionRole::kSetup,
           .help = "Pictures of one optimiser step over ALL ranks (the global batch). In PyTorch's example it is the "
                   "batch of one node: with several nodes multiply by their number.",
           .unit = "pictures",
           .unset_text = "256, or from --micro-batch-size",
           .min = 1,
           .max = 1e12,
           .aliases = {"b", "global-batch-size"}});
  set.add("micro-batch-size", &o.micro_batch_size,
          {.role = OptionRole::kSetup,
           .help = "Pictures of one forward pass of one rank. Without --batch-size the global batch is this x "
                   "--accum-freq x number of ranks: weak scaling.",
           .unit = "pictures per rank",
           .unset_text = "from --batch-size",
           .min = 1,
           .max = 1e9});
  set.add("accum-freq", &o.accum_freq,
          {.role = OptionRole::kSetup,
           .help = "Micro-batches of one optimiser step. What is computed is the large batch but for batch norm, whose "
                   "statistics are those of a micro-batch.",
           .unit = "micro-batches",
           .min = 1,
           .max = 1e6,
           .aliases = {"gradient-accumulation-steps"}});
  set.add("epochs", &o.epochs,
          {.role = OptionRole::kIdentity, .help = "Epochs to train.", .unit = "epochs", .min = 1, .max = 1e6});
  set.add("max-steps", &o.max_steps,
          {.role = OptionRole::kIdentity,
           .help = "Stop after this many optimiser steps, counted from the first of the run; the learning rate keeps "
                   "the schedule of --epochs.",
           .unit = "steps",
           .unset_text = "by --epochs",
           .min = 1});
}

void declare_imagenet_optimizer(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Optimisation");
  set.add("opt", &o.opt,
          {.role = OptionRole::kConfiguration,
           .help = "Optimiser. lars scales the gradient of each weight by the norms of both (large batches).",
           .choices = config::optimizer_names(),
           .refused_choices = {{"rmsprop", "use sgd, lars or adamw"}, {"sgd_nesterov", "use --opt sgd --nesterov"}}});
  set.add("momentum", &o.momentum,
          {.role = OptionRole::kSchedule, .help = "SGD, LARS: momentum.", .min = 0, .max = 1, .is_max_excluded = true});
  set.add("nesterov", &o.nesterov,
          {.role = OptionRole::kConfiguration, .help = "SGD, LARS: Nesterov's form of momentum."});
  set.add("wd", &o.wd, {.role = OptionRole::kSchedule, .help = "Weight decay.", .min = 0, .aliases = {"weight-decay"}});
  set.add("norm-weight-decay", &o.norm_weight_decay,
          {.role = OptionRole::kSchedule,
           .help = "Weight decay of norms: 0 leaves them out; no other than that of --wd.",
           .unset_text = "as --wd",
           .min = 0});
  set.add("bias-weight-decay", &o.bias_weight_decay,
          {.role = OptionRole::kSchedule,
           .help = "Weight decay of biases: 0 leaves them out; no other than that of --wd.",
           .unset_text = "as --wd",
           .min = 0});
  set.add("lars-trust-coefficient", &o.trust_coefficient,
          {.role = OptionRole::kSchedule,
           .help = "LARS: norm of an update over norm of its weight, before --lr.",
           .min = 0,
           .is_min_excluded = true});
  set.add("beta1", &o.beta1,
          {.role = OptionRole::kSchedule,
           .help = "AdamW: decay of the first moment.",
           .min = 0,
           .max = 1,
           .is_max_excluded = true});
  set.add("beta2", &o.beta2,
          {.role = OptionRole::kSchedule,
           .help = "AdamW: decay of the second moment.",
           .min = 0,
           .max = 1,
           .is_max_excluded = true});
  set.add("eps", &o.eps,
          {.role = OptionRole::kSchedule,
           .help = "AdamW: added to the root of the second moment.",
           .min = 0,
           .is_min_excluded = true});
  set.add("clip-grad-norm", &o.clip_grad_norm,
          {.role = OptionRole::kConfiguration,
           .help = "Largest global L2 norm of the gradient.",
           .unset_text = "no clipping",
           .min = 0,
           .is_min_excluded = true,
           .aliases = {"grad-clip-norm"}});
  config::declare_run_flags(set, o, {"seed"});
}

void declare_imagenet_schedule(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Learning rate");
  set.add("lr", &o.lr,
          {.role = OptionRole::kSchedule,
           .help = "Peak learning rate, of a batch of --lr-base-batch where that is given.",
           .min = 0,
           .aliases = {"learning-rate"}});
  set.add("lr-base-batch", &o.lr_base_batch,
          {.role = OptionRole::kSchedule,
           .help = "Linear-scaling rule: the rate is --lr x global batch / this (Goyal et al. 2017: 256).",
           .unit = "pictures",
           .unset_text = "the rate is --lr",
           .min = 1});
  set.add("lr-scheduler", &o.lr_scheduler,
          {.role = OptionRole::kSchedule,
           .help = "After the warm-up. step: times --lr-gamma every --lr-step-size epochs. cosine: half a cosine down "
                   "to --lr-min. poly: (1 - progress)^--lr-power, down to --lr-min. const. torchvision's names of "
                   "them are taken, too: steplr, cosineannealinglr; and multisteplr with --lr-milestones, polynomial.",
           .choices = {"step", "cosine", "poly", "const"},
           .choice_aliases =
               {{"steplr", "step"}, {"multisteplr", "step"}, {"cosineannealinglr", "cosine"}, {"polynomial", "poly"}},
           .refused_choices = {{"exponentiallr", "use step with --lr-step-size 1"}}});
  set.add("lr-step-size", &o.lr_step_size,
          {.role = OptionRole::kSchedule,
           .help = "step: epochs between two steps, counted from the end of the warm-up.",
           .unit = "epochs",
           .min = 1,
           .max = 1e6});
  set.add("lr-milestones", &o.lr_milestones,
          {.role = OptionRole::kSchedule,
           .help = "step: epochs at which the rate falls, instead of --lr-step-size (Goyal et al.: 30 60 80).",
           .unit = "epochs",
           .min = 0});
  set.add("lr-gamma", &o.lr_gamma, {.role = OptionRole::kSchedule, .help = "step: factor of a step.", .min = 0});
  set.add("lr-power", &o.lr_power, {.role = OptionRole::kSchedule, .help = "poly: the exponent.", .min = 0});
  set.add("lr-min", &o.lr_min, {.role = OptionRole::kSchedule, .help = "cosine, poly: rate at the end.", .min = 0});
  set.add("lr-warmup-epochs", &o.warmup_epochs,
          {.role = OptionRole::kSchedule,
           .help = "Linear warm-up, a little higher at every step.",
           .unit = "epochs",
           .min = 0,
           .max = 1e6});
  set.add("lr-warmup-method", &o.warmup_method,
          {.role = OptionRole::kSchedule,
           .help = "Shape of the warm-up.",
           .choices = {"linear"},
           .refused_choices = {{"constant", "use linear, or --lr-warmup-epochs 0"}}});
  set.add("lr-warmup-decay", &o.warmup_decay,
          {.role = OptionRole::kSchedule, .help = "The warm-up begins at this share of the peak.", .min = 0, .max = 1});
}

void declare_imagenet_regularisation(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Loss");
  set.add("label-smoothing", &o.label_smoothing,
          {.role = OptionRole::kConfiguration,
           .help = "Share of the target that all classes have alike.",
           .min = 0,
           .max = 1});
  set.add("mixup-alpha", &o.mixup_alpha,
          {.role = OptionRole::kConfiguration,
           .help = "Mixup: pictures and labels of two samples are averaged, by a share drawn from Beta(alpha, alpha) "
                   "for each micro-batch; 0: off.",
           .min = 0});
  set.add("cutmix-alpha", &o.cutmix_alpha,
          {.role = OptionRole::kConfiguration,
           .help = "CutMix: a box of another sample lies in the picture. With both, each micro-batch draws one.",
           .min = 0});
}

void declare_imagenet_average(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Average of the weights");
  set.add("model-ema", &o.has_average,
          {.role = OptionRole::kConfiguration,
           .help = "Keeps a moving average of weights and running statistics, evaluates it beside the weights, and "
                   "stores it in checkpoints. Until the warm-up ends it is a copy."});
  set.add("model-ema-steps", &o.average_steps,
          {.role = OptionRole::kConfiguration,
           .help = "Steps from one update of the average to the next, counted in each epoch.",
           .unit = "steps",
           .min = 1,
           .max = 1e6});
  set.add("model-ema-decay", &o.average_decay,
          {.role = OptionRole::kConfiguration,
           .help = "What stays of the average, as torchvision means it: of 1 - this, an update moves the average by "
                   "global batch x --model-ema-steps / --epochs times as much, and at most to the weights.",
           .min = 0,
           .max = 1});
}

void declare_imagenet_model(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Model and precision");
  set.add("arch", &o.model,
          {.role = OptionRole::kSetup,
           .help = "Network, by torchvision's name: " + core::join(config::classifier_names(), ", ") + ".",
           .metavar = "NAME",
           .aliases = {"a", "model"}});
  set.add("pretrained", &o.pretrained,
          {.role = OptionRole::kConfiguration,
           .help = "Weights to start from: torchvision's .pth, a checkpoint of PyTorch's example, .safetensors, or a "
                   "checkpoint of a run here. Nothing is downloaded. Training on another number of classes begins with "
                   "a new last layer.",
           .metavar = "FILE",
           .aliases = {"weights"}});
  set.add("precision", &o.precision,
          {.role = OptionRole::kSetup,
           .help = "amp: parameters fp32, compute fp16 with loss scaling on CUDA, bf16 autocast on the CPU. amp_bf16: "
                   "bf16 autocast. fp32.",
           .choices = {"fp32", "amp", "amp_bf16"},
           .choice_aliases = {{"amp_bfloat16", "amp_bf16"}},
           .refused_choices = {{"bf16", "use amp_bf16"}, {"fp16", "use amp"}}});
  set.add("amp", &o.is_amp, {.role = OptionRole::kSetup, .help = "--precision amp."});
  set.add("channels-last", &o.channels_last,
          {.role = OptionRole::kConfiguration, .help = "Colours and channels lie side by side in memory (NHWC)."});
  set.add("zero-init-residual", &o.zero_last_norm,
          {.role = OptionRole::kConfiguration,
           .help = "ResNet: the scale of the last batch norm of each block starts at 0, so that a block begins as the "
                   "identity."});
  set.add("sync-bn", &o.sync_bn,
          {.role = OptionRole::kConfiguration, .help = "ResNet: batch-norm statistics over all ranks."});
  set.add("freeze-bn", &o.freeze_bn,
          {.role = OptionRole::kConfiguration,
           .help = "ResNet: batch norm keeps its running statistics in training, as evaluation does (fine-tuning)."});
}

void declare_imagenet_distributed(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Device and ranks");
  config::declare_run_flags(set, o,
                            {"device", "dist-backend", "dist-url", "dist-rank", "dist-world-size", "dist-local-rank",
                             "dist-timeout", "join-timeout"});
  set.add("grad-sync", &o.grad_sync,
          {.role = OptionRole::kConfiguration,
           .help = "auto: ddp with several ranks, none with one. ddp: gradients averaged in buckets while backward "
                   "runs. zero1: each rank receives, and updates, its share of every bucket, then all gather the "
                   "weights.",
           .choices = {"auto", "none", "ddp", "zero1"}});
  set.add("bucket-mb", &o.bucket_mib,
          {.role = OptionRole::kConfiguration,
           .help = "Size of a gradient bucket.",
           .unit = "MiB",
           .min = 0,
           .max = 1 << 20,
           .is_min_excluded = true});
  config::declare_run_flags(set, o,
                            {"threads",
                             {"deterministic", {"use-deterministic-algorithms"}},
                             "tf32",
                             "cudnn-tf32",
                             "cudnn-benchmark",
                             "cuda-graphs",
                             "check-replicas"});
}

void declare_imagenet_logging(core::OptionSet& set, ImagenetOptions& o) {
  set.group("Logging");
  config::declare_run_flags(set, o,
                            {"logs",
                             "name",
                             "log-local",
                             {"log-every-n-steps", {"print-freq", "p"}},
                             "report-to",
                             "wandb-project-name",
                             "wandb-notes",
                             "debug"});
  set.group("Profile");
  config::declare_run_flags(set, o,
                            {"profile", "profile-step-start", "profile-step-end", "profile-ranks", "profile-tool"});
  set.group("Evaluation and checkpoints");
  set.add("evaluate", &o.is_evaluate,
          {.role = OptionRole::kIdentity,
           .help = "Evaluate only: with --pretrained or --resume.",
           .aliases = {"e", "test-only"}});
  set.add("val-frequency", &o.val_frequency_epochs,
          {.role = OptionRole::kNoInfluence,
           .help = "Evaluate every N epochs, and at the end; 0: never.",
           .unit = "epochs",
           .min = 0});
  set.add("save-frequency", &o.save_frequency_epochs,
          {.role = OptionRole::kNoInfluence,
           .help = "Save every N epochs; 0: only at the end.",
           .unit = "epochs",
           .min = 0});
  config::declare_run_flags(
      set, o,
      {"save-every-n-steps", "keep", "save-top-performance", "top-k-checkpoint-select-dataset",
       "top-k-checkpoint-select-metric", "resume", "remote-sync", "remote-sync-frequency", "remote-sync-deadline"});
}

}  // namespace

core::OptionSet declare_imagenet_options(ImagenetOptions& options) {
  core::OptionSet set("train imagenet",
                      "Train a ResNet or ViT on labelled pictures. Flags are those of PyTorch's ImageNet example, then "
                      "those of torchvision's reference recipes.");
  set.require_roles();
  set.group("Recipe and dry run");
  set.add_config_option();
  config::declare_run_flags(set, options, {"dry-run", "world-size"});
  declare_device_memory_option(set, &options.device_memory);
  config::declare_run_flags(set, options, {"json"});
  declare_imagenet_data(set, options);
  declare_imagenet_order(set, options);
  declare_imagenet_preparation(set, options);
  declare_imagenet_batch(set, options);
  declare_imagenet_optimizer(set, options);
  declare_imagenet_schedule(set, options);
  declare_imagenet_regularisation(set, options);
  declare_imagenet_average(set, options);
  declare_imagenet_model(set, options);
  declare_imagenet_distributed(set, options);
  declare_imagenet_logging(set, options);
  declare_imagenet_foreign_flags(set);
  return set;
}

}  // namespace lockstep::tasks
