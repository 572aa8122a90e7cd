#include "cli/front/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/front/dry_run_memory.h"
#include "cli/front/gpt_dry_run.h"
#include "config/contrastive_shape.h"
#include "config/precision_names.h"
#include "core/options.h"
#include "core/units.h"
#include "data/shards/shard_list.h"
#include "hw/ranks.h"
#include "plan/bucket_plan.h"
#include "plan/train_batch.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPageWidth = 80, kLeastTextWidth = 20;

/// --world-size, or what `lockstep launch`, explicit flags, another launcher or SLURM say.
WorldGuess guess_world(const config::TrainOptions& options, const std::optional<WorldGuess>& launched) {
  if (options.world_size) return {*options.world_size, "--world-size", 0};
  if (launched) return *launched;
  hw::RankFlags flags;
  if (options.dist_rank) flags.rank = static_cast<int>(*options.dist_rank);
  if (options.dist_world_size) flags.world_size = static_cast<int>(*options.dist_world_size);
  const hw::RankInfo info = hw::discover_ranks(flags, hw::process_env());
  return {info.world_size, info.source, info.local_world_size};
}

/// What stands beside the text, with its size.
std::string other_text(const config::ContrastiveShape& shape) {
  if (const auto* clip = shape.clip()) return fmt::format("a picture of {0} x {0} pixels", clip->vision.image_size);
  const auto& audio = shape.clap()->audio;
  return fmt::format("{:.4g} s of audio",
                     static_cast<double>(audio.clip_samples) / static_cast<double>(audio.sample_rate));
}

void add_bucket_facts(const config::TrainOptions& options, const config::ContrastiveShape& shape, int64_t num_ranks,
                      std::vector<DryRunFact>& facts) {
  const config::GradSyncKind sync = config::grad_sync_kind(options, num_ranks);
  if (sync == config::GradSyncKind::kNone) return;
  const bool is_zero1 = sync == config::GradSyncKind::kZero1;
  std::vector<plan::BucketItem> items;
  for (const config::ParamSpec& param : shape.param_specs()) {
    if (param.is_buffer) continue;
    const bool is_16bit = config::is_16bit(param, options.precision);
    items.push_back({.name = param.name,
                     .num_elements = param.numel(),
                     .dtype = is_16bit ? "16 bits" : "fp32",
                     .element_bytes = is_16bit && !options.fp32_gradients ? 2 : 4});
  }
  const auto buckets =
      plan::plan_buckets(items, static_cast<int64_t>(options.bucket_mib * 1024 * 1024), is_zero1 ? num_ranks : 1);
  int64_t bytes = 0, gathered = 0;
  for (const plan::Bucket& bucket : buckets) {
    bytes += bucket.num_elements * bucket.element_bytes;
    gathered += bucket.num_elements * (bucket.dtype == "fp32" ? 4 : 2);
  }
  const std::string reduced = core::format_bytes(static_cast<double>(bytes));
  const std::string sent = is_zero1 ? fmt::format("{} to reduce-scatter and {} to gather per step", reduced,
                                                  core::format_bytes(static_cast<double>(gathered)))
                                    : fmt::format("{} to reduce per step", reduced);
  facts.push_back({"gradient_buckets", "gradient buckets", static_cast<int64_t>(buckets.size()),
                   fmt::format("{}, {}", buckets.size(), sent)});
  facts.push_back({"gradient_bytes", "", bytes, ""});
}

void add_model_facts(const config::TrainOptions& options, const config::ContrastiveShape& shape, int64_t num_ranks,
                     std::vector<DryRunFact>& facts) {
  const config::ContrastiveCost cost = config::contrastive_cost(shape);
  facts.push_back({"parameters", "parameters", cost.parameters,
                   fmt::format("{} ({} {}, text {})", core::format_count(static_cast<double>(cost.parameters)),
                               shape.other_kind(), core::format_count(static_cast<double>(cost.other_parameters)),
                               core::format_count(static_cast<double>(cost.text_parameters)))});
  facts.push_back({"forward_flops_per_sample", "forward pass", cost.forward.flops,
                   fmt::format("{}FLOP per pair of {} and text of {} tokens (2 x multiply-adds)",
                               core::format_count(cost.forward.flops), other_text(shape), shape.context_length())});
  add_bucket_facts(options, shape, num_ranks, facts);
}

