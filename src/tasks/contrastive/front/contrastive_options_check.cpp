#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "config/contrastive_shape.h"
#include "config/frozen_parameters.h"
#include "config/hub_cache.h"
#include "config/image_options.h"
#include "config/layer_groups.h"
#include "config/optimizers.h"
#include "config/option_checks.h"
#include "config/precision_names.h"
#include "config/pretrained_weights.h"
#include "config/timm_decay.h"
#include "config/tower_weights.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "tasks/contrastive/front/aug_cfg.h"
#include "tasks/contrastive/front/contrastive_options.h"
#include "tasks/contrastive/front/recorded_model.h"
#include "tasks/front/device_memory.h"

namespace lockstep::tasks {
namespace {

/// What the run's evaluations measure. The model matters only where checkpoints are chosen by it.
std::vector<std::string> evaluated_metrics(const ContrastiveOptions& options) {
  const bool has_captions =
      options.best.num_best > 0 && !options.is_clap() && contrastive_shape_of(options).clip()->captions.has_value();
  return options.metric_names(options.task, !options.val_data.empty(), has_captions);
}
void check_upsampling(const ContrastiveOptions& o) {
  if (!o.train_data_upsampling_factors) return;
  const std::string& text = *o.train_data_upsampling_factors;
  config::refuse_if(!o.dataset_resampled, "--train-data-upsampling-factors needs --dataset-resampled",
                    "add --dataset-resampled, or drop the factors");
  const auto factors = core::split(text, "::");
  const size_t num_sources = core::split(o.train_data, "::").size();
  config::refuse_if(
      factors.size() != num_sources,
      fmt::format("--train-data-upsampling-factors '{}' has {} factors, expected {} (sources of --train-data)", text,
                  factors.size(), num_sources),
      "give one factor per source, joined with '::'");
  for (const std::string& factor : factors) {
    const auto number = core::parse_double(factor);
    config::refuse_if(!number || !std::isfinite(*number) || *number <= 0,
                      fmt::format("--train-data-upsampling-factors got '{}', expected a number > 0", factor),
                      "for example 1::2::0.5");
  }
}

/// A folder as training or validation data: pictures without captions.
void check_captions(const char* flag, const std::string& spec, bool is_clap) {
  std::error_code ignored;
  config::refuse_if(
      std::filesystem::is_directory(spec, ignored),
      fmt::format("{} '{}' is a folder; its {} have no captions", flag, spec, is_clap ? "sounds" : "pictures"),
      is_clap ? "name the shards in it ('folder/{000..099}.tar'); folders of classes serve as --zeroshot-data"
              : "name the shards in it ('folder/{000..099}.tar') or a .csv file; folders of classes serve as "
                "--imagenet-val or --zeroshot-data");
}

void check_data(const ContrastiveOptions& o, const core::OptionSet& set) {
  const bool is_synthetic = o.has_made_up_data();
  const bool can_train = !o.train_data.empty() || is_synthetic;
  const bool can_evaluate = !o.val_data.empty() || o.has_zero_shot();
  config::refuse_if(
      !can_train && !can_evaluate, "there is nothing to do: neither training nor evaluation data are given",
      fmt::format("give --train-data SPEC, or --val-data{} or --zeroshot-data to evaluate only; `lockstep data "
                  "make-{}` writes a demo set",
                  o.is_clap() ? "" : ", --imagenet-val", o.is_clap() ? "sounds" : "shapes"));
  const bool needs_text = !is_synthetic || can_evaluate;
  config::refuse_if(
      o.is_clap() && needs_text && o.tokenizer_vocab.empty(),
      "--tokenizer-vocab is needed: captions become token ids by RoBERTa's vocabulary",
      "give the folder with roberta-base's vocab.json and merges.txt, or fetch it into the local cache with `hf "
      "download FacebookAI/roberta-base`; `lockstep data make-sounds` writes a small one beside its sounds");
  config::refuse_if(is_synthetic && !o.train_num_samples,
                    fmt::format("--dataset-type {} needs --train-num-samples", o.dataset_type),
                    "give the samples of one epoch");
  check_captions("--train-data", o.train_data, o.is_clap());
  check_captions("--val-data", o.val_data, o.is_clap());
  check_upsampling(o);
  config::refuse_if(o.dataset_resampled && o.shuffle == "off",
                    "--dataset-resampled draws shards at random, --shuffle off keeps their order",
                    "drop one of the two");
  const auto num_keys = o.json_text_key ? std::ssize(core::split(*o.json_text_key, ";")) : 0;
  config::refuse_if(o.json_text_key && o.json_text_key->empty(), "--json-text-key names no key",
                    "give the names of the values that hold captions, joined with ';'");
  config::refuse_if(std::ssize(o.json_text_key_probs) > num_keys,
                    fmt::format("--json-text-key-probs has {} weights, --json-text-key names {} keys",
                                o.json_text_key_probs.size(), num_keys),
                    "give one weight a key");
  config::refuse_if(o.csv_separator.size() != 1,
                    fmt::format("--csv-separator got '{}', expected one character", o.csv_separator),
                    "a tab is written $'\\t' in the shell");
  config::refuse_if(o.max_bad_samples && o.on_bad_sample == "stop",
                    "--max-bad-samples counts skipped samples, --on-bad-sample stop skips none",
                    "add --on-bad-sample skip");
  config::refuse_if(set.is_given("data-lanes") && o.data_order == "openclip",
                    "--data-lanes belongs to --data-order lockstep, not openclip", "drop one of the two");
}

void check_schedule(const ContrastiveOptions& o) {
  const bool has_cooldown = o.lr_scheduler == "const-cooldown";
  config::refuse_if(has_cooldown && !o.epochs_cooldown, "--lr-scheduler const-cooldown needs --epochs-cooldown",
                    "give the epochs of the cool-down");
  config::refuse_if(!has_cooldown && o.epochs_cooldown.has_value(),
                    fmt::format("--epochs-cooldown has no meaning with --lr-scheduler {}", o.lr_scheduler),
                    "add --lr-scheduler const-cooldown");
  config::refuse_if(
      o.epochs_cooldown && *o.epochs_cooldown > o.epochs,
      fmt::format("--epochs-cooldown {} is longer than --epochs {}", o.epochs_cooldown.value_or(0), o.epochs),
      "shorten the cool-down");
}

void check_gradients_and_memory(const ContrastiveOptions& o) {
  check_device_memory_option(o.device_memory, o.dry_run);
  config::refuse_if(o.use_distributed_optimizer && o.grad_sync != "zero1",
                    fmt::format("--use-distributed-optimizer means --grad-sync zero1, not {}", o.grad_sync),
                    "drop one of the two");
  config::refuse_if(
      config::optimizer_info(o.opt).needs_whole_tensors && o.grad_sync == "zero1",
      fmt::format("--opt {} needs the norms of whole weights, with --grad-sync zero1 a rank holds parts", o.opt),
      "use --grad-sync ddp");
  config::refuse_if(
      o.fp32_gradients && !config::has_masters(o.precision),
      fmt::format("--accumulate-allreduce-grads-in-fp32 belongs to weights with fp32 master copies, --precision is {}",
                  o.precision),
      "add --precision bf16_master, or drop the flag");
}

void check_transforms(const ContrastiveOptions& o) {
  config::check_image_options(o.image_mean, o.image_std, o.force_image_size);
  parse_aug_cfg(o.aug_cfg);
  config::refuse_if(!o.aug_cfg.empty() && o.train_transform == "eval",
                    "--aug-cfg changes the training transform, --train-transform eval does not use it",
                    "drop one of the two");
}

void check_kept_checkpoints(const ContrastiveOptions& o) {
  const bool writes_openclip = o.save_format == "openclip";
  config::refuse_if(writes_openclip && o.opt != "adamw",
                    fmt::format("--save-format openclip: OpenCLIP continues AdamW alone, --opt is {}", o.opt),
                    "drop it; `lockstep ckpt export` writes the weights for OpenCLIP");
  config::refuse_if(
      writes_openclip && (o.has_update_groups() || o.split_opt),
      "--save-format openclip: OpenCLIP 3.3.0 has two groups of parameters, one learning rate and its own "
      "rule of weight decay",
      "drop it, or --image-layer-decay, --text-layer-decay, --wd-exclude and --split-opt");
  config::refuse_if(
      writes_openclip && config::has_masters(o.precision),
      fmt::format("--save-format openclip: OpenCLIP has no fp32 copies of weights, --precision is {}", o.precision),
      "use amp, amp_bf16 or fp32");
  config::refuse_if(
      o.delete_previous_checkpoint && o.keep.value_or(1) > 1,
      fmt::format("--delete-previous-checkpoint keeps one checkpoint, --keep asks for {}", o.keep.value_or(1)),
      "drop one of the two");
}

void check_split_optimizer(const ContrastiveOptions& o) {
  if (!o.split_opt) return;
  config::refuse_if(!o.pretrained.empty(), "--split-opt: with --pretrained all parameters are pretrained",
                    "drop --split-opt, and give --lr");
  config::refuse_if(o.opt == "lamb",
                    "--opt lamb reads the norm of all gradients, --split-opt updates them in two parts",
                    "use --opt adamw or lion");
  config::refuse_if(update_numbers(o, /*is_pretrained=*/false).lr == 0,
                    "--split-opt: the learning rate of new parameters is 0, which nothing is a multiple of",
                    "give --lr-new, or lock what is not to be trained");
}

/// Flags that count only beside another one: scripts carry them along, so they are told and not refused.
std::string idle_flags_warning(const ContrastiveOptions& o, const core::OptionSet& set) {
  const bool has_wandb = o.report_to == "wandb" || o.report_to == "all";
  std::vector<std::string> idle;
  for (const auto& [flag, has_effect, needed] :
       {std::tuple("lr-cooldown-end", o.lr_scheduler == "const-cooldown", "--lr-scheduler const-cooldown"),
        {"lr-cooldown-power", o.lr_scheduler == "const-cooldown", "--lr-scheduler const-cooldown"},
        {"val-num-samples", !o.val_data.empty(), "--val-data"},
        {"zeroshot-frequency", o.has_zero_shot(), "--imagenet-val, --imagenet-v2 or --zeroshot-data"},
        {"wandb-notes", has_wandb, "--report-to wandb"},
        {"wandb-project-name", has_wandb, "--report-to wandb"}})
    if (!has_effect && set.find(flag) != nullptr && set.is_given(flag))
      idle.push_back(fmt::format("--{} without {}", flag, needed));
  return idle.empty() ? "" : fmt::format("nothing is changed by {}", core::join(idle, ", "));
}

std::vector<std::string> start_warnings(const ContrastiveOptions& o, const core::OptionSet& set) {
  std::vector<std::string> warnings;
  if (!o.pretrained.empty() && !set.is_given("model"))
    warnings.push_back(fmt::format("no --model given: {} is assumed for the weights '{}'", o.model, o.pretrained));
  if (o.evaluates_only() && o.pretrained.empty() && !o.resume)
    warnings.emplace_back(
        "what is evaluated was never trained: neither --resume nor --pretrained names weights, so they are drawn at "
        "random");
  if (std::string idle = idle_flags_warning(o, set); !idle.empty()) warnings.push_back(std::move(idle));
  if (o.local_loss && !o.gather_with_grad && !o.siglip)
    warnings.emplace_back(
        "--local-loss without --gather-with-grad gives a biased gradient with several ranks (OpenCLIP's meaning); add "
        "--gather-with-grad "
        "for the exact one");
  return warnings;
}
}  // namespace

void fill_contrastive_defaults(ContrastiveOptions& options, core::OptionSet& set) {
  if (options.deterministic) config::fill_gpu_math(options.gpu_math, config::kExactGpuMath, set, "--deterministic");
  config::look_first_in(options.cache_dir);
  if (!set.is_given("model") && !options.pretrained.empty()) take_recorded_model(set, options.pretrained, options.task);
  if (options.evaluates_only() && !options.pretrained.empty())
    take_recorded_precision(set, options.pretrained, options.task);
  if (!options.is_clap())
    config::fill_from_weights(set, options.model, options.pretrained,
                              {&options.image_mean, &options.image_std, &options.image_interpolation,
                               &options.image_resize_mode, &options.image_fill_color, &options.resize_order});
  if (!options.has_made_up_data())
    config::fill_text_vocabulary(set, options.tokenizer_vocab, [&] { return contrastive_shape_of(options); });
  fill_optimizer_defaults(options, set);
}

void fill_optimizer_defaults(ContrastiveOptions& options, core::OptionSet& set) {
  const std::string name = core::ends_with(options.model, ".json")
                               ? std::filesystem::path(options.model).filename().string()  // not its folder
                               : options.model;
  const bool is_vit = core::to_lower_ascii(name).find("vit") != std::string::npos;
  const auto fill = [&](const char* flag, std::optional<double>& field, double value) {
    if (field) return;
    field = value;
    set.mark_derived(flag, "the model name");
  };
  if (options.profile && !options.max_steps) {
    options.max_steps = options.profile_step_end;
    set.mark_derived("max-steps", "--profile-step-end");
  }
  if (options.use_distributed_optimizer && !set.is_given("grad-sync")) {
    options.grad_sync = "zero1";
    set.mark_derived("grad-sync", "--use-distributed-optimizer");
  }
  options.lr = options.lr.value_or(5e-4);  // the same for every model, so no more than a default
  options.beta1 = options.beta1.value_or(0.9);
  const config::OptimizerInfo& optimizer = config::optimizer_info(options.opt);
  const auto own_or = [](double own, double by_model) { return own > 0 ? own : by_model; };
  fill("beta2", options.beta2, own_or(optimizer.beta2, is_vit ? 0.98 : 0.999));
  fill("eps", options.eps, own_or(optimizer.epsilon, is_vit ? 1e-6 : 1e-8));
}

std::vector<std::string> check_contrastive_options(const ContrastiveOptions& options, const core::OptionSet& set) {
  UsageProblems problems;
  problems.collect([&] { check_data(options, set); });
  problems.collect([&] { options.check_groups(set, options.task); });
  problems.collect([&] { check_transforms(options); });
  problems.collect([&] { check_schedule(options); });
  problems.collect([&] { config::check_run_options(options, {"--max-steps", options.max_steps}, set); });
  problems.collect([&] { check_gradients_and_memory(options); });
  problems.collect([&] { check_kept_checkpoints(options); });
  problems.collect([&] { check_split_optimizer(options); });
  problems.collect([&] { config::check_best_checkpoints(options.best, evaluated_metrics(options), set); });
  problems.raise();
  return start_warnings(options, set);
}

/// Towers that are locked as they were drawn.
static std::vector<std::string> lock_warnings(const ContrastiveOptions& options,
                                              const config::ContrastiveShape& shape) {
  std::vector<std::string> warnings;
  if (!options.pretrained.empty() || options.resume) return warnings;
  const config::TowerWeightNames names = tower_weight_names(options);
  const bool has_text =
      names.text.empty() ? names.text_by_default && !config::text_encoder_name(shape).empty() : names.text != "none";
  for (const auto& [is_locked, has_weights, flag] :
       {std::tuple(options.lock_image, names.image, "--lock-image"), {options.lock_text, has_text, "--lock-text"}})
    if (is_locked && !has_weights)
      warnings.push_back(fmt::format(
          "{} without weights: neither --pretrained, {} nor --resume is given, so the tower stays as it is drawn at "
          "random",
          flag, std::string_view(flag) == "--lock-image" ? "--pretrained-image" : "--pretrained-text"));
  return warnings;
}

std::vector<std::string> shape_warnings(const ContrastiveOptions& options, const config::ContrastiveShape& shape) {
  std::vector<std::string> warnings;
  const bool has_batch_norm =
      shape.clip() == nullptr || shape.clip()->vision.has_batch_norm();  // HTSAT begins with one
  if (options.use_bn_sync && !has_batch_norm)
    warnings.push_back(fmt::format(
        "--use-bn-sync changes nothing: model '{}' has no batch norm (ModifiedResNet models, RN50 and so on, have)",
        options.model));
  if (options.lock_image_freeze_bn_stats && !has_batch_norm)
    warnings.push_back(
        fmt::format("--lock-image-freeze-bn-stats changes nothing: model '{}' has no batch norm", options.model));
  for (std::string& warning : lock_warnings(options, shape)) warnings.push_back(std::move(warning));
  if (has_batch_norm && options.accum_freq > 1)
    warnings.push_back(
        fmt::format("--accum-freq {} with a model that has batch norm: its statistics are those of one micro-batch{}, "
                    "so a step is not that of one large batch",
                    options.accum_freq, options.use_bn_sync ? " over all ranks" : ""));
  if (const config::ClipShape* clip = shape.clip())
    if (std::string warning = config::gelu_warning(options.pretrained, options.model, clip->quick_gelu);
        !warning.empty())
      warnings.push_back(std::move(warning));
  if (!options.cache_locked_features.empty()) {
    const auto refusals = feature_cache_refusals(options, *shape.clip());
    for (const auto& [is_locked, refusal] :
         {std::pair(options.lock_image, refusals.image), std::pair(options.lock_text, refusals.text)})
      if (is_locked && !refusal.empty())
        warnings.push_back(fmt::format("--cache-locked-features does not serve one of the locked towers: {}", refusal));
  }
  const bool has_captions = shape.clip() != nullptr && shape.clip()->captions.has_value();
  if (!has_captions && (options.coca_caption_loss_weight != LossOptions().coca_caption_loss_weight ||
                        options.coca_contrastive_loss_weight != LossOptions().coca_contrastive_loss_weight))
    warnings.push_back(
        fmt::format("--coca-*-loss-weight changes nothing: model '{}' makes no captions (coca_* do)", options.model));
  if (has_captions && shape.clip()->captions->vocab_size < config::num_text_ids(shape.clip()->text))
    warnings.push_back(fmt::format(
        "the decoder of model '{}' knows {} of the {} tokens of its texts, as in OpenCLIP, which ends with an error at "
        "the first of the others; here the caption loss does not count them",
        options.model, shape.clip()->captions->vocab_size, config::num_text_ids(shape.clip()->text)));
  return warnings;
}

/// What towers begin with in the first start of a run, which a resumed one does not read again.
static config::TowerWeightNames first_tower_weights(const ContrastiveOptions& options) {
  return {.text = options.pretrained_text,
          .image = options.pretrained_image,
          .audio = options.pretrained_audio,
          .text_by_default = options.pretrained.empty() && !options.has_made_up_data()};
}

config::TowerWeightNames tower_weight_names(const ContrastiveOptions& options) {
  const bool continues_a_file = options.resume && *options.resume != "latest";
  config::TowerWeightNames names = first_tower_weights(options);
  names.text_by_default = names.text_by_default && !continues_a_file;
  return names;
}

std::vector<config::ParamSpec> updated_specs(const ContrastiveOptions& options, const config::ContrastiveShape& shape) {
  auto specs = shape.param_specs();
  if (options.opt != "adamw") config::set_timm_decay(shape, specs);
  if (const config::ClipShape* clip = shape.clip())
    config::set_layer_decay(*clip, {.image = options.image_layer_decay, .text = options.text_layer_decay}, specs);
  config::exclude_from_decay(options.wd_exclude, specs);
  if (options.split_opt)
    config::mark_pretrained(first_tower_weights(options), shape,
                            config::frozen_parameters(shape, options.tower_locks()), specs);
  return specs;
}

UpdateNumbers update_numbers(const ContrastiveOptions& options, bool is_pretrained) {
  UpdateNumbers numbers{.lr = options.lr.value_or(0),
                        .beta1 = options.beta1.value_or(0),
                        .beta2 = options.beta2.value_or(0),
                        .eps = options.eps.value_or(0),
                        .wd = options.wd};
  if (!options.split_opt) return numbers;
  const OwnUpdateNumbers& own = is_pretrained ? options.pretrained_numbers : options.new_numbers;
  for (const auto& [number, value] :
       {std::pair(&numbers.lr, own.lr), std::pair(&numbers.beta1, own.beta1), std::pair(&numbers.beta2, own.beta2),
        std::pair(&numbers.eps, own.eps), std::pair(&numbers.wd, own.wd)})
    *number = value.value_or(*number);
  return numbers;
}

config::FeatureCacheRefusals feature_cache_refusals(const ContrastiveOptions& options, const config::ClipShape& shape) {
  config::FeatureCacheRefusals refusals =
      config::feature_cache_refusals(shape, {.locks = options.tower_locks(),
                                             .has_frozen_batch_norm = options.lock_image_freeze_bn_stats,
                                             .has_random_image_transform = options.train_transform != "eval"});
  config::refuse_if(!refusals.image.empty() && !refusals.text.empty(),
                    fmt::format("--cache-locked-features serves no tower: {}; {}", refusals.image, refusals.text),
                    "drop it");
  return refusals;
}

config::GradSyncKind grad_sync_kind(const ContrastiveOptions& options, int64_t num_ranks) {
  return config::grad_sync_kind(options.grad_sync, num_ranks, config::has_masters(options.precision));
}

config::RunFacts contrastive_run_facts(const ContrastiveOptions& o) {
  const bool is_rolling = o.save_most_recent && o.save_frequency_epochs == 0;  // OpenCLIP's epoch_latest.pt alone
  const bool keeps_one = o.delete_previous_checkpoint || is_rolling;
  return {.model = o.model,
          .precision = o.precision,
          .lr = o.lr ? std::optional(update_numbers(o, /*is_pretrained=*/false).lr) : std::nullopt,
          .micro_batch_size = o.micro_batch_size,
          .workers = o.workers,
          .epochs = o.epochs,
          .max_steps = o.max_steps,
          .grad_clip_norm = o.grad_clip_norm,
          .save_frequency_epochs = o.save_most_recent ? 1 : o.save_frequency_epochs,
          .num_kept_checkpoints = config::num_kept_checkpoints(o, keeps_one ? 1 : 0),
          .kept_epochs = o.save_most_recent ? o.save_frequency_epochs : 0,
          .best_checkpoints = config::best_checkpoints(o.best, evaluated_metrics(o)),
          .needs_checkpoint = o.evaluates_only() && o.resume.has_value()};
}

config::ContrastiveShape contrastive_shape_of(const ContrastiveOptions& o) {
  auto overrides =
      config::forced_overrides(o.force_image_size, o.force_context_length, o.force_quick_gelu, o.force_patch_dropout);
  overrides.custom_text = o.force_custom_text;
  if (o.siglip) {
    overrides.init_logit_scale = std::log(10.0);
    overrides.init_logit_bias = -10.0;
  }
  config::ContrastiveShape shape = config::resolve_contrastive_shape(o.model, o.is_clap(), overrides);
  config::refuse_if(shape.clip() != nullptr && shape.clip()->captions && (o.siglip || o.has_teacher()),
                    fmt::format("--model {} makes captions: its loss is OpenCLIP's CoCaLoss, not that of {}", o.model,
                                o.siglip ? "--siglip" : "--distill-model"),
                    "drop the flag, or take a model without captions");
  return shape;
}

config::ContrastiveShape teacher_shape_of(const ContrastiveOptions& o) {
  return config::resolve_contrastive_shape(o.distill_model, o.is_clap(), {});
}

plan::BatchPlan contrastive_batch_plan(const ContrastiveOptions& options, const core::OptionSet& set,
                                       int64_t num_ranks) {
  const bool has_global = options.global_batch.has_value();
  plan::BatchRequest request{.global_batch = options.global_batch};
  if (!has_global || set.is_given("batch-size")) request.micro_batch_size = options.micro_batch_size;
  if (!has_global || set.is_given("accum-freq")) request.num_micro_batches = options.accum_freq;
  return plan::make_batch_plan(num_ranks, request);
}

}  // namespace lockstep::tasks
