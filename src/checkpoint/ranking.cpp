#include "checkpoint/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/manifest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;
using core::Json;
namespace {

fs::path ranking_file(const fs::path& run_folder) { return run_folder / "checkpoints" / "best.json"; }
fs::path damaged_ranking_file(const fs::path& run_folder) { return run_folder / "checkpoints" / "best.json.damaged"; }

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t number_at(const Json& object, const char* key) {
  const auto number = core::integer_of(object.at(key));
  if (!number || *number < 0) throw DataError(fmt::format("'{}'={}, expected a count", key, object.at(key).dump()));
  return *number;
}

}  // namespace

int64_t Ranking::enter(RankedCheckpoint candidate, const RankingRule& rule) {
  if (metrics != rule.metrics)
    for (RankedCheckpoint& entry : entries) entry.value.reset();
  metrics = rule.metrics;
  num_best = rule.num_best;
  candidate.is_extra = candidate.is_extra || is_extra(candidate.name);
  std::erase_if(entries, [&](const RankedCheckpoint& entry) { return entry.name == candidate.name; });
  const auto is_behind = [&](const RankedCheckpoint& entry) {
    return !entry.value || (rule.is_smaller_better ? *candidate.value < *entry.value : *candidate.value > *entry.value);
  };
  const auto place = std::find_if(entries.begin(), entries.end(), is_behind);
  const int64_t number = place - entries.begin() + 1;
  const bool is_best = number <= num_best;
  if (is_best || !candidate.is_extra) entries.insert(place, std::move(candidate));
  return is_best ? number : 0;
}

void Ranking::forget_absent(const fs::path& run_folder, const std::vector<std::string>& expected) {
  std::vector<std::string> known = expected;
  for (const CheckpointEntry& entry : list_checkpoints(run_folder))
    if (entry.state == CheckpointState::kUsable || entry.state == CheckpointState::kUnreadable)
      known.push_back(entry.folder.filename().string());
  std::erase_if(entries, [&](const RankedCheckpoint& entry) { return !contains(known, entry.name); });
}

std::vector<std::string> Ranking::best_of(const std::vector<std::string>& usable) const {
  std::vector<std::string> best;
  for (const RankedCheckpoint& entry : entries)
    if (std::ssize(best) < num_best && contains(usable, entry.name)) best.push_back(entry.name);
  return best;
}

bool Ranking::is_extra(const std::string& name) const {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const RankedCheckpoint& entry) { return entry.name == name && entry.is_extra; });
}

Ranking ranking_from_json(const Json& json, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("checkpoint: '{}' is no ranking of checkpoints: {}", where, why),
                    "correct it; without it the best checkpoints are not known, and only the newest stay");
  };
  Ranking ranking;
  try {
    ranking = {.metrics = json.at("metrics"), .num_best = number_at(json, "num_best"), .entries = {}};
    for (const char* key : {"best", "others"})
      for (const Json& entry : json.at(key)) {
        ranking.entries.push_back({.name = entry.at("checkpoint"),
                                   .epoch = number_at(entry, "epoch"),
                                   .value = {},
                                   .is_extra = entry.at("extra")});
        if (const Json& value = entry.at("value"); !value.is_null()) ranking.entries.back().value = value.get<double>();
      }
  } catch (const Json::exception& error) {
    refuse(error.what());
  } catch (const DataError& error) {
    refuse(error.what());
  }
  return ranking;
}

Ranking read_ranking(const fs::path& run_folder) {
  const fs::path file = ranking_file(run_folder);
  std::error_code failure;
  if (fs::symlink_status(file, failure).type() == fs::file_type::not_found) return {};
  return ranking_from_json(core::read_json_file(file), file.string());
}

void write_ranking(const fs::path& run_folder, const Ranking& ranking) {
  Json best = Json::array(), others = Json::array();
  for (const RankedCheckpoint& entry : ranking.entries)
    (std::ssize(best) < ranking.num_best ? best : others)
        .push_back({{"checkpoint", entry.name},
                    {"epoch", entry.epoch},
                    {"value", entry.value ? Json(*entry.value) : Json()},
                    {"extra", entry.is_extra}});
  const Json json{{"metrics", ranking.metrics},
                  {"num_best", ranking.num_best},
                  {"best", std::move(best)},
                  {"others", std::move(others)}};
  core::write_file_atomic(ranking_file(run_folder), json.dump(1) + "\n");
}

void set_aside_damaged_ranking(const fs::path& run_folder) {
  const fs::path aside = damaged_ranking_file(run_folder);
  try {
    read_ranking(run_folder);
  } catch (const DataError& error) {
    std::error_code failure;
    fs::rename(ranking_file(run_folder), aside, failure);
    if (!failure) core::log_warning("{}", error.what());
  } catch (const EnvironmentError& error) {
    core::log_warning("{}; as long as it cannot be read, nothing is ranked and no checkpoint is removed", error.what());
  }
  if (has_damaged_ranking(run_folder))
    core::log_warning(
        "checkpoint: '{}' may name the best checkpoints of earlier attempts: as long as it is there, none of them is "
        "removed; this attempt ranks its own",
        aside.string());
}

bool has_damaged_ranking(const fs::path& run_folder) {
  std::error_code failure;
  return fs::symlink_status(damaged_ranking_file(run_folder), failure).type() != fs::file_type::not_found;
}

void tidy_ranking(const fs::path& run_folder) {
  Ranking ranking = read_ranking(run_folder);
  const size_t num_before = ranking.entries.size();
  ranking.forget_absent(run_folder, {});
  if (ranking.entries.size() != num_before) write_ranking(run_folder, ranking);
}

}  // namespace lockstep::checkpoint
