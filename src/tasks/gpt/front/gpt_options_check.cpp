// What follows from other flags of `train gpt`, and what contradicts.
#include <algorithm>
#include <filesystem>

#include "config/option_checks.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "tasks/front/device_memory.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {
namespace {

void check_model(const GptOptions& o) {
  config::refuse_if(o.num_query_groups && !o.group_query_attention,
                    "--num-query-groups belongs to --group-query-attention", "add that flag, or drop this one");
  config::refuse_if(o.swiglu && o.squared_relu, "--swiglu and --squared-relu contradict each other",
                    "drop one of the two");
  config::refuse_if(o.apply_layernorm_1p && o.normalization == "RMSNorm",
                    "--apply-layernorm-1p with --normalization RMSNorm is not supported",
                    "weights around zero are those of LayerNorm here: drop one of the two");
}

void check_precision(const GptOptions& o, const core::OptionSet& set) {
  config::refuse_if(o.bf16 && o.fp16, "--bf16 and --fp16 contradict each other", "drop one of the two");
  config::refuse_if((o.bf16 && o.precision != "bf16") || (o.fp16 && o.precision != "fp16"),
                    fmt::format("--{} contradicts --precision {}", o.bf16 ? "bf16" : "fp16", o.precision),
                    "drop one of the two");
  config::refuse_if(o.grad_reduce_in_bf16 && o.precision != "bf16", "--grad-reduce-in-bf16 belongs to --bf16",
                    "add --bf16, or drop it");
  config::refuse_if(o.grad_reduce_in_bf16 && set.is_given("accumulate-allreduce-grads-in-fp32"),
                    "--accumulate-allreduce-grads-in-fp32 and --grad-reduce-in-bf16 contradict each other",
                    "drop one of the two");
  for (const char* flag : {"loss-scale", "initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis"})
    config::refuse_if(set.is_given(flag) && o.precision != "fp16", fmt::format("--{} belongs to --fp16", flag),
                      "bf16 and fp32 need no loss scale");
  for (const char* flag :
       {"fp8-recipe", "fp8-margin", "fp8-amax-history-len", "fp8-amax-compute-algo", "first-last-layers-bf16"})
    config::refuse_if(set.is_given(flag) && !o.fp8_format, fmt::format("--{} belongs to --fp8-format", flag),
                      "add --fp8-format hybrid");
  config::refuse_if(o.fp8_format && o.precision != "bf16", "--fp8-format needs --bf16",
                    "weights and what is not a matrix product stay in bf16");
}

void check_recompute(const GptOptions& o) {
  const bool is_full = o.recompute_granularity == "full";
  config::refuse_if(o.recompute_activations && is_full,
                    "--recompute-activations means selective, --recompute-granularity says full",
                    "drop one of the two");
  config::refuse_if(is_full && (!o.recompute_method || !o.recompute_num_layers),
                    "--recompute-granularity full needs --recompute-method and --recompute-num-layers",
                    "for example --recompute-method uniform --recompute-num-layers 1");
  config::refuse_if(!is_full && (o.recompute_method || o.recompute_num_layers),
                    "--recompute-method and --recompute-num-layers belong to --recompute-granularity full",
                    "add it, or drop them");
}

void check_length(const GptOptions& o, const core::OptionSet& set) {
  config::refuse_if(o.train_iters && o.train_samples, "--train-iters and --train-samples are two ways to say the same",
                    "drop one of the two");
  config::refuse_if(o.train_samples && (o.lr_decay_iters || o.lr_warmup_iters > 0),
                    "--train-samples goes with --lr-decay-samples and --lr-warmup-samples",
                    "give the schedule in samples, or the length in --train-iters");
  config::refuse_if(!o.train_samples && (o.lr_decay_samples || o.lr_warmup_samples > 0),
                    "--lr-decay-samples and --lr-warmup-samples go with --train-samples",
                    "give the schedule in steps, or the length in --train-samples");
  config::refuse_if(o.lr_warmup_fraction && (o.lr_warmup_iters > 0 || o.lr_warmup_samples > 0),
                    "--lr-warmup-fraction contradicts a warm-up in steps or samples", "drop one of the two");
  const auto refuse_long_warm_up = [](const char* unit, int64_t warm_up, std::optional<int64_t> decay) {
    config::refuse_if(
        decay && warm_up >= *decay,
        fmt::format("--lr-warmup-{0} {1} is not below --lr-decay-{0} {2}", unit, warm_up, decay.value_or(0)),
        "the decay is counted from the first step on, the warm-up included");
  };
  refuse_long_warm_up("iters", o.lr_warmup_iters, o.lr_decay_iters);
  refuse_long_warm_up("samples", o.lr_warmup_samples, o.lr_decay_samples);
  config::refuse_if(o.lr && o.min_lr > *o.lr, fmt::format("--min-lr {} is above --lr {}", o.min_lr, o.lr.value_or(0)),
                    "the learning rate falls from --lr to --min-lr");
  config::refuse_if(o.lr_decay_style == "WSD" && !o.lr_wsd_decay_iters,
                    "--lr-decay-style WSD needs --lr-wsd-decay-iters", "give the length of the tail");
  for (const char* flag : {"lr-wsd-decay-style", "lr-wsd-decay-iters"})
    config::refuse_if(set.is_given(flag) && o.lr_decay_style != "WSD",
                      fmt::format("--{} belongs to --lr-decay-style WSD", flag), "add it, or drop this flag");
}

/// All at once; a dry run needs none of them.
void check_needed(const GptOptions& o, UsageProblems& problems) {
  if (o.dry_run) return;
  for (const NeededFlag& flag : missing_flags(o))
    problems.collect([&] { config::refuse_if(true, flag.message, flag.hint); });
}

void check_data(const GptOptions& o) {
  const bool has_parts = !o.train_data_path.empty() || !o.valid_data_path.empty();
  config::refuse_if(o.mock_data && (!o.data_path.empty() || has_parts),
                    "--mock-data and data paths contradict each other", "drop one of the two");
  config::refuse_if(!o.data_path.empty() && has_parts, "--data-path and paths for single splits contradict each other",
                    "use --data-path with --split, or one path for each split");
  config::refuse_if(has_parts && o.split, "--split shares out --data-path, not paths for single splits",
                    "drop --split");
  config::refuse_if(o.split && core::split(*o.split, ",").size() > 3,
                    fmt::format("--split got '{}', expected up to three numbers", o.split.value_or("")),
                    "for example --split 949,50,1");
  if (o.split)
    for (const std::string& part : core::split(*o.split, ",")) {
      const auto number = core::parse_double(core::trim(part));
      config::refuse_if(!number || *number < 0, fmt::format("--split got '{}', expected up to three numbers", *o.split),
                        "for example --split 949,50,1");
    }
}

/// What Megatron-LM writes into its folder of checkpoints or into that of one iteration; "" where there is none of it.
std::string find_megatron_checkpoint(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : {"latest_checkpointed_iteration.txt", "common.pt", "mp_rank_00", "mp_rank_00_000"})
    if (std::filesystem::exists(std::filesystem::path(folder) / name, ignored)) return name;
  return "";
}

