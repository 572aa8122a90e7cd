#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/imagenet_models.h"
#include "config/run_options.h"
#include "core/options.h"
#include "data/shards/sample.h"
#include "plan/batch_plan.h"

namespace lockstep::tasks {

/// Every option of `train imagenet`, one field per flag beside those of RunOptions. Flag names and defaults are those
/// of PyTorch's ImageNet example, then those of torchvision's reference recipes. What an empty field means stands in
/// the help of its flag (declare_imagenet_options).
struct ImagenetOptions : config::RunOptions {
  ImagenetOptions() {
    task = "imagenet";
    model = "resnet18";
    precision = "fp32";
    lr = 0.1;
    best.metric = "top1_pct";
    log_every_n_steps = 10;
  }

  // Data
  std::string data = "imagenet";             // DIR with train and val
  std::string train_data, val_data;          // --train-data, --val-data
  std::string dataset_type = "auto";         // --dataset-type
  bool is_dummy = false;                     // --dummy
  std::optional<int64_t> train_num_samples;  // --train-num-samples
  int64_t val_num_samples = 50'000;          // --val-num-samples, of made-up pictures
  int64_t dataset_repeat = 1;                // --dataset-repeat
  std::optional<int64_t> num_classes;        // --num-classes
  std::string stage_to;                      // --stage-to DIR
  std::string image_key{data::kDefaultImageKeys};
  std::string csv_separator = "\t", csv_img_key = "filepath", csv_label_key = "label";
  int64_t workers = 4;                     // -j, --workers
  int64_t data_lanes = 64;                 // --data-lanes
  std::string shuffle = "on";              // --shuffle {on,off}
  std::string on_bad_sample = "stop";      // --on-bad-sample {stop,skip}
  std::optional<int64_t> max_bad_samples;  // --max-bad-samples
  std::string index_dir;                   // --index-dir
  int64_t max_image_pixels = 200'000'000;  // --max-image-pixels

  // Preparation of pictures
  std::string train_transform = "train";        // --train-transform {train,eval}
  int64_t image_pixels = 224;                   // --train-crop-size
  std::optional<int64_t> val_pixels;            // --val-crop-size
  std::optional<int64_t> resize_pixels;         // --val-resize-size
  std::vector<double> scale{0.08, 1.0};         // --scale MIN MAX
  std::vector<double> ratio{0.75, 1.0 / 0.75};  // --ratio MIN MAX
  double hflip = 0.5;                           // --hflip
  std::string interpolation = "bilinear";       // --interpolation {bilinear,bicubic}
  std::string jpeg_decode = "exact";            // --jpeg-decode {exact,scaled}
  std::vector<double> image_mean, image_std;    // --image-mean, --image-std
  std::string auto_augment = "none";            // --auto-augment {none,imagenet,ra,ta_wide}
  int64_t ra_magnitude = 9;                     // --ra-magnitude
  double random_erase = 0;                      // --random-erase

  // Batch
  std::optional<int64_t> global_batch;      // -b, --batch-size
  std::optional<int64_t> micro_batch_size;  // --micro-batch-size
  int64_t accum_freq = 1;                   // --accum-freq

  // Optimisation
  int64_t epochs = 90;               // --epochs
  std::optional<int64_t> max_steps;  // --max-steps
  std::string opt = "sgd";
  double momentum = 0.9, wd = 1e-4;
  bool nesterov = false;
  double trust_coefficient = 1e-3;                // --lars-trust-coefficient
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // AdamW
  std::optional<double> norm_weight_decay, bias_weight_decay;
  std::string lr_scheduler = "step";                // --lr-scheduler {step,cosine,poly,const}
  int64_t lr_step_size = 30;                        // --lr-step-size, epochs
  std::vector<int64_t> lr_milestones;               // --lr-milestones, epochs
  double lr_gamma = 0.1, lr_min = 0, lr_power = 2;  // --lr-gamma, --lr-min, --lr-power
  int64_t warmup_epochs = 0;                        // --lr-warmup-epochs
  std::string warmup_method = "linear";             // --lr-warmup-method {linear}
  double warmup_decay = 0.01;                       // --lr-warmup-decay
  std::optional<int64_t> lr_base_batch;             // --lr-base-batch
  double label_smoothing = 0, mixup_alpha = 0, cutmix_alpha = 0;
  std::optional<double> clip_grad_norm;  // --clip-grad-norm

