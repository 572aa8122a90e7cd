#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "config/image_options.h"
#include "config/optimizers.h"
#include "config/option_checks.h"
#include "core/counted.h"
#include "core/error.h"
#include "data/shards/source_config.h"
#include "data/train_stream.h"
#include "tasks/front/device_memory.h"
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {
namespace {

constexpr int64_t kExampleBatch = 256, kImagenetPictures = 1'281'167, kImagenetClasses = 1000;
constexpr int64_t kRecipeValPixels = 224;  // --val-crop-size of torchvision's recipes where it is not given

void check_imagenet_data(const ImagenetOptions& o, const core::OptionSet& set) {
  config::refuse_if(o.is_dummy && set.is_given("train-data"), "--dummy makes pictures up, --train-data names some",
                    "drop one of the two");
  config::refuse_if(o.is_evaluate && !o.has_made_up_data() && o.val_data.empty(), "--evaluate needs validation data",
                    "name them with --val-data SPEC, or give the folder that has them in its folder val");
  config::refuse_if(o.is_evaluate && o.has_made_up_data() && o.val_num_samples == 0,
                    "--evaluate with --val-num-samples 0 has no pictures", "give the number of pictures to make up");
  config::refuse_if(!o.is_evaluate && !o.has_made_up_data() && o.train_data.empty(),
                    fmt::format("--val-data '{}' are for evaluation, and nothing names training data", o.val_data),
                    "add --train-data SPEC, or only evaluate with --evaluate --pretrained FILE");
  config::refuse_if(o.is_evaluate && o.pretrained.empty() && !o.resume, "--evaluate needs weights",
                    "give --pretrained FILE or --resume latest|PATH");
  config::refuse_if(o.is_evaluate && o.pretrained.empty() && o.resume == "latest" && o.name.empty(),
                    "--evaluate --resume latest without --name would evaluate the weights that a new run begins with",
                    fmt::format("name the run that lies in '{}' with --name, or its folder with --pretrained", o.logs));
  config::refuse_if(
      o.is_evaluate && !o.pretrained.empty() && o.has_average,
      "--evaluate --pretrained reads weights alone, and no average of them that --model-ema could evaluate",
      "evaluate the run with --resume, or write its average with `lockstep ckpt export --model-ema` first");
  config::refuse_if(o.max_bad_samples && o.on_bad_sample == "stop",
                    "--max-bad-samples counts skipped samples, --on-bad-sample stop skips none",
                    "add --on-bad-sample skip");
  config::refuse_if(o.dataset_repeat > 1 && o.has_made_up_data(), "--dataset-repeat repeats data, these are made up",
                    "use --train-num-samples N");
  config::refuse_if(o.dataset_repeat > 1 && o.train_num_samples.has_value(),
                    "--dataset-repeat and --train-num-samples both say how long an epoch is", "drop one of the two");
  config::refuse_if(!o.stage_to.empty() && (o.has_made_up_data() || o.is_evaluate),
                    "--stage-to copies training data, there are none", "drop it");
}

void check_range(const char* flag, const std::vector<double>& range, double highest) {
  const bool is_range = range.size() == 2 && range[0] > 0 && range[0] <= range[1] && range[1] <= highest;
  config::refuse_if(!is_range,
                    fmt::format("{} got {} values, expected MIN MAX with 0 < MIN <= MAX{}", flag, range.size(),
                                highest == 1 ? " <= 1" : ""),
                    fmt::format("for example {} {}", flag, highest == 1 ? "0.08 1.0" : "0.75 1.33"));
}

void check_imagenet_transforms(const ImagenetOptions& o) {
  config::check_image_options(o.image_mean, o.image_std, {});
  check_range("--scale", o.scale, 1);
  check_range("--ratio", o.ratio, 1e3);
  const int64_t cut_pixels = o.evaluation_pixels();
  config::refuse_if(o.resize_pixels && *o.resize_pixels < cut_pixels,
                    fmt::format("--val-resize-size {} is smaller than the {} of {}", o.resize_pixels.value_or(0),
                                cut_pixels, o.val_pixels ? "--val-crop-size" : "--train-crop-size"),
                    "the centre is cut out of the resized picture");
}

void check_decay(const char* flag, std::optional<double> value, double wd) {
  config::refuse_if(value && *value != 0 && *value != wd,
                    fmt::format("{} is {}, expected 0 or the {} of --wd", flag, value.value_or(0), wd),
                    "weights either decay as --wd says or not at all");
}

void check_imagenet_optimizer(const ImagenetOptions& o, const core::OptionSet& set) {
  const config::OptimizerInfo& info = config::optimizer_info(o.opt);
  const bool has_momentum = info.flags == config::OptimizerFlags::kMomentum;
  for (const char* flag : {"momentum", "nesterov"})
    config::refuse_if(!has_momentum && set.is_given(flag), fmt::format("--{} does not belong to --opt {}", flag, o.opt),
                      "drop it, or use --opt sgd");
  for (const char* flag : {"beta1", "beta2", "eps"})
    config::refuse_if(has_momentum && set.is_given(flag), fmt::format("--{} does not belong to --opt {}", flag, o.opt),
                      "drop it, or use --opt adamw");
  config::refuse_if(o.opt == "lion" && set.is_given("eps"),
                    "--eps does not belong to --opt lion, which divides by nothing", "drop it, or use --opt adamw");
  config::refuse_if(o.opt != "lars" && set.is_given("lars-trust-coefficient"),
                    fmt::format("--lars-trust-coefficient does not belong to --opt {}", o.opt), "use --opt lars");
  config::refuse_if(o.nesterov && o.momentum == 0, "--nesterov needs a momentum", "give --momentum 0.9");
  config::refuse_if(
      info.needs_whole_tensors && o.grad_sync == "zero1",
      fmt::format("--opt {} needs the norms of whole weights, with --grad-sync zero1 a rank holds parts", o.opt),
      "use --grad-sync ddp");
  check_decay("--norm-weight-decay", o.norm_weight_decay, o.wd);
  check_decay("--bias-weight-decay", o.bias_weight_decay, o.wd);
}

void check_imagenet_pictures(const ImagenetOptions& o, const core::OptionSet& set) {
  config::refuse_if(set.is_given("ra-magnitude") && o.auto_augment != "ra",
                    fmt::format("--ra-magnitude does not belong to --auto-augment {}", o.auto_augment),
                    "drop it, or use --auto-augment ra");
}

void check_imagenet_schedule(const ImagenetOptions& o, const core::OptionSet& set) {
  const auto belongs = [&](const char* flag, std::initializer_list<const char*> kinds) {
    const bool fits = std::any_of(kinds.begin(), kinds.end(), [&](const char* kind) { return o.lr_scheduler == kind; });
    config::refuse_if(set.is_given(flag) && !fits,
                      fmt::format("--{} does not belong to --lr-scheduler {}", flag, o.lr_scheduler),
                      fmt::format("drop it, or use --lr-scheduler {}", *kinds.begin()));
  };
  belongs("lr-step-size", {"step"}), belongs("lr-gamma", {"step"}), belongs("lr-milestones", {"step"});
  belongs("lr-power", {"poly"}), belongs("lr-min", {"cosine", "poly"});
  config::refuse_if(!std::is_sorted(o.lr_milestones.begin(), o.lr_milestones.end()),
                    "--lr-milestones are not in ascending order", "for example --lr-milestones 30 60 80");
  config::refuse_if(!o.lr_milestones.empty() && set.is_given("lr-step-size"),
                    "--lr-milestones and --lr-step-size both say when the rate falls", "drop one of the two");
  config::refuse_if(o.warmup_epochs > o.epochs,
                    fmt::format("--lr-warmup-epochs {} is longer than --epochs {}", o.warmup_epochs, o.epochs),
                    "shorten the warm-up");
}

void check_imagenet_average(const ImagenetOptions& o, const core::OptionSet& set) {
  for (const char* flag : {"model-ema-steps", "model-ema-decay"})
    config::refuse_if(set.is_given(flag) && !o.has_average, fmt::format("--{} without --model-ema has no effect", flag),
                      "add --model-ema");
}

void check_imagenet_model(const ImagenetOptions& o) {
  const config::ClassifierShape shape = classifier_of(o);
  for (const auto& [flag, is_set] : {std::pair("--sync-bn", o.sync_bn), std::pair("--freeze-bn", o.freeze_bn),
                                     std::pair("--zero-init-residual", o.zero_last_norm)})
    config::refuse_if(is_set && !shape.is_resnet(), fmt::format("{}: {} has no batch norm", flag, o.model), "drop it");
  config::refuse_if(!shape.is_resnet() && o.evaluation_pixels() != o.image_pixels,
                    fmt::format("--val-crop-size {}: {} has position embeddings for the {} pixels of --train-crop-size",
                                o.evaluation_pixels(), o.model, o.image_pixels),
                    "give both the same size");
  config::refuse_if(o.sync_bn && o.freeze_bn, "--freeze-bn computes no statistics that --sync-bn could join",
                    "drop one of the two");
  config::refuse_if(o.freeze_bn && o.pretrained.empty() && !o.resume,
                    "--freeze-bn without weights keeps statistics of no pictures", "give --pretrained FILE");
  check_device_memory_option(o.device_memory, o.dry_run);
}

bool is_norm(const std::string& name) {
  for (const char* part : {"bn", "downsample.1", "ln_", "encoder.ln"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

bool is_bias(const std::string& name) { return name.ends_with("bias"); }

/// torchvision's order: what is named just "bias" first, those of norms included (a ViT's in_proj_bias is not), then
/// norms.
std::optional<double> own_decay(const ImagenetOptions& o, const std::string& name) {
  if (o.bias_weight_decay && name.ends_with(".bias")) return o.bias_weight_decay;
  return is_norm(name) ? o.norm_weight_decay : std::nullopt;
}

}  // namespace

bool ImagenetOptions::has_made_up_data() const { return data::is_made_up(dataset_type); }

int64_t ImagenetOptions::evaluation_pixels() const { return val_pixels.value_or(image_pixels); }

std::string ImagenetOptions::validation_type() const {
  if (has_made_up_data()) return dataset_type;
  data::SourceConfig named;
  named.spec = val_data;
  try {
    data::is_made_of_rows(named);
    return data::DatasetType::kAuto;
  } catch (const Error&) {  // auto does not know what it is, or there is nothing of that name
    return dataset_type;
  }
}

void fill_imagenet_defaults(ImagenetOptions& o, core::OptionSet& set) {
  if (o.deterministic) config::fill_gpu_math(o.gpu_math, config::kExactGpuMath, set, "--deterministic");
  if (o.profile && !o.max_steps) {
    o.max_steps = o.profile_step_end;
    set.mark_derived("max-steps", "--profile-step-end");
  }
  if (o.is_amp && !set.is_given("precision")) {
    o.precision = "amp";
    set.mark_derived("precision", "--amp");
  }
  if (o.is_dummy) {
    o.dataset_type = "synthetic";
    set.mark_derived("dataset-type", "--dummy");
  }
  if (o.has_made_up_data()) {
    o.train_num_samples = o.train_num_samples.value_or(kImagenetPictures);
  } else if (o.train_data.empty() && o.val_data.empty()) {
    const std::string origin = fmt::format("the data folder '{}'", o.data);
    if (!o.is_evaluate) {
      o.train_data = (std::filesystem::path(o.data) / "train").string();
      set.mark_derived("train-data", origin);
    }
    o.val_data = (std::filesystem::path(o.data) / "val").string();
    set.mark_derived("val-data", origin);
  }
}

void refuse_other_classes(const ImagenetOptions& o) {
  if (o.has_made_up_data() || o.train_data.empty() || o.val_data.empty()) return;
  const std::vector<std::string> train = data::class_names_of(o.dataset_type, o.train_data),
                                 val = data::class_names_of(o.validation_type(), o.val_data);
  if (train.empty() || val.empty() || train == val) return;
  const auto differing = std::mismatch(train.begin(), train.end(), val.begin(), val.end());
  const auto name_at = [](auto at, const std::vector<std::string>& names) {
    return at == names.end() ? "no class" : "'" + *at + "'";
  };
  throw DataError(
      fmt::format("imagenet: '{}' has {} and '{}' {}, and class {} is {} there and {} here", o.train_data,
                  core::counted(train.size(), "class", "classes"), o.val_data, val.size(),
                  differing.first - train.begin(), name_at(differing.first, train), name_at(differing.second, val)),
      "labels are numbers of the sorted class folders: both must have the same ones");
}

std::string other_classes_warning(const ImagenetOptions& o) {
  if (!o.is_evaluate || !o.num_classes || o.has_made_up_data() || o.val_data.empty()) return "";
  const auto num_named = std::ssize(data::class_names_of(o.validation_type(), o.val_data));
  if (num_named == 0 || num_named == *o.num_classes) return "";
  return fmt::format(
      "'{}' has {} and the network {}: labels are numbers of the sorted class folders, so they may be those of "
      "other classes; evaluate on data with a folder for each class",
      o.val_data, core::counted(num_named, "class", "classes"), *o.num_classes);
}

void fill_num_classes(ImagenetOptions& o, core::OptionSet& set) {
  if (o.num_classes) return;
  if (o.has_made_up_data()) return;
  for (const auto& [type, spec] :
       {std::pair(o.dataset_type, o.train_data), std::pair(o.validation_type(), o.val_data)}) {
    const std::vector<std::string> classes = data::class_names_of(type, spec);
    if (classes.empty()) continue;
    o.num_classes = static_cast<int64_t>(classes.size());
    set.mark_derived("num-classes", "the class folders");
    return;
  }
}

std::vector<std::string> check_imagenet_options(const ImagenetOptions& o, const core::OptionSet& set) {
  UsageProblems problems;
  problems.collect([&] { check_imagenet_data(o, set); });
  problems.collect([&] { check_imagenet_transforms(o); });
  problems.collect([&] { check_imagenet_optimizer(o, set); });
  problems.collect([&] { check_imagenet_pictures(o, set); });
  problems.collect([&] { check_imagenet_schedule(o, set); });
  problems.collect([&] { check_imagenet_average(o, set); });
  problems.collect([&] { check_imagenet_model(o); });
  problems.collect([&] { config::check_run_options(o, {"--max-steps", o.max_steps}, set); });
  problems.collect([&] { config::check_best_checkpoints(o.best, imagenet_metrics(o), set); });
  problems.collect([&] {
    config::refuse_if(o.is_amp && set.is_given("precision") && o.precision != "amp",
                      fmt::format("--amp means --precision amp, not {}", o.precision), "drop one of the two");
  });
  problems.raise();
  std::vector<std::string> warnings;
  if (o.accum_freq > 1 && classifier_of(o).is_resnet() && !o.freeze_bn)
    warnings.push_back(
        fmt::format("--accum-freq {} with a model that has batch norm: its statistics are those of one micro-batch{}, "
                    "so a step is not that of one large batch",
                    o.accum_freq, o.sync_bn ? " over all ranks" : ""));
  const bool cuts_less = !o.val_pixels && o.image_pixels < kRecipeValPixels && o.resize_pixels >= kRecipeValPixels;
  if (cuts_less && classifier_of(o).is_resnet())
    warnings.push_back(
        fmt::format("--val-resize-size {} without --val-crop-size: evaluation sees {} pixels, as --train-crop-size "
                    "says; torchvision's recipes mean {}: --val-crop-size {}",
                    *o.resize_pixels, o.image_pixels, kRecipeValPixels, kRecipeValPixels));
  return warnings;
}

std::vector<std::string> imagenet_metrics(const ImagenetOptions& o) {
  const bool has_data = o.has_made_up_data() ? o.val_num_samples > 0 : !o.val_data.empty();
  if (o.val_frequency_epochs == 0 || !has_data) return {};
  std::vector<std::string> names{"top1_pct", "top5_pct", "loss"};
  if (o.has_average)
    for (const char* name : {"ema_top1_pct", "ema_top5_pct", "ema_loss"}) names.emplace_back(name);
  return names;
}

config::RunFacts imagenet_run_facts(const ImagenetOptions& o) {
  return {.model = o.model,
          .precision = o.precision,
          .lr = o.lr,
          .micro_batch_size = o.micro_batch_size.value_or(o.global_batch.value_or(kExampleBatch)),
          .workers = o.workers,
          .epochs = o.epochs,
          .max_steps = o.max_steps,
          .grad_clip_norm = o.clip_grad_norm,
          .save_frequency_epochs = o.save_frequency_epochs,
          .num_kept_checkpoints = config::num_kept_checkpoints(o),
          .best_checkpoints = config::best_checkpoints(o.best, imagenet_metrics(o)),
          .needs_checkpoint = o.is_evaluate && o.pretrained.empty()};
}

config::ClassifierShape classifier_of(const ImagenetOptions& o) {
  return config::classifier_shape(o.model, o.num_classes.value_or(kImagenetClasses), o.image_pixels);
}

std::vector<config::ParamSpec> classifier_params_of(const ImagenetOptions& o) {
  auto specs = config::classifier_params(classifier_of(o), o.zero_last_norm);
  for (config::ParamSpec& spec : specs) {
    if (own_decay(o, spec.name) == 0.0) spec.weight_decay = false;
    // Layer-wise rates of LARS are of weights: norms and biases are plain SGD without decay (You et al. 2017).
    if (o.opt == "lars" && (is_norm(spec.name) || is_bias(spec.name))) spec.weight_decay = false;
  }
  return specs;
}

plan::BatchPlan imagenet_batch_plan(const ImagenetOptions& o, const core::OptionSet& set, int64_t num_ranks) {
  plan::BatchRequest request{.micro_batch_size = o.micro_batch_size, .global_batch = o.global_batch};
  // Evaluation gives the same numbers with every batch, up to rounding: the default fits any number of ranks there.
  const int64_t batch = o.is_evaluate ? (kExampleBatch + num_ranks - 1) / num_ranks * num_ranks : kExampleBatch;
  if (!o.micro_batch_size && !o.global_batch) request.global_batch = batch;
  if (!request.global_batch || set.is_given("accum-freq")) request.num_micro_batches = o.accum_freq;
  return plan::make_batch_plan(num_ranks, request,
                               {.micro_batch_size = "--micro-batch-size", .global_batch = "--batch-size"});
}

double average_decay_of(const ImagenetOptions& o, int64_t global_batch) {
  const double factor =
      static_cast<double>(global_batch) * static_cast<double>(o.average_steps) / static_cast<double>(o.epochs);
  return 1 - std::min(1.0, (1 - o.average_decay) * factor);
}

double peak_lr(const ImagenetOptions& o, int64_t global_batch) {
  if (!o.lr_base_batch) return *o.lr;
  return *o.lr * static_cast<double>(global_batch) / static_cast<double>(*o.lr_base_batch);
}

}  // namespace lockstep::tasks
