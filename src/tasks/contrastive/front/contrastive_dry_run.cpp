#include "tasks/contrastive/front/contrastive_dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "config/contrastive_shape.h"
#include "config/precision_names.h"
#include "config/pretrained_weights.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "data/shards/shard_list.h"
#include "plan/bucket_plan.h"
#include "tasks/contrastive/front/contrastive_dry_run_memory.h"
#include "tasks/contrastive/front/teacher.h"
#include "tasks/contrastive/front/text_ids.h"
#include "tasks/contrastive/front/zero_shot_sets.h"
#include "tasks/front/batch_facts.h"
#include "tasks/front/length_facts.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {

/// What stands beside the text, with its size.
std::string other_text(const config::ContrastiveShape& shape) {
  if (const auto* clip = shape.clip()) return fmt::format("a picture of {0} x {0} pixels", clip->vision.image_size);
  const auto& audio = shape.clap()->audio;
  return fmt::format("{:.4g} s of audio",
                     static_cast<double>(audio.clip_samples) / static_cast<double>(audio.sample_rate));
}

void add_bucket_facts(const ContrastiveOptions& options, const config::ContrastiveShape& shape, int64_t num_ranks,
                      std::vector<DryRunFact>& facts) {
  const config::GradSyncKind sync = grad_sync_kind(options, num_ranks);
  if (sync == config::GradSyncKind::kNone) return;
  const bool is_zero1 = sync == config::GradSyncKind::kZero1;
  const auto frozen = config::frozen_parameters(shape, options.tower_locks());
  std::vector<plan::BucketItem> items;
  for (const config::ParamSpec& param : shape.param_specs()) {
    if (param.is_buffer || frozen.contains(param.name)) continue;
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

void add_model_facts(const ContrastiveOptions& options, const config::ContrastiveShape& shape, int64_t num_ranks,
                     std::vector<DryRunFact>& facts) {
  const config::ContrastiveCost cost = config::contrastive_cost(shape);
  facts.push_back(
      {"parameters", "parameters", cost.parameters,
       fmt::format("{} ({} {}, text {})", core::format_count(static_cast<double>(cost.parameters)), shape.modality(),
                   core::format_count(static_cast<double>(cost.image_or_audio_parameters)),
                   core::format_count(static_cast<double>(cost.text_parameters)))});
  facts.push_back({"forward_flops_per_sample", "forward pass", cost.forward.flops,
                   fmt::format("{}FLOP per pair of {} and text of {} tokens (2 x multiply-adds)",
                               core::format_count(cost.forward.flops), other_text(shape), shape.context_length())});
  add_bucket_facts(options, shape, num_ranks, facts);
}

/// The shards of a data flag that are not here, in a sentence.
std::vector<std::string> missing_shards(const std::string& flag, const std::string& spec) {
  constexpr size_t kMostAsked = 10000;  // each costs a question to the file system
  size_t num_shards = 0, num_asked = 0, num_missing = 0;
  std::string first;
  for (const data::ShardSource& source : data::parse_shard_sources(spec, ""))
    for (const std::string& shard : source.shards) {
      if (data::is_streamed(shard) || num_shards++ >= kMostAsked) continue;
      ++num_asked;
      std::error_code ignored;
      if (fs::exists(shard, ignored)) continue;
      if (num_missing++ == 0) first = shard;
    }
  if (num_missing == 0) return {};
  const std::string asked = num_asked < num_shards
                                ? fmt::format("the first {} of {}", num_asked, core::counted(num_shards, "shard"))
                                : core::counted(num_asked, "shard");
  const std::string missing = num_missing < num_asked ? fmt::format("{} of {} are not here", num_missing, asked)
                              : num_asked == 1        ? "the shard is not here"
                                                      : fmt::format("none of {} is here", asked);
  return {fmt::format("{}: {}; the first: '{}'", flag, missing, first)};
}

/// One line of the page: what is missing, and the command that fetches it.
std::string what_to_do(const UsageError& error) {
  return fmt::format("{}; {}", core::replace_all(error.what(), "options: ", ""), error.hint());
}

/// Files and folders that the command line names and that are not here, a sentence each.
std::vector<std::string> missing_inputs(const ContrastiveOptions& options) {
  std::vector<std::string> missing;
  for (const auto& [flag, spec] :
       {std::pair("--train-data", options.train_data), std::pair("--val-data", options.val_data),
        std::pair("--imagenet-val", options.imagenet_val), std::pair("--imagenet-v2", options.imagenet_v2),
        std::pair("--zeroshot-data", options.zeroshot_data)}) {
    const bool is_shards = spec.find(".tar") != std::string::npos || data::is_streamed(spec);
    if (!is_shards)
      look_for_input(flag, spec, missing);
    else
      for (const std::string& shards : missing_shards(flag, spec)) missing.push_back(shards);
  }
  const auto look_for_weights = [&](const auto& find) {
    try {
      find();
    } catch (const UsageError& error) {
      missing.push_back(what_to_do(error));
    }
  };
  if (!options.pretrained.empty())
    look_for_weights([&] { config::pretrained_file("--pretrained", options.pretrained, options.model); });
  if (options.has_teacher()) look_for_weights([&] { find_teacher_weights(options); });
  if (!options.resume)  // else a checkpoint has all weights
    look_for_weights([&] { config::find_tower_weights(tower_weight_names(options), contrastive_shape_of(options)); });
  look_for_input("--classnames", options.classnames, missing);
  look_for_input("--templates", options.templates, missing);
  look_for_input("--tokenizer-vocab", options.tokenizer_vocab, missing);
  look_for_checkpoint(options, missing);
  return missing;
}

/// The error with which the run would refuse class folders that are here; what is not here is in missing_inputs.
std::optional<Error> zero_shot_failure(const ContrastiveOptions& options) {
  std::error_code ignored;
  if (options.zeroshot_frequency_epochs == 0) return std::nullopt;
  if (!options.classnames.empty() && !fs::exists(options.classnames, ignored)) return std::nullopt;
  const auto specs = {options.imagenet_val, options.imagenet_v2, options.zeroshot_data};
  const auto is_folder = [&](const std::string& spec) { return fs::is_directory(spec, ignored); };
  if (std::none_of(specs.begin(), specs.end(), is_folder)) return std::nullopt;
  try {
    for (const ZeroShotSet& set : zero_shot_sets(options)) check_classes(set);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

DryRunPage contrastive_dry_run(const ContrastiveOptions& options, const core::OptionSet& set, const WorldSize& world) {
  const config::ContrastiveShape shape = contrastive_shape_of(options);
  const plan::BatchPlan batch = contrastive_batch_plan(options, set, world.num_ranks);
  DryRunPage page{.facts = batch_facts(set, options, world, batch, "sample")};
  add_length_facts({.samples_per_epoch = options.train_num_samples,
                    .global_batch = batch.global_batch,
                    .epochs = options.epochs,
                    .max_steps = options.max_steps,
                    .warmup = std::to_string(options.warmup_steps)},
                   page.facts);
  add_model_facts(options, shape, world.num_ranks, page.facts);
  const std::optional<RankMemory> memory = contrastive_rank_memory(options, world);
  for (DryRunFact& fact : memory_facts(options, shape, batch, world.num_ranks, memory))
    page.facts.push_back(std::move(fact));
  page.memory_bytes = planned_memory(options, shape, batch, world.num_ranks, memory).total();
  if (memory) page.device_bytes = memory->bytes;
  updated_specs(options, shape);  // refuses what the run would refuse
  if (const config::ClipShape* clip = shape.clip()) check_text_ids(*clip);
  if (options.has_teacher()) check_teacher(options, *shape.clip());
  page.warnings = shape_warnings(options, shape);
  if (world.asks_for_inputs) {
    page.missing = missing_inputs(options);
    page.failure = zero_shot_failure(options);
  }
  return page;
}

}  // namespace lockstep::tasks
