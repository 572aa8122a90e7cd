#include "tasks/imagenet/front/imagenet_dry_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "config/grad_sync_kind.h"
#include "config/optimizers.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/units.h"
#include "data/train_stream.h"
#include "plan/bucket_plan.h"
#include "tasks/front/batch_facts.h"
#include "tasks/front/device_memory.h"
#include "tasks/front/length_facts.h"
#include "tasks/imagenet/front/data_folder.h"

namespace lockstep::tasks {
namespace fs = std::filesystem;
namespace {

constexpr double kFloatBytes = 4;

int64_t num_parameters(const std::vector<config::ParamSpec>& specs) {
  int64_t count = 0;
  for (const config::ParamSpec& spec : specs) count += spec.is_buffer ? 0 : spec.numel();
  return count;
}

void add_network_facts(const ImagenetOptions& options, int64_t num_ranks, std::vector<DryRunFact>& facts) {
  const auto specs = classifier_params_of(options);
  const config::FlopCount forward = config::classifier_forward(classifier_of(options));
  const int64_t count = num_parameters(specs);
  facts.push_back({"parameters", "parameters", count, core::format_count(static_cast<double>(count))});
  facts.push_back({"forward_flops_per_sample", "forward pass", forward.flops,
                   fmt::format("{}FLOP per picture of {} pixels (2 x multiply-adds)", core::format_count(forward.flops),
                               options.image_pixels)});
  const config::GradSyncKind sync = config::grad_sync_kind(options.grad_sync, num_ranks, /*has_masters=*/false);
  if (sync == config::GradSyncKind::kNone) return;
  std::vector<plan::BucketItem> items;
  for (const config::ParamSpec& spec : specs)
    if (!spec.is_buffer)
      items.push_back({.name = spec.name, .num_elements = spec.numel(), .dtype = "fp32", .element_bytes = 4});
  const auto buckets = plan::plan_buckets(items, static_cast<int64_t>(options.bucket_mib * 1024 * 1024),
                                          sync == config::GradSyncKind::kZero1 ? num_ranks : 1);
  int64_t bytes = 0;
  for (const plan::Bucket& bucket : buckets) bytes += bucket.num_elements * bucket.element_bytes;
  facts.push_back(
      {"gradient_buckets", "gradient buckets", static_cast<int64_t>(buckets.size()),
       fmt::format("{}, {} to reduce per step", buckets.size(), core::format_bytes(static_cast<double>(bytes)))});
  facts.push_back({"gradient_bytes", "", bytes, ""});
}

void add_memory_facts(const ImagenetMemory& planned, const std::optional<RankMemory>& memory,
                      std::vector<DryRunFact>& facts) {
  core::Json bytes = core::Json::object();
  std::vector<DryRunFact> parts;
  for (const auto& [name, value] : planned.parts()) {
    bytes[name] = static_cast<int64_t>(value);
    parts.push_back({"", fmt::format("  {}", name), nullptr, core::format_bytes(value)});
  }
  bytes["total"] = static_cast<int64_t>(planned.total());
  facts.push_back({"memory_per_rank_bytes", "memory of a rank", bytes,
                   fmt::format("{}, planned from shapes", core::format_bytes(planned.total()))});
  facts.insert(facts.end(), parts.begin(), parts.end());
  facts.push_back(device_memory_fact(planned.total(), memory));
}

/// Data of the run as the engine opens them.
data::SourceConfig source_of(const ImagenetOptions& options, const std::string& type, const std::string& spec) {
  data::SourceConfig source;
  source.spec = spec;
  source.type = data::parse_dataset_type(type);
  source.need_text = false;
  source.need_label = true;
  source.num_classes = classifier_of(options).num_classes;
  source.csv_separator = options.csv_separator;
  source.csv_image_key = options.csv_img_key;
  source.csv_label_key = options.csv_label_key;
  return source;
}

/// Pictures in the data, where these say it without being read through: class folders, an LMDB, a table. Of shards
/// nothing, but DataError where some are not here; remote ones are not asked for. A sweep or a prediction asks for one
/// data set many times, which is looked at once.
std::optional<int64_t> count_samples(const data::SourceConfig& source) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<int64_t>> known;
  const std::string key = fmt::format("{} {} {}", source.type, source.num_repeats, source.spec);
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::optional<int64_t> count;
  if (data::is_made_of_rows(source))
    count = data::epoch_size(source).num_known;
  else if (source.spec.find("://") == std::string::npos)
    data::refuse_missing_shards(source, /*num_threads=*/1);
  return known[key] = count;
}

/// Pictures of an epoch where they are known, and the error with which the run would end.
struct DataHere {
  std::optional<int64_t> num_samples{};
  std::optional<Error> failure{};
};

/// Looks at the data as the engine does before its first step, in the same order.
DataHere look_at_data(const ImagenetOptions& options, int64_t global_batch) {
  DataHere here;
  if (options.has_made_up_data()) return here;
  try {
    refuse_other_data_folder(options, /*must_exist=*/true);
    if (!options.is_evaluate) {
      data::SourceConfig train = source_of(options, options.dataset_type, options.train_data);
      train.num_repeats = options.dataset_repeat;
      here.num_samples = count_samples(train);
      train.global_batch = global_batch;
      if (here.num_samples && *here.num_samples < global_batch) data::epoch_size(train);  // the engine's refusal
    }
    const bool evaluates = options.is_evaluate || options.val_frequency_epochs > 0;
    if (evaluates && !options.val_data.empty())
      count_samples(source_of(options, options.validation_type(), options.val_data));
  } catch (const Error& error) {
    here.failure = error;
  }
  return here;
}

std::vector<std::string> missing_imagenet_inputs(const ImagenetOptions& options) {
  std::vector<std::string> missing;
  for (const auto& [flag, path] :
       {std::pair("--train-data", options.train_data), std::pair("--val-data", options.val_data),
        std::pair("--pretrained", options.pretrained)}) {
    const bool is_pattern = path.find('{') != std::string::npos || path.find(':') != std::string::npos;
    if (!is_pattern) look_for_input(flag, path, missing);
  }
  look_for_checkpoint(options, missing);
  return missing;
}

}  // namespace

