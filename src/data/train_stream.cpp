#include "data/train_stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/strings.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_openclip.h"
#include "data/shards/source_rows.h"
#include "data/shards/source_webdataset.h"
#include "data/text/name_table.h"

namespace lockstep::data {
namespace fs = std::filesystem;
using core::Json;

namespace {

constexpr size_t kMaxAutomaticIndex = 1000;  // shards; more only on request (`lockstep data index`)

DatasetType resolved_type(const SourceConfig& config) {
  if (config.type != DatasetType::kAuto) return config.type;
  std::error_code code;
  if (config.spec.empty())
    throw UsageError("data: no data set given",
                     "--train-data 'folder/{000..099}.tar', a .csv file, or --dataset-type synthetic");
  if (fs::is_directory(config.spec, code)) return DatasetType::kImageFolder;
  const std::string lower = core::to_lower_ascii(config.spec);
  if (core::ends_with(lower, ".csv") || core::ends_with(lower, ".tsv")) return DatasetType::kCsv;
  if (is_pipe(lower) || lower.find(".tar") != std::string::npos || lower.find("::pipe:") != std::string::npos)
    return DatasetType::kWebDataset;
  if (!fs::exists(config.spec, code))
    throw DataError(fmt::format("data: '{}' does not exist", config.spec),
                    "give .tar shards ('folder/{000..099}.tar'), a .csv or .tsv file, or for pictures of classes a "
                    "folder of folders");
  throw UsageError(
      fmt::format("data: cannot tell what kind of data '{}' is", config.spec),
      "a .tar list is WebDataset, .csv and .tsv are tables, a folder is an ImageFolder; else say --dataset-type");
}

void check_config(const SourceConfig& config) {
  LOCKSTEP_CHECK(config.world_size > 0 && config.rank >= 0 && config.rank < config.world_size, "rank={} world={}",
                 config.rank, config.world_size);
  if (config.global_batch < 1 || config.global_batch % config.world_size != 0)
    throw UsageError(
        fmt::format("data: global batch {} is no multiple of {} ranks", config.global_batch, config.world_size),
        fmt::format("nearest: {} or {}",
                    std::max<int64_t>(1, config.global_batch / config.world_size) * config.world_size,
                    (config.global_batch / config.world_size + 1) * config.world_size));
  if (config.num_lanes < 1) throw UsageError(fmt::format("data: lanes is {}, expected at least 1", config.num_lanes));
  if (config.shuffle_window < 1)
    throw UsageError(fmt::format("data: shuffle window is {}, expected at least 1", config.shuffle_window));
  if (config.num_samples < 0)
    throw UsageError(fmt::format("data: --train-num-samples is {}, expected at least 1", config.num_samples));
  if (!config.shuffle && config.resampled)
    throw UsageError("data: --shuffle off and --dataset-resampled contradict each other",
                     "drawing shards with replacement is random by nature");
}

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

/// Counts of sizes.json, or of __len__, in the folder of the first shard.
std::optional<std::pair<int64_t, std::string>> size_beside_shards(const std::vector<std::string>& shards) {
  if (shards.empty() || is_pipe(shards.front())) return std::nullopt;
  const fs::path folder = fs::path(shards.front()).parent_path();
  std::error_code code;
  if (const fs::path file = folder / "sizes.json"; fs::exists(file, code)) {
    const Json sizes = core::read_json_file(file);
    int64_t total = 0;
    for (const std::string& shard : shards) {
      const std::string name = fs::path(shard).filename().string();
      if (!sizes.is_object() || !sizes.contains(name) || !sizes.at(name).is_number_integer() ||
          sizes.at(name).get<int64_t>() < 0)
        throw DataError(fmt::format("data: '{}' has no count for shard '{}'", file.string(), name),
                        "give --train-num-samples, or correct the file");
      total += sizes.at(name).get<int64_t>();
    }
    return std::pair(total, std::string("sizes.json"));
  }
  if (const fs::path file = folder / "__len__"; fs::exists(file, code)) {
    const std::string text = core::read_file(file);
    const auto count = core::parse_int(core::trim(text));
    if (!count || *count < 0) throw DataError(fmt::format("data: '{}' holds no number", file.string()));
    return std::pair(*count, std::string("__len__"));
  }
  return std::nullopt;
}

EpochSize webdataset_size(const SourceConfig& config) {
  const auto set = load_shard_set(config);
  if (set->has_index() && config.order == DataOrder::kLockstep && !config.resampled) {
    pass_samples(*set, config);  // refuses a set smaller than one batch
    return rounded_down(set->num_samples(), config.global_batch, "index");
  }
  if (set->has_index()) return rounded_up(set->num_samples(), config.global_batch, "index");
  if (const auto found = size_beside_shards(set->shards))
    return rounded_up(found->first, config.global_batch, found->second);
  throw DataError(fmt::format("data: the number of samples in '{}' is not known", config.spec),
                  "give --train-num-samples N, or run `lockstep data index SHARDS` once");
}

/// A line now and then while shards are indexed; the other ranks wait for it.
std::function<void(int64_t, const std::string&)> progress_lines(size_t num_shards) {
  static constexpr auto kDistance = std::chrono::seconds(10);
  return [num_shards, next = std::chrono::steady_clock::now() + kDistance](int64_t done, const std::string&) mutable {
    if (std::chrono::steady_clock::now() < next) return;
    next += kDistance;
    core::log_info("data: indexing, {} of {} shards; training begins afterwards", done, num_shards);
  };
}

[[noreturn]] void throw_unreadable(const IndexSummary& summary, size_t num_shards) {
  const DataError& first = summary.damaged.front().second;
  const size_t count = summary.damaged.size();
  const std::string others = count > 1 ? fmt::format("; {} of {} shards cannot be read", count, num_shards) : "";
  throw DataError(first.what() + others, first.hint().empty()
                                             ? "run `lockstep data verify SHARDS` to list every damaged shard"
                                             : first.hint() + "; `lockstep data verify SHARDS` lists every such shard");
}

RowTable open_rows(const SourceConfig& config, DatasetType type) {
  switch (type) {
    case DatasetType::kCsv: return open_csv(config);
    case DatasetType::kImageFolder: return open_class_folders(config);
    case DatasetType::kSyntheticAudio: return open_synthetic_audio(config);
    default: return open_synthetic(config);
  }
}

}  // namespace

DatasetType parse_dataset_type(const std::string& name) {
  static constexpr NameTable<DatasetType, 7> kNames{{{"auto", DatasetType::kAuto},
                                                     {"webdataset", DatasetType::kWebDataset},
                                                     {"webdataset-audio", DatasetType::kWebDataset},
                                                     {"csv", DatasetType::kCsv},
                                                     {"synthetic", DatasetType::kSynthetic},
                                                     {"synthetic-audio", DatasetType::kSyntheticAudio},
                                                     {"imagefolder", DatasetType::kImageFolder}}};
  return parse_name(name, kNames, "data set type");
}

DataOrder parse_data_order(const std::string& name) {
  static constexpr NameTable<DataOrder, 2> kNames{
      {{"lockstep", DataOrder::kLockstep}, {"openclip", DataOrder::kOpenClip}}};
  return parse_name(name, kNames, "data order");
}

EpochSize epoch_size(const SourceConfig& config) {
  check_config(config);
  const DatasetType type = resolved_type(config);
  EpochSize size;
  if (config.num_samples > 0) {
    size = rounded_up(config.num_samples, config.global_batch, "--train-num-samples");
  } else if (type == DatasetType::kWebDataset) {
    size = webdataset_size(config);
  } else if (type == DatasetType::kSynthetic || type == DatasetType::kSyntheticAudio) {
    throw UsageError("data: synthetic data has no size of its own", "give --train-num-samples N");
  } else {
    size = rounded_down(open_rows(config, type).num_rows, config.global_batch,
                        type == DatasetType::kCsv ? "csv" : "imagefolder");
  }
  if (size.num_batches == 0)
    throw DataError(fmt::format("data: '{}' holds {} samples, fewer than one global batch of {}", config.spec,
                                size.num_known, config.global_batch),
                    kTooFewSamplesHint);
  return size;
}

std::unique_ptr<SampleSource> open_train_source(const SourceConfig& config) {
  check_config(config);
  const DatasetType type = resolved_type(config);
  if (type != DatasetType::kWebDataset) {
    if (config.resampled || !config.upsampling_factors.empty())
      throw UsageError("data: --dataset-resampled draws shards, so it needs a WebDataset");
    return make_row_train_source(open_rows(config, type), config);
  }
  if (config.order == DataOrder::kOpenClip) return open_openclip_source(config);
  return open_lane_source(config);
}

std::unique_ptr<SampleSource> open_eval_source(const SourceConfig& config) {
  LOCKSTEP_CHECK(config.world_size > 0 && config.rank >= 0 && config.rank < config.world_size, "rank={} world={}",
                 config.rank, config.world_size);
  const DatasetType type = resolved_type(config);
  if (type == DatasetType::kWebDataset) return open_sequential_source(config);
  return make_row_eval_source(open_rows(config, type), config);
}

bool prepare_index(const SourceConfig& config, int64_t num_threads) {
  if (resolved_type(config) != DatasetType::kWebDataset || config.index == IndexUse::kOff) return false;
  const std::vector<std::string> shards = expand_shards(config);
  const bool has_pipe =
      std::any_of(shards.begin(), shards.end(), [](const std::string& shard) { return is_pipe(shard); });
  if (!has_pipe && shards.size() < kMaxAutomaticIndex) {
    IndexSummary summary;
    try {
      summary = build_indexes({.shards = shards,
                               .index_dir = config.index_dir,
                               .num_threads = num_threads,
                               .force = false,
                               .on_progress = progress_lines(shards.size())});
    } catch (const EnvironmentError& error) {  // a read-only folder: go on without an index, unless one was asked for
      if (config.index == IndexUse::kRequire) throw;
      core::log_warning("data: no index ({}); give --index-dir a folder that can be written", error.what());
    }
    if (!summary.damaged.empty()) throw_unreadable(summary, shards.size());
    if (summary.num_built > 0)
      core::log_info("data: indexed {} shards, {} samples", summary.num_built, summary.num_samples);
  }
  return load_shard_set(config)->has_index();
}

Json merge_positions(std::span<const Json> positions) {
  LOCKSTEP_CHECK(!positions.empty(), "positions={}", positions.size());
  Json merged = positions.front();
  if (!merged.contains("marks")) {
    for (const Json& position : positions)
      if (position != merged)
        throw DataError(
            fmt::format("data: ranks stand at different positions: {} and {}", merged.dump(), position.dump()));
    return merged;
  }
  std::map<int64_t, Json> marks;
  for (Json position : positions) {
    for (const Json& mark : position.at("marks")) marks[mark.at(0).get<int64_t>()] = mark;
    Json rest = merged;
    rest.erase("marks");
    position.erase("marks");
    if (position != rest)
      throw DataError(fmt::format("data: ranks stand at different positions: {} and {}", rest.dump(), position.dump()));
  }
  merged["marks"] = Json::array();
  for (const auto& [lane, mark] : marks) merged["marks"].push_back(mark);
  return merged;
}

}  // namespace lockstep::data