/// --save and --load of a script for Megatron-LM may name the folder of its run: this one must not begin there.
void refuse_megatron_checkpoint(const GptOptions& options) {
  std::error_code ignored;
  if (options.load.empty() || std::filesystem::exists(std::filesystem::path(options.load) / "run.json", ignored))
    return;
  const std::string found = find_megatron_checkpoint(options.load);
  config::refuse_if(!found.empty(),
                    fmt::format("--load '{}' holds a checkpoint of Megatron-LM ('{}'), whose format is not read",
                                options.load, found),
                    "export it to Hugging Face's layout with the program that wrote it (Megatron Bridge, NeMo's "
                    "export_ckpt) and name that folder: its weights are taken, optimizer and position are not");
}

}  // namespace

std::vector<NeededFlag> missing_flags(const GptOptions& o) {
  std::vector<NeededFlag> missing;
  if (!has_length(o)) missing.push_back({"how long to train is not given", "give --train-iters or --train-samples"});
  if (!o.lr) missing.push_back({"--lr is not given", "for example --lr 1e-4"});
  if (!o.mock_data && o.data_path.empty() && o.train_data_path.empty())
    missing.push_back({"no data are given", "give --data-path PREFIX, or --mock-data"});
  return missing;
}

/// --save DIR is the folder of the run; --load of the same folder goes on with it, or begins it.
void fill_run_folder(GptOptions& options, core::OptionSet& set) {
  if (options.save.empty()) return;
  for (const char* other : {"logs", "name"})
    config::refuse_if(set.is_given(other), fmt::format("--save contradicts --{}", other),
                      fmt::format("--save '{}' is short for --logs and --name: give one or the other", options.save));
  std::filesystem::path folder = std::filesystem::path(options.save).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  config::refuse_if(folder.filename().empty() || folder.filename() == "." || folder.filename() == "..",
                    fmt::format("--save '{}' names no folder of its own", options.save), "name a folder for this run");
  options.logs = folder.has_parent_path() ? folder.parent_path().string() : ".";
  options.name = folder.filename();
  for (const char* derived : {"logs", "name"}) set.mark_derived(derived, "--save");
  if (options.load != options.save || options.ckpt_step || options.finetune || options.resume) return;
  options.load.clear();
  options.resume = "latest";
  for (const char* derived : {"load", "resume"}) set.mark_derived(derived, "--load, which is --save");
}