std::vector<std::pair<std::string, double>> ImagenetMemory::parts() const {
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"optimizer", optimizer},
          {"activations", activations},
          {"batch", batch}};
}

ImagenetMemory plan_imagenet_memory(const ImagenetOptions& options, const plan::BatchPlan& batch, int64_t num_ranks) {
  const config::ClassifierShape shape = classifier_of(options);
  const auto samples = static_cast<double>(batch.micro_batch_size), pixels = static_cast<double>(options.image_pixels);
  const double shares = options.grad_sync == "zero1" ? static_cast<double>(num_ranks) : 1;
  ImagenetMemory plan;
  for (const config::ParamSpec& spec : classifier_params_of(options)) {
    const double bytes = static_cast<double>(spec.numel()) * kFloatBytes;
    plan.parameters += bytes;
    if (spec.is_buffer) continue;
    plan.gradients += bytes;
    const int64_t num_copies = config::optimizer_info(options.opt).num_moments + (options.has_average ? 1 : 0);
    plan.optimizer += bytes * static_cast<double>(num_copies) / shares;
  }
  config::ActivationBytes bytes = config::activation_bytes_of(options.precision);
  bytes.keeps_attention = options.device == "cpu";
  plan.activations = samples * config::classifier_activation_bytes(shape, bytes);
  const auto batches_held = static_cast<double>(batch.micro_batches_held(options.device != "cpu"));
  plan.batch = batches_held * samples * 3 * pixels * pixels * kFloatBytes;
  return plan;
}

DryRunPage imagenet_dry_run(const ImagenetOptions& options, const core::OptionSet& set, const WorldSize& world) {
  const plan::BatchPlan batch = imagenet_batch_plan(options, set, world.num_ranks);
  DryRunPage page{.facts = batch_facts(set, options, world, batch, "picture")};
  page.facts.push_back({"lr", "peak learning rate", peak_lr(options, batch.global_batch),
                        fmt::format("{:.6g}", peak_lr(options, batch.global_batch))});
  const DataHere here = look_at_data(options, batch.global_batch);
  const bool is_counted = here.num_samples && !options.train_num_samples;
  page.failure = here.failure;
  add_length_facts({.samples_per_epoch = is_counted ? here.num_samples : options.train_num_samples,
                    .are_counted = is_counted,
                    .global_batch = batch.global_batch,
                    .epochs = options.epochs,
                    .max_steps = options.max_steps,
                    .sample_name = "picture",
                    .warmup = core::counted(options.warmup_epochs, "epoch")},
                   page.facts);
  add_network_facts(options, world.num_ranks, page.facts);
  const std::optional<RankMemory> memory = asked_or_rank_memory(options.device_memory, options, world);
  const ImagenetMemory planned = plan_imagenet_memory(options, batch, world.num_ranks);
  add_memory_facts(planned, memory, page.facts);
  page.memory_bytes = planned.total();
  if (memory) page.device_bytes = memory->bytes;
  if (world.asks_for_inputs) page.missing = missing_imagenet_inputs(options);
  return page;
}

}  // namespace lockstep::tasks