void add_step_facts(const config::TrainOptions& options, int64_t global_batch, std::vector<DryRunFact>& facts) {
  if (!options.train_num_samples) {
    facts.push_back({"steps_per_epoch", "steps per epoch", nullptr,
                     "known when the data are opened (--train-num-samples tells before)"});
    return;
  }
  const int64_t steps = (*options.train_num_samples + global_batch - 1) / global_batch;
  const bool is_cut = options.max_steps && *options.max_steps / steps < options.epochs;
  const int64_t total = is_cut ? *options.max_steps : steps * options.epochs;
  facts.push_back(
      {"steps_per_epoch", "steps per epoch", steps,
       fmt::format("{} ({} samples, rounded up to whole global batches)", steps, *options.train_num_samples)});
  facts.push_back(
      {"total_steps", "steps in all", total,
       fmt::format("{} ({}), warm-up {}", total, is_cut ? "--max-steps" : fmt::format("{} epochs", options.epochs),
                   options.warmup_steps)});
}

/// Warnings about shards of a data flag that are not here.
std::vector<std::string> missing_shards(const std::string& flag, const std::string& spec) {
  constexpr size_t kMostAsked = 10000;  // each costs a question to the file system
  size_t num_asked = 0, num_missing = 0;
  std::string first;
  for (const data::ShardSource& source : data::parse_shard_sources(spec, ""))
    for (const std::string& shard : source.shards) {
      if (data::is_pipe(shard) || num_asked == kMostAsked) continue;
      ++num_asked;
      std::error_code ignored;
      if (fs::exists(shard, ignored)) continue;
      if (num_missing++ == 0) first = shard;
    }
  if (num_missing == 0) return {};
  return {
      fmt::format("{}: {} of {} shards looked for are not here; the first: '{}'", flag, num_missing, num_asked, first)};
}

/// Warnings about files and folders that the command line names and that are not here.
std::vector<std::string> missing_inputs(const config::TrainOptions& options) {
  std::vector<std::string> warnings;
  const auto look_for = [&](const std::string& flag, const std::string& path) {
    std::error_code ignored;
    if (!path.empty() && !fs::exists(path, ignored)) warnings.push_back(fmt::format("{} '{}' is not here", flag, path));
  };
  for (const auto& [flag, spec] :
       {std::pair("--train-data", options.train_data), std::pair("--val-data", options.val_data),
        std::pair("--imagenet-val", options.imagenet_val), std::pair("--zeroshot-data", options.zeroshot_data)}) {
    const bool is_shards = spec.find(".tar") != std::string::npos || data::is_pipe(spec);
    if (!is_shards)
      look_for(flag, spec);
    else
      for (const std::string& warning : missing_shards(flag, spec)) warnings.push_back(warning);
  }
  look_for("--pretrained", options.pretrained);
  look_for("--classnames", options.classnames);
  look_for("--templates", options.templates);
  look_for("--tokenizer-vocab", options.tokenizer_vocab);
  if (options.resume && *options.resume != "latest") look_for("--resume", *options.resume);
  return warnings;
}

