#include "data/train_stream.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "core/wrapped_message.h"
#include "data/parallel_for.h"
#include "data/shards/index_jobs.h"
#include "data/shards/lmdb_reader.h"
#include "data/shards/remote_stream.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_lmdb.h"
#include "data/shards/source_openclip.h"
#include "data/shards/source_rows.h"
#include "data/shards/source_webdataset.h"
#include "data/shards/warn_once.h"
#include "data/text/name_table.h"
#include "remote/address.h"

namespace lockstep::data {
namespace fs = std::filesystem;
using core::Json;

namespace {

constexpr size_t kMaxAutomaticIndex = 1000;  // shards; more only on request (`lockstep data index`)

bool is_folder(const std::string& spec) {
  std::error_code code;
  return fs::is_directory(spec, code);
}

bool is_table(const std::string& spec) {
  const std::string lower = core::to_lower_ascii(spec);
  return !is_folder(spec) && (core::ends_with(lower, ".csv") || core::ends_with(lower, ".tsv"));
}

bool is_shard_list(const std::string& spec) {
  const std::string lower = core::to_lower_ascii(spec);
  return !is_folder(spec) && !is_table(spec) &&
         (is_pipe(lower) || lower.find(".tar") != std::string::npos || lower.find("::pipe:") != std::string::npos);
}

/// A kind of data. Those with captions say what else a sample holds: tasks list them in --dataset-type.
struct SourceType {
  const char* name;
  const char* alias = nullptr;                             ///< Another name, of tasks with sounds.
  bool has_pictures = false, has_sounds = false;           ///< With captions.
  bool has_labels = false;                                 ///< Pictures with classes.
  bool (*is_meant_by)(const std::string& spec) = nullptr;  ///< Under "auto"; at most one says yes.
  RowTable (*open_rows)(const SourceConfig&) = nullptr;    ///< nullptr: shards, read as streams.
  bool has_size = true;                                    ///< The data says how many samples there are.
};

bool is_class_folder(const std::string& spec) { return is_folder(spec) && !is_lmdb(spec); }

constexpr const char* kAfterEpochs = "after_epochs";

constexpr SourceType kSourceTypes[] = {
    {.name = DatasetType::kWebDataset,
     .alias = "webdataset-audio",
     .has_pictures = true,
     .has_sounds = true,
     .has_labels = true,
     .is_meant_by = is_shard_list},
    {.name = DatasetType::kCsv,
     .has_pictures = true,
     .has_labels = true,
     .is_meant_by = is_table,
     .open_rows = open_csv},
    {.name = DatasetType::kSynthetic,
     .has_pictures = true,
     .has_labels = true,
     .open_rows = open_synthetic,
     .has_size = false},
    {.name = DatasetType::kSyntheticAudio, .has_sounds = true, .open_rows = open_synthetic_audio, .has_size = false},
    {.name = DatasetType::kImageFolder,
     .has_labels = true,
     .is_meant_by = is_class_folder,
     .open_rows = open_class_folders},
    {.name = DatasetType::kLmdb, .has_labels = true, .is_meant_by = is_lmdb, .open_rows = open_lmdb},
};

const SourceType& resolved_type(const SourceConfig& config) {
  for (const SourceType& type : kSourceTypes)
    if (config.type == type.name) return type;
  LOCKSTEP_CHECK(config.type == DatasetType::kAuto, "type={}", config.type);
  if (config.spec.empty())
    throw UsageError("data: no data set given",
                     "--train-data 'folder/{000..099}.tar', a .csv file, or --dataset-type synthetic");
  for (const SourceType& type : kSourceTypes)
    if (type.is_meant_by != nullptr && type.is_meant_by(config.spec)) return type;
  std::error_code code;
  if (!fs::exists(config.spec, code))
    throw DataError(fmt::format("data: '{}' does not exist", config.spec),
                    "give .tar shards ('folder/{000..099}.tar'), a .csv or .tsv file, or for pictures of classes a "
                    "folder of folders or an LMDB");
  throw UsageError(fmt::format("data: cannot tell what kind of data '{}' is", config.spec),
                   "a .tar list is WebDataset, .csv and .tsv are tables, a folder is an ImageFolder or an LMDB; else "
                   "say --dataset-type");
}

bool is_shards(const SourceType& type) { return type.open_rows == nullptr; }

void check_config(const SourceConfig& config) {
  LOCKSTEP_CHECK(config.world_size > 0 && config.rank >= 0 && config.rank < config.world_size, "rank={} world={}",
                 config.rank, config.world_size);
  if (config.global_batch < 1 || config.global_batch % config.world_size != 0)
    throw UsageError(fmt::format("data: global batch {} is no multiple of {}", config.global_batch,
                                 core::counted(config.world_size, "rank")),
                     fmt::format("nearest: {} or {}",
                                 std::max<int64_t>(1, config.global_batch / config.world_size) * config.world_size,
                                 (config.global_batch / config.world_size + 1) * config.world_size));
  if (config.num_lanes < 1) throw UsageError(fmt::format("data: lanes is {}, expected at least 1", config.num_lanes));
  if (config.shuffle_window < 1)
    throw UsageError(fmt::format("data: shuffle window is {}, expected at least 1", config.shuffle_window));
  if (config.num_repeats < 1 || config.num_repeats > 1000)
    throw UsageError(fmt::format("data: --dataset-repeat is {}, expected 1 to 1000", config.num_repeats));
  if (config.num_samples < 0)
    throw UsageError(fmt::format("data: --train-num-samples is {}, expected at least 1", config.num_samples));
  if (!config.shuffle && config.resampled)
    throw UsageError("data: --shuffle off and --dataset-resampled contradict each other",
                     "drawing shards with replacement is random by nature");
}

RowTable rows_of(const SourceType& type, const SourceConfig& config) {
  RowTable table = type.open_rows(config);
  table.format = type.name;
  return table;
}

/// The rows of training: all of them config.num_repeats times.
RowTable training_rows(const SourceType& type, const SourceConfig& config) {
  RowTable table = rows_of(type, config);
  if (config.num_repeats == 1) return table;
  const int64_t num_once = table.num_rows;
  table.num_rows = num_once * config.num_repeats;
  table.fingerprint += fmt::format(" x {}", config.num_repeats);
  table.row = [row = std::move(table.row), num_once](int64_t number) { return row(number % num_once); };
  return table;
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

[[noreturn]] void throw_unreadable(const IndexSummary& summary, size_t num_shards, const std::string& spec) {
  const DataError& first = summary.damaged.front().second;
  const size_t count = summary.damaged.size();
  const std::string others =
      count > 1 ? fmt::format("; {} of {} cannot be read", count, core::counted(num_shards, "shard")) : "";
  const std::string list = fmt::format("`lockstep data verify '{}'`", spec);
  std::string hint = core::replace_all(first.hint(), "`lockstep data verify SHARDS`", list);
  if (hint.empty())
    hint = fmt::format("run {} to list every damaged shard", list);
  else if (hint == first.hint())
    hint += fmt::format("; {} lists every such shard", list);
  throw DataError(first.what() + others, hint);
}

}  // namespace

std::vector<DatasetName> captioned_datasets(Media media) {
  std::vector<DatasetName> names;
  for (const SourceType& type : kSourceTypes)
    if (media == Media::kPictures ? type.has_pictures : type.has_sounds)
      names.push_back({type.name, type.alias == nullptr ? "" : type.alias});
  return names;
}

std::vector<DatasetName> labelled_datasets() {
  std::vector<DatasetName> names;
  for (const SourceType& type : kSourceTypes)
    if (type.has_labels) names.push_back({type.name, ""});
  return names;
}

bool is_made_of_rows(const SourceConfig& config) { return !is_shards(resolved_type(config)); }

std::vector<std::string> class_names_of(const std::string& type, const std::string& spec) {
  std::error_code ignored;
  if (!fs::exists(spec, ignored)) return {};  // the plan of a run may be asked for where its data are not
  const bool is_auto = type == DatasetType::kAuto;
  if ((is_auto || type == DatasetType::kLmdb) && is_lmdb(spec)) return lmdb_class_names(LmdbReader(spec));
  const bool is_folder = is_auto || type == DatasetType::kImageFolder;
  return is_folder && fs::is_directory(spec, ignored) ? image_folder_classes(spec) : std::vector<std::string>();
}

bool is_made_up(const std::string& type) {
  return std::any_of(std::begin(kSourceTypes), std::end(kSourceTypes),
                     [&](const SourceType& known) { return type == known.name && !known.has_size; });
}

std::string parse_dataset_type(const std::string& name) {
  if (name == DatasetType::kAuto) return name;
  std::vector<std::string> known{DatasetType::kAuto};
  for (const SourceType& type : kSourceTypes) {
    if (name == type.name || (type.alias != nullptr && name == type.alias)) return type.name;
    known.emplace_back(type.name);
    if (type.alias != nullptr) known.emplace_back(type.alias);
  }
  throw_unknown_name("data set type", name, known);
}

DataOrder parse_data_order(const std::string& name) {
  static constexpr NameTable<DataOrder, 2> kNames{
      {{"lockstep", DataOrder::kLockstep}, {"openclip", DataOrder::kOpenClip}}};
  return parse_name(name, kNames, "data order");
}

EpochSize epoch_size(const SourceConfig& config) {
  check_config(config);
  const SourceType& type = resolved_type(config);
  if (is_shards(type)) return shards_epoch_size(config);
  if (config.num_samples <= 0 && !type.has_size)
    throw UsageError("data: synthetic data has no size of its own", "give --train-num-samples N");
  const EpochSize size = config.num_samples > 0
                             ? rounded_up(config.num_samples, config.global_batch, "--train-num-samples")
                             : rounded_down(training_rows(type, config).num_rows, config.global_batch, type.name);
  refuse_empty(size, config);
  return size;
}

std::string size_warning(const SourceConfig& config) {
  const SourceType& type = resolved_type(config);
  if (is_shards(type)) return shards_size_warning(config);
  if (!type.has_size || config.num_samples <= 0) return "";
  return told_too_many(config.num_samples, "--train-num-samples", training_rows(type, config).num_rows);
}

std::unique_ptr<SampleSource> open_train_source(const SourceConfig& config) {
  check_config(config);
  const SourceType& type = resolved_type(config);
  if (!is_shards(type)) {
    if (config.resampled || !config.upsampling_factors.empty())
      throw UsageError("data: --dataset-resampled draws shards, so it needs a WebDataset");
    return make_row_train_source(training_rows(type, config), config);
  }
  if (config.order == DataOrder::kOpenClip) return open_openclip_source(config);
  return open_lane_source(config);
}

core::Json position_after_epochs(int64_t num_epochs, int64_t num_samples) {
  return {{"kind", kAfterEpochs}, {"epochs", num_epochs}, {"samples", num_samples}};
}

void seek_source(SampleSource& source, const core::Json& position) {
  if (core::text_at(position, "kind") != kAfterEpochs) return source.seek(position);
  const auto count = [&](const char* key) {
    const auto number = core::integer_at(position, key);
    if (!number || *number < 0)
      throw DataError(fmt::format("data: a stream position has no count '{}': {}", key, position.dump()));
    return static_cast<uint64_t>(*number);
  };
  core::Json begin = source.position();
  const auto pass_samples = begin.value("epoch_samples", uint64_t{0});
  if (pass_samples > 0) {
    begin["epoch"] = count("samples") / pass_samples;
    begin["consumed"] = count("samples") % pass_samples;
  } else if (begin.contains("taken")) {  // OpenCLIP's order counts epochs
    begin["epoch"] = count("epochs");
  }
  source.seek(begin);
}

std::unique_ptr<SampleSource> open_eval_source(const SourceConfig& config) {
  LOCKSTEP_CHECK(config.world_size > 0 && config.rank >= 0 && config.rank < config.world_size, "rank={} world={}",
                 config.rank, config.world_size);
  const SourceType& type = resolved_type(config);
  if (is_shards(type)) return open_sequential_source(config);
  return make_row_eval_source(rows_of(type, config), config);
}

void refuse_missing_shards(const SourceConfig& config, int64_t num_threads) {
  if (!is_shards(resolved_type(config))) return;
  const std::vector<std::string> shards = expand_shards(config);
  std::vector<char> is_missing(shards.size(), 0);  // not vector<bool>: written by several threads
  for_each_parallel(shards.size(), num_threads, [&](size_t i, size_t) {
    std::error_code code;
    is_missing[i] = !is_streamed(shards[i]) && !fs::exists(shards[i], code) && !code;
  });
  if (const auto remote = std::find_if(shards.begin(), shards.end(), remote::is_url); remote != shards.end())
    check_remote_shard(*remote);  // the first for all: asking for each would take minutes
  const auto count = std::count(is_missing.begin(), is_missing.end(), 1);
  if (count == 0) return;
  const auto first = std::find(is_missing.begin(), is_missing.end(), 1) - is_missing.begin();
  const std::string missing =
      static_cast<size_t>(count) == shards.size()
          ? count == 1 ? "the shard does not exist" : fmt::format("none of {} shards exists", count)
          : fmt::format("{} of {} shards do not exist", count, shards.size());
  throw DataError(fmt::format("data: {}; the first: '{}'", missing, shards[static_cast<size_t>(first)]),
                  missing_shard_hint(shards[static_cast<size_t>(first)]));
}

/// Tells of the samples that an index says training passes over.
static void warn_of_left_out(const ShardSet& set, const SourceConfig& config) {
  if (set.left_out.empty()) return;
  int64_t total = 0;
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : set.left_out) {
    total += count;
    reasons.push_back(fmt::format("{}: {}", reason, count));
  }
  warn_once(fmt::format("data: {} of '{}' {} left out: {}", core::counted(total, "sample"), config.spec,
                        total == 1 ? "is" : "are", core::join(reasons, ", ")));
}

bool prepare_index(const SourceConfig& config, int64_t num_threads) {
  if (!is_shards(resolved_type(config)) || config.index == IndexUse::kOff) return false;
  const std::vector<std::string> shards = expand_shards(config);
  const bool has_streamed = std::any_of(shards.begin(), shards.end(), is_streamed);
  if (has_streamed || shards.size() >= kMaxAutomaticIndex) {
    refuse_missing_shards(config, num_threads);
  } else {
    IndexSummary summary;
    try {
      summary = build_indexes({.shards = shards,
                               .index_dir = config.index_dir,
                               .num_threads = num_threads,
                               .force = false,
                               .keep_damaged = config.keep_lost,
                               .on_progress = progress_lines(shards.size())});
    } catch (const EnvironmentError& error) {  // a read-only folder: go on without an index, unless one was asked for
      if (config.index == IndexUse::kRequire) throw;
      core::log_warning("{}; give --index-dir a folder that can be written",
                        core::wrapped_message("data: no index", error));
    }
    if (!summary.damaged.empty()) throw_unreadable(summary, shards.size(), config.spec);
    if (!summary.kept_damage.empty())
      core::log_warning(
          "data: {} of {} shards are damaged; nobody knows how many samples they had, so the rest of each counts as "
          "one bad sample; the first: {}",
          summary.kept_damage.size(), shards.size(), summary.kept_damage.front());
    if (summary.num_built > 0)
      core::log_info("data: indexed {}, {}", core::counted(summary.num_built, "shard"),
                     core::counted(summary.num_samples, "sample"));
  }
  const auto set = load_shard_set(config);
  warn_of_left_out(*set, config);
  return set->has_index();
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