  // Average of the weights
  bool has_average = false;        // --model-ema
  int64_t average_steps = 32;      // --model-ema-steps, steps between two updates
  double average_decay = 0.99998;  // --model-ema-decay, of one picture a step in one epoch

  // Model and precision
  std::string pretrained;       // --pretrained FILE
  bool is_amp = false;          // --amp
  bool channels_last = true;    // --channels-last
  bool zero_last_norm = false;  // --zero-init-residual
  bool sync_bn = false;         // --sync-bn
  bool freeze_bn = false;       // --freeze-bn

  // Gradients over ranks
  std::string grad_sync = "auto";  // --grad-sync {auto,none,ddp,zero1}
  double bucket_mib = 25.0;        // --bucket-mb

  // Evaluation and checkpoints
  bool is_evaluate = false;           // -e, --evaluate
  int64_t val_frequency_epochs = 1;   // --val-frequency
  int64_t save_frequency_epochs = 1;  // --save-frequency

  // Dry run
  std::string device_memory;  // --device-memory

  bool has_made_up_data() const;        ///< By --dummy or --dataset-type.
  int64_t evaluation_pixels() const;    ///< Side of evaluation pictures: --val-crop-size, else that of training.
  std::string validation_type() const;  ///< Kind of --val-data: what its name tells, else --dataset-type.
};

/// Declares every flag of `train imagenet` for the fields of `options`, and by name those of the two programs that are
/// refused or have no effect here.
core::OptionSet declare_imagenet_options(ImagenetOptions& options);

/// Fills what other flags say: --amp, --dummy, the data folder.
void fill_imagenet_defaults(ImagenetOptions& options, core::OptionSet& set);

/// Fills the number of classes from a folder of class folders where it was not given.
void fill_num_classes(ImagenetOptions& options, core::OptionSet& set);

/// DataError where training and validation data name different classes: their numbers would mean other classes.
void refuse_other_classes(const ImagenetOptions& options);

/// Of --evaluate on data that name another number of classes than the network has, which may make their numbers mean
/// others; "" where there is nothing to say.
std::string other_classes_warning(const ImagenetOptions& options);

/// Refuses options that contradict each other (UsageError names both flags). Returns warnings: legal, but rarely what
/// is meant.
std::vector<std::string> check_imagenet_options(const ImagenetOptions& options, const core::OptionSet& set);

/// Names of what an evaluation of the run measures; none where it has no evaluation.
std::vector<std::string> imagenet_metrics(const ImagenetOptions& options);

/// What a run must know of the options.
config::RunFacts imagenet_run_facts(const ImagenetOptions& options);

/// The network of --arch. UsageError as config::classifier_shape.
config::ClassifierShape classifier_of(const ImagenetOptions& options);

/// Its parameters, with the decay that the options give each.
std::vector<config::ParamSpec> classifier_params_of(const ImagenetOptions& options);

/// How the batch flags share out samples over this many ranks. UsageError with the nearest legal values on a misfit.
plan::BatchPlan imagenet_batch_plan(const ImagenetOptions& options, const core::OptionSet& set, int64_t num_ranks);

/// The share of an average that stays at an update: torchvision's rule, by which --model-ema-decay suits any batch and
/// any number of epochs.
double average_decay_of(const ImagenetOptions& options, int64_t global_batch);

/// The learning rate of --lr by the linear-scaling rule (Goyal et al. 2017) where it was asked for.
double peak_lr(const ImagenetOptions& options, int64_t global_batch);

}  // namespace lockstep::tasks