/// A model that no flag describes is the one whose configuration lies beside the weights of --load.
void take_model_of_load(GptOptions& options, core::OptionSet& set) {
  if (options.load.empty() || !options.model.empty() || options.num_layers || options.hidden_size) return;
  const std::filesystem::path config = std::filesystem::path(options.load) / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(config, ignored)) return;
  options.model = config.string();
  set.mark_derived("model", "config.json of --load");
}

namespace {

/// Flags that say the same in different ways.
const std::vector<config::Alternatives>& gpt_alternatives() {
  static const std::vector<config::Alternatives> groups{
      {{{"precision"}}, {{"bf16"}}, {{"fp16"}}},
      {{{"accumulate-allreduce-grads-in-fp32"}}, {{"grad-reduce-in-bf16"}}},
      {{{"recompute-activations"}}, {{"recompute-granularity"}, {"recompute-method", "recompute-num-layers"}}},
      {{{"train-iters"}, {"lr-decay-iters", "lr-warmup-iters"}},
       {{"train-samples"}, {"lr-decay-samples", "lr-warmup-samples"}}},
      {{{"lr-warmup-fraction"}}, {{"lr-warmup-iters"}}, {{"lr-warmup-samples"}}},
      {{{"mock-data"}}, {{"data-path"}, {"split"}}, {{"train-data-path", "valid-data-path"}}},
      {{{"num-layers-per-virtual-pipeline-stage"}},
       {{"num-virtual-stages-per-pipeline-rank"}},
       {{"pipeline-model-parallel-layout"}}},
      {{{"swiglu"}}, {{"squared-relu"}}},
      {{{"finetune"}}, {{"no-load-optim"}}},
      {{{"save"}}, {{"logs", "name"}}},
      {{{"dist-timeout"}}, {{"distributed-timeout-minutes"}}}};
  return groups;
}

void yield_to_command_line(core::OptionSet& set) {
  const std::vector<config::Yielding> all = config::find_yielding(set, gpt_alternatives());
  if (all.empty()) return;
  GptOptions fresh;
  const core::OptionSet defaults = declare_gpt_options(fresh);
  for (const config::Yielding& one : all) config::take_default(set, defaults, one);
}

}  // namespace

void fill_gpt_defaults(GptOptions& options, core::OptionSet& set) {
  yield_to_command_line(set);
  if (options.deterministic) config::fill_gpu_math(options.gpu_math, config::kExactGpuMath, set, "--deterministic");
  refuse_megatron_checkpoint(options);
  fill_run_folder(options, set);
  take_model_of_load(options, set);
  if ((options.bf16 || options.fp16) && !set.is_given("precision")) {
    options.precision = options.fp16 ? "fp16" : "bf16";
    set.mark_derived("precision", options.fp16 ? "--fp16" : "--bf16");
  }
  if (options.precision == "bf16" && !options.grad_reduce_in_bf16 && !options.accumulate_allreduce_grads_in_fp32) {
    options.accumulate_allreduce_grads_in_fp32 = true;
    set.mark_derived("accumulate-allreduce-grads-in-fp32", "--precision bf16");
  }
  if (options.recompute_activations && !options.recompute_granularity) {
    options.recompute_granularity = "selective";
    set.mark_derived("recompute-granularity", "--recompute-activations");
  }
  if (options.distributed_timeout_minutes && !set.is_given("dist-timeout")) {
    options.dist_timeout_s = 60 * *options.distributed_timeout_minutes;
    set.mark_derived("dist-timeout", "--distributed-timeout-minutes");
  }
  if (set.is_given("report-to")) return;
  const bool asks_wandb = set.is_given("wandb-project-name") && !options.wandb_project.empty();
  if (!options.tensorboard_dir.empty()) {
    options.report_to = asks_wandb ? "all" : "tensorboard";
    set.mark_derived("report-to", "--tensorboard-dir");
  } else if (asks_wandb) {
    options.report_to = "wandb";
    set.mark_derived("report-to", "--wandb-project");
  }
}

