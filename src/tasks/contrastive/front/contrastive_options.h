#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/contrastive_shape.h"
#include "config/grad_sync_kind.h"
#include "config/locked_features.h"
#include "config/run_options.h"
#include "config/tower_weights.h"
#include "core/options.h"
#include "data/shards/sample.h"
#include "plan/batch_plan.h"
#include "tasks/contrastive/front/option_groups.h"

namespace lockstep::tasks {

/// Every option of `train clip` and `train clap`, one field per flag beside those of RunOptions and of the groups. Flag
/// names and defaults are those of OpenCLIP 3.3.0 where it has the flag, of its development version for audio. What an
/// empty field means stands in the help of its flag (declare_contrastive_options).
struct ContrastiveOptions : config::RunOptions, ContrastiveGroups {
  ContrastiveOptions() {
    task = "clip";  // or "clap": the command; set before declaring
    model = "RN50";
    precision = "amp";
    gpu_math = config::kOpenclipGpuMath;
  }
  bool is_clap() const { return task == "clap"; }
  bool has_made_up_data() const;  ///< By --dataset-type.
  bool evaluates_only() const { return train_data.empty() && !has_made_up_data(); }

  // Data
  std::string train_data;                                     // --train-data
  std::optional<std::string> train_data_upsampling_factors;   // --train-data-upsampling-factors, "1::0.5"
  std::string val_data;                                       // --val-data
  std::optional<int64_t> train_num_samples, val_num_samples;  // --train-num-samples, --val-num-samples
  std::string dataset_type = "auto";  // --dataset-type: auto, or a kind of data::captioned_datasets
  bool dataset_resampled = false;     // --dataset-resampled
  std::string csv_separator = "\t", csv_img_key = "filepath", csv_caption_key = "title";
  std::string csv_label_key = "label";                               // --csv-label-key, of --zeroshot-data
  std::string image_key{data::kDefaultImageKeys}, text_key = "txt";  // --image-key, --text-key
  std::optional<std::string> json_text_key;                          // --json-text-key, "A;B"
  std::vector<double> json_text_key_probs;                           // --json-text-key-probs
  int64_t micro_batch_size = 64;                                     // --batch-size; see plan/batch_plan.h
  std::optional<int64_t> global_batch;                               // --global-batch-size
  int64_t workers = 4;                                               // --workers, decoding threads per rank
  std::string data_order = "lockstep";                               // --data-order {lockstep,openclip}
  int64_t data_lanes = 64;                                           // --data-lanes
  std::string shuffle = "on";                                        // --shuffle {on,off}
  std::string on_bad_sample = "stop";                                // --on-bad-sample {stop,skip}
  std::optional<int64_t> max_bad_samples;                            // --max-bad-samples, only with skip
  std::string index_dir;                                             // --index-dir
  int64_t max_image_pixels = 25'000'000;                             // --max-image-pixels

  // Image and text preparation
  std::string train_transform = "train";           // --train-transform {train,eval}
  std::string resize_order = "pillow13";           // --resize-order {pillow13,horizontal}
  std::vector<double> image_mean, image_std;       // --image-mean, --image-std: none, 1 or 3 values
  std::optional<std::string> image_interpolation;  // --image-interpolation {bicubic,bilinear}
  std::optional<std::string> image_resize_mode;    // --image-resize-mode {shortest,longest,squash}
  std::optional<int64_t> image_fill_color;         // --image-fill-color, 0 to 255
  std::vector<std::string> aug_cfg;                // --aug-cfg KEY=VALUE...; see aug_cfg.h
  std::string tokenizer_vocab;                     // --tokenizer-vocab

  // Sounds (clap)
  std::string audio_ext{data::kDefaultAudioKeys};  // --audio-ext, members of a sample that hold the sound
  std::string audio_fill = "repeatpad";            // --audio-fill {repeatpad,pad,repeat}
  std::string audio_trunc = "rand_trunc";          // --audio-trunc {rand_trunc,trunc,centre}
  bool audio_int16_normalize = true;               // --audio-int16-normalize, --no-audio-int16-normalize

  // Optimisation
  int64_t epochs = 32;                      // --epochs
  std::optional<int64_t> max_steps;         // --max-steps, optimiser steps
  std::optional<int64_t> epochs_cooldown;   // --epochs-cooldown
  std::optional<double> beta1, beta2, eps;  // and lr: filled from the model name by parse_command
  double wd = 0.2;                          // --wd
  int64_t warmup_steps = 10000;             // --warmup
  std::string opt = "adamw";                // --opt, see config/optimizers.h
  bool skip_scheduler = false;              // --skip-scheduler
  std::string lr_scheduler = "cosine";      // --lr-scheduler {cosine,const,const-cooldown}
  double lr_cooldown_end = 0.0, lr_cooldown_power = 1.0;
  int64_t accum_freq = 1;                // --accum-freq, micro-batches per optimiser step
  std::optional<double> grad_clip_norm;  // --grad-clip-norm

