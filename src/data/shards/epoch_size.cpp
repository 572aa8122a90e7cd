#include "data/shards/epoch_size.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_webdataset.h"

namespace lockstep::data {
namespace fs = std::filesystem;
using core::Json;

EpochSize rounded_up(int64_t known, int64_t global_batch, std::string origin) {
  const int64_t batches = known / global_batch + (known % global_batch != 0 ? 1 : 0);
  return {.num_batches = batches,
          .num_samples = batches * global_batch,
          .num_known = known,
          .num_dropped = 0,
          .each_once = false,
          .origin = std::move(origin)};
}

EpochSize rounded_down(int64_t known, int64_t global_batch, std::string origin) {
  const int64_t batches = known / global_batch;
  return {.num_batches = batches,
          .num_samples = batches * global_batch,
          .num_known = known,
          .num_dropped = known - batches * global_batch,
          .each_once = true,
          .origin = std::move(origin)};
}

namespace {

/// A count of samples that somebody can have counted: a few of them added, or rounded up to a batch, do not overflow.
bool is_count(const std::optional<int64_t>& count) { return count && *count >= 0 && *count <= 1'000'000'000'000'000; }

/// The sum of what sizes.json tells of these shards.
int64_t sum_of_sizes(const fs::path& file, const std::vector<std::string>& shards) {
  const Json sizes = core::read_json_file(file);
  std::unordered_map<std::string_view, const Json*> told;  // the JSON looks through all keys
  if (sizes.is_object())
    for (const auto& [name, count] : sizes.get_ref<const Json::object_t&>()) told.emplace(name, &count);
  int64_t total = 0;
  for (const std::string& shard : shards) {
    const std::string name = fs::path(shard).filename().string();
    const auto found = told.find(name);
    const auto count = found == told.end() ? std::nullopt : core::integer_of(*found->second);
    if (!is_count(count) || !is_count(total + *count))
      throw DataError(fmt::format("data: '{}' has no count for shard '{}'", file.string(), name),
                      "give --train-num-samples, or correct the file");
    total += *count;
  }
  return total;
}

/// Counts of sizes.json, or of __len__, in the folder of the first shard.
std::optional<std::pair<int64_t, std::string>> size_beside_shards(const std::vector<std::string>& shards) {
  if (shards.empty() || is_streamed(shards.front())) return std::nullopt;
  const fs::path folder = fs::path(shards.front()).parent_path();
  std::error_code code;
  if (const fs::path file = folder / "sizes.json"; fs::exists(file, code))
    return std::pair(sum_of_sizes(file, shards), std::string("sizes.json"));
  if (const fs::path file = folder / "__len__"; fs::exists(file, code)) {
    const std::string text = core::read_file(file);
    const auto count = core::parse_int(core::trim(text));
    if (!is_count(count)) throw DataError(fmt::format("data: '{}' holds no count of samples", file.string()));
    return std::pair(*count, std::string("__len__"));
  }
  return std::nullopt;
}

EpochSize size_found(const SourceConfig& config) {
  const auto set = load_shard_set(config);
  if (set->has_index() && config.order == DataOrder::kLockstep && !config.resampled) {
    pass_samples(*set, config);  // refuses a set smaller than one batch
    return rounded_down(set->num_samples(), config.global_batch, "index");
  }
  if (set->has_index()) return rounded_up(set->num_samples(), config.global_batch, "index");
  if (const auto found = size_beside_shards(set->shards))
    return rounded_up(found->first, config.global_batch, found->second);
  const bool has_files = std::none_of(set->shards.begin(), set->shards.end(),
                                      [](const std::string& shard) { return core::starts_with(shard, "pipe:"); });
  throw DataError(fmt::format("data: the number of samples in '{}' is not known", config.spec),
                  has_files
                      ? fmt::format("give --train-num-samples N, or run `lockstep data index '{}'` once", config.spec)
                      : "give --train-num-samples N: what a command prints has no index");
}

}  // namespace

void refuse_empty(const EpochSize& size, const SourceConfig& config) {
  if (size.num_batches == 0)
    throw DataError(fmt::format("data: '{}' holds {}, fewer than one global batch of {}", config.spec,
                                core::counted(size.num_known, "sample"), config.global_batch),
                    kTooFewSamplesHint);
}

/// OpenCLIP's epoch: as many micro-batches for every worker, then whole steps of them.
EpochSize in_whole_workers(EpochSize size, const SourceConfig& config) {
  const auto divided_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t micro_global = config.micro_batch_size * config.world_size;
  const int64_t micro_batches =
      divided_up(divided_up(size.num_known, micro_global), config.num_workers) * config.num_workers;
  size.num_batches = micro_batches * micro_global / config.global_batch;
  size.num_samples = size.num_batches * config.global_batch;
  return size;
}

EpochSize shards_epoch_size(const SourceConfig& config) {
  EpochSize size = config.num_samples > 0 ? rounded_up(config.num_samples, config.global_batch, "--train-num-samples")
                                          : size_found(config);
  if (config.order == DataOrder::kOpenClip && config.micro_batch_size > 0) size = in_whole_workers(size, config);
  refuse_empty(size, config);
  return size;
}

std::string told_too_many(int64_t num_told, const std::string& told_by, int64_t num_found) {
  if (num_told <= num_found) return "";
  const bool is_asked = told_by == "--train-num-samples";
  return fmt::format("data: {} found, {} told by {}: {}", core::counted(num_found, "sample"), num_told, told_by,
                     is_asked ? fmt::format("an epoch reads the data {:.2f} times, so some samples come again in it",
                                            static_cast<double>(num_told) / static_cast<double>(num_found))
                              : "an epoch has those that were found");
}

std::string shards_size_warning(const SourceConfig& config) {
  if (config.resampled) return "";  // samples come again anyway
  const auto set = load_shard_set(config);
  if (!set->has_index() || set->num_samples() == 0) return "";
  if (config.num_samples > 0) return told_too_many(config.num_samples, "--train-num-samples", set->num_samples());
  try {
    if (const auto told = size_beside_shards(set->shards))
      return told_too_many(told->first, told->second, set->num_samples());
  } catch (const Error&) {
    // The index tells the size: nobody needs the other file.
  }
  return "";
}

}  // namespace lockstep::data