/// What a contrastive training command would do, as far as it can be told without tensors, data and devices.
std::vector<DryRunFact> contrastive_facts(const config::ParsedCommand& command, const config::ContrastiveShape& shape,
                                          const WorldGuess& world) {
  const config::TrainOptions& options = *command.train;
  const plan::BatchPlan batch = plan::train_batch_plan(command, world.num_ranks);
  std::vector<DryRunFact> facts = {
      {"command", "command", command.info->name, command.info->name},
      {"model", "model", options.model, options.model},
      {"precision", "precision", options.precision, options.precision},
      {"world_size", "ranks", world.num_ranks, fmt::format("{} (from {})", world.num_ranks, world.source)},
      {"samples_per_rank", "samples per rank", batch.samples_per_micro,
       fmt::format("{} x {} micro-batches", batch.samples_per_micro, batch.num_micro)},
      {"num_micro", "", batch.num_micro, ""},
      {"global_batch", "global batch", batch.global_batch, fmt::format("{} samples", batch.global_batch)},
  };
  add_step_facts(options, batch.global_batch, facts);
  add_model_facts(options, shape, world.num_ranks, facts);
  for (DryRunFact& fact : memory_facts(options, shape, batch, world.num_ranks, rank_memory(options, world)))
    facts.push_back(std::move(fact));
  return facts;
}

/// What is printed of a dry run, whatever the task.
struct DryRunPage {
  std::vector<DryRunFact> facts;
  std::string tables;  ///< Below the facts.
  core::Json extra = core::Json::object();
  std::vector<std::string> warnings;
};

DryRunPage make_page(const config::ParsedCommand& command, const std::optional<WorldGuess>& launched) {
  DryRunPage page{.facts = {}, .tables = "", .warnings = command.warnings};
  std::vector<std::string> more;
  if (command.gpt) {
    GptDryRun run = gpt_dry_run(command, guess_world(command.gpt->run, launched));
    page.facts = std::move(run.facts);
    page.tables = std::move(run.tables);
    page.extra["stages"] = std::move(run.stages);
    more = std::move(run.warnings);
  } else {
    const config::ContrastiveShape shape = config::resolve_contrastive_shape(*command.train);
    page.facts = contrastive_facts(command, shape, guess_world(*command.train, launched));
    more = config::shape_warnings(*command.train, shape);
    for (std::string& warning : missing_inputs(*command.train)) more.push_back(std::move(warning));
  }
  page.warnings.insert(page.warnings.end(), more.begin(), more.end());
  return page;
}

/// Name, value and in brackets where it comes from, below each other where they are long.
std::string option_entry(const core::Option& option) {
  const std::string label = fmt::format("  {:<26} ", "--" + option.name),
                    origin = fmt::format("[{}]", option.origin.text());
  const std::string line = fmt::format("{}{}  {}\n", label, option.value_text(), origin);
  if (line.size() <= kPageWidth + 1) return line;
  return dry_run_entry(label, option.value_text()) + dry_run_entry(std::string(6, ' '), origin);
}

}  // namespace

std::string dry_run_entry(const std::string& label, const std::string& text) {
  std::string entry;
  for (const std::string& line :
       core::wrap_text(text, kPageWidth - std::min(label.size(), kPageWidth - kLeastTextWidth)))
    entry += (entry.empty() ? label : std::string(label.size(), ' ')) + line + "\n";
  return entry;
}

void print_dry_run(const config::ParsedCommand& command, const std::optional<WorldGuess>& launched) {
  const DryRunPage page = make_page(command, launched);
  if (command.run_options()->json) {
    core::Json json = core::Json::object();
    for (const DryRunFact& fact : page.facts)
      if (!fact.key.empty()) json[fact.key] = fact.value;
    json.update(page.extra);
    json["options"] = command.set->values_json();
    json["warnings"] = page.warnings;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("Dry run: no data are read, nothing is computed or written.\n\n");
  for (const DryRunFact& fact : page.facts)
    if (!fact.label.empty()) fmt::print("{}", dry_run_entry(fmt::format("  {:<20}", fact.label), fact.text));
  fmt::print("{}\nOptions that differ from their defaults\n", page.tables);
  for (const core::Option& option : command.set->options())
    if (option.origin.kind != core::Origin::Kind::kDefault) fmt::print("{}", option_entry(option));
  for (const std::string& warning : page.warnings) fmt::print("\n{}", dry_run_entry("warning: ", warning));
}

}  // namespace lockstep::cli