namespace {
void check_checkpoints(const GptOptions& options) {
  config::refuse_if(options.no_load_optim && options.finetune, "--no-load-optim and --finetune contradict each other",
                    "--finetune takes the weights alone, --no-load-optim the position, too: drop one of the two");
  config::refuse_if(options.ckpt_step && options.load.empty(), "--ckpt-step belongs to --load",
                    "name the folder of checkpoints");
}

void check_attention(const GptOptions& options) {
  const double dropout = gpt_shape_of(options).attention_dropout;
  config::refuse_if(
      options.attention_backend == "flash" && dropout > 0 && options.device == "cpu",
      fmt::format("--attention-backend flash with an attention dropout of {} has no kernel on the CPU, where "
                  "probabilities are kept",
                  core::format_double(dropout)),
      "add --attention-dropout 0");
}

void check_other_pairs(const GptOptions& options) {
  check_device_memory_option(options.device_memory, options.dry_run);
  config::refuse_if(options.overlap_param_gather && !options.use_distributed_optimizer,
                    "--overlap-param-gather belongs to --use-distributed-optimizer", "add it, or drop this flag");
}

std::vector<std::string> gpt_warnings(const GptOptions& options, const core::OptionSet& set) {
  std::vector<std::string> warnings;
  if (set.is_given("eval-iters") && options.eval_iters > 0 && !options.eval_interval)
    warnings.push_back(
        fmt::format("--eval-iters {} without --eval-interval: the model is never evaluated (Megatron-LM "
                    "does so every 1000 steps and at the end)",
                    options.eval_iters));
  const double dropout = gpt_shape_of(options).attention_dropout;
  if (options.use_flash_attn && dropout > 0 && options.device == "cpu")
    warnings.push_back(
        fmt::format("--use-flash-attn beside an attention dropout of {} on the CPU: the probabilities are made and "
                    "kept, which takes more memory and time; --attention-dropout 0 avoids that",
                    core::format_double(dropout)));
  if (!options.tensorboard_dir.empty())
    warnings.push_back(fmt::format("--tensorboard-dir '{}' stays as it is: event files go into the run's folder",
                                   options.tensorboard_dir));
  if (options.no_load_optim && options.load.empty())
    warnings.emplace_back(
        "--no-load-optim changes nothing without --load of another run: a run that goes on with its own "
        "checkpoints goes on with its optimiser");
  if (options.train_iters && !options.lr_decay_iters &&
      options.lr_warmup_iters >= std::max<int64_t>(*options.train_iters, 1))
    warnings.push_back(fmt::format("--lr-warmup-iters {} is not below the {} steps of the run: --lr is never reached",
                                   options.lr_warmup_iters, *options.train_iters));
  if (options.sequence_parallel && options.tensor_model_parallel_size == 1)
    warnings.emplace_back("--sequence-parallel changes nothing with one tensor rank");
  if (!options.global_batch_size && options.pipeline_model_parallel_size > 1)
    warnings.push_back(
        fmt::format("--global-batch-size is not given: a step is one micro-batch of each data rank, for which {0} "
                    "pipeline stages take turns and each waits {1}/{0} of the time",
                    options.pipeline_model_parallel_size, options.pipeline_model_parallel_size - 1));
  return warnings;
}
}  // namespace

std::vector<std::string> check_gpt_options(const GptOptions& options, const core::OptionSet& set) {
  UsageProblems problems;
  problems.collect([&] { check_model(options); });
  problems.collect([&] { check_precision(options, set); });
  problems.collect([&] { check_recompute(options); });
  problems.collect([&] { check_length(options, set); });
  problems.collect([&] { check_data(options); });
  check_needed(options, problems);
  problems.collect([&] { config::check_run_options(options, {"--train-iters", options.train_iters}, set); });
  problems.collect([&] { check_checkpoints(options); });
  problems.collect([&] { check_other_pairs(options); });
  problems.collect([&] { check_attention(options); });
  problems.raise();
  return gpt_warnings(options, set);
}

}  // namespace lockstep::tasks