  // Model and precision
  bool list_models = false;                     // --list-models; the front prints the list and ends
  bool list_pretrained = false;                 // --list-pretrained; likewise
  std::string pretrained;                       // --pretrained FILE
  bool grad_checkpointing = false;              // --grad-checkpointing
  std::optional<int64_t> force_context_length;  // --force-context-length
  std::vector<int64_t> force_image_size;        // --force-image-size: none, one value or two equal ones
  bool force_quick_gelu = false;                // --force-quick-gelu
  std::optional<double> force_patch_dropout;    // --force-patch-dropout
  bool force_custom_text = false;               // --force-custom-text
  bool use_bn_sync = false;                     // --use-bn-sync

  // Gradients over ranks
  std::string grad_sync = "auto";          // --grad-sync {auto,none,ddp,zero1}
  bool use_distributed_optimizer = false;  // --use-distributed-optimizer; sets grad_sync
  bool fp32_gradients = false;             // --accumulate-allreduce-grads-in-fp32
  double bucket_mib = 25.0;                // --bucket-mb

  // Checkpoint
  int64_t save_frequency_epochs = 1;        // --save-frequency, 0 = only at the end
  std::string save_format = "lockstep";     // --save-format {lockstep,openclip}
  bool save_most_recent = false;            // --save-most-recent
  bool delete_previous_checkpoint = false;  // --delete-previous-checkpoint

  // Logging
  int64_t train_loss_ema_samples = 0;  // --train-loss-ema-samples, 0 = means of the epoch

  // Dry run
  std::string device_memory;  // --device-memory SIZE|NAME, only with --dry-run
};

/// Declares every flag of `train TASK` (options.task) for the fields of `options`, and by name the OpenCLIP flags that
/// are refused or have no effect here.
core::OptionSet declare_contrastive_options(ContrastiveOptions& options);

/// What the weights and the model's name decide where the user did not. UsageError for a configuration beside weights
/// that cannot be read.
void fill_contrastive_defaults(ContrastiveOptions& options, core::OptionSet& set);
/// OpenCLIP's defaults by model name for lr, beta1, beta2 and eps where the user gave none ("vit" anywhere in the name,
/// any case, or not).
void fill_optimizer_defaults(ContrastiveOptions& options, core::OptionSet& set);

/// --grad-sync on `num_ranks` ranks, with auto decided.
config::GradSyncKind grad_sync_kind(const ContrastiveOptions& options, int64_t num_ranks);

/// Refuses options that contradict each other (UsageError names both flags). Returns warnings: legal, but rarely what
/// is meant.
std::vector<std::string> check_contrastive_options(const ContrastiveOptions& options, const core::OptionSet& set);

/// Warnings that only the model's shape gives reason for.
std::vector<std::string> shape_warnings(const ContrastiveOptions& options, const config::ContrastiveShape& shape);

/// All parameters, with decay groups and learning rates as the options say: the groups are OpenCLIP's for AdamW, those
/// of timm for optimisers of timm. UsageError as config::set_layer_decay and config::exclude_from_decay.
std::vector<config::ParamSpec> updated_specs(const ContrastiveOptions& options, const config::ContrastiveShape& shape);

/// The numbers of an optimiser, with all flags counted.
struct UpdateNumbers {
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, wd = 0;
};
/// Of pretrained parameters (they differ with --split-opt), or of the others.
UpdateNumbers update_numbers(const ContrastiveOptions& options, bool is_pretrained);

/// Weights that single towers of a run without checkpoint begin with.
config::TowerWeightNames tower_weight_names(const ContrastiveOptions& options);

/// Why --cache-locked-features does not serve a tower. UsageError where it serves neither.
config::FeatureCacheRefusals feature_cache_refusals(const ContrastiveOptions& options, const config::ClipShape& shape);

/// What a run must know of the options.
config::RunFacts contrastive_run_facts(const ContrastiveOptions& options);

/// The model of --model, the --force-* flags and --siglip. UsageError as config::resolve_contrastive_shape.
config::ContrastiveShape contrastive_shape_of(const ContrastiveOptions& options);
/// The model of --distill-model; for options.has_teacher(). UsageError likewise.
config::ContrastiveShape teacher_shape_of(const ContrastiveOptions& options);

/// How the batch flags share out samples over this many ranks, each of them a data rank. Without --global-batch-size
/// the defaults of --batch-size and --accum-freq count, with it only what the user gave. UsageError with the nearest
/// legal values on a misfit.
plan::BatchPlan contrastive_batch_plan(const ContrastiveOptions& options, const core::OptionSet& set,
                                       int64_t num_ranks);

}  // namespace lockstep::tasks
