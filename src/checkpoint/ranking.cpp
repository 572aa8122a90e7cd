#include "checkpoint/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::checkpoint {
namespace fs = std::filesystem;
using core::Json;
namespace {

fs::path ranking_file(const fs::path& run_folder) { return run_folder / "checkpoints" / "best.json"; }

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool Ranking::is_best(const std::string& name) const {
  return std::any_of(best.begin(), best.end(), [&](const RankedCheckpoint& entry) { return entry.name == name; });
}

bool Ranking::is_superfluous(const std::string& name) const { return contains(superfluous, name); }

void Ranking::leave(const RankedCheckpoint& entry) {
  if (entry.is_extra) superfluous.push_back(entry.name);
}

int64_t Ranking::enter(const RankedCheckpoint& candidate, const RankingRule& rule) {
  if (metrics != rule.metrics) {
    for (const RankedCheckpoint& entry : best) leave(entry);
    best.clear();
    metrics = rule.metrics;
  }
  std::erase_if(best, [&](const RankedCheckpoint& entry) { return entry.name == candidate.name; });
  const auto is_behind = [&](const RankedCheckpoint& entry) {
    return rule.is_smaller_better ? candidate.value < entry.value : candidate.value > entry.value;
  };
  const auto place = std::find_if(best.begin(), best.end(), is_behind) - best.begin();
  best.insert(best.begin() + place, candidate);
  while (std::ssize(best) > rule.num_best) {
    if (best.back().name != candidate.name) leave(best.back());
    best.pop_back();
  }
  return place < rule.num_best ? place + 1 : 0;
}

void Ranking::keep_only(const std::vector<std::string>& usable) {
  std::erase_if(best, [&](const RankedCheckpoint& entry) { return !contains(usable, entry.name); });
  std::erase_if(superfluous, [&](const std::string& name) { return !contains(usable, name); });
}

Ranking ranking_from_json(const Json& json, const std::string& where) {
  try {
    Ranking ranking{.metrics = json.at("metrics"), .best = {}, .superfluous = json.at("superfluous")};
    for (const Json& entry : json.at("best"))
      ranking.best.push_back({.name = entry.at("checkpoint"),
                              .epoch = entry.at("epoch"),
                              .value = entry.at("value"),
                              .is_extra = entry.at("extra")});
    return ranking;
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("checkpoint: '{}' is no ranking of checkpoints: {}", where, error.what()),
                    "delete it: checkpoints are then ranked anew");
  }
}

Ranking read_ranking(const fs::path& run_folder) {
  const fs::path file = ranking_file(run_folder);
  std::error_code failure;
  if (fs::symlink_status(file, failure).type() == fs::file_type::not_found) return {};
  return ranking_from_json(core::read_json_file(file), file.string());
}

void write_ranking(const fs::path& run_folder, const Ranking& ranking) {
  Json best = Json::array();
  for (const RankedCheckpoint& entry : ranking.best)
    best.push_back(
        {{"checkpoint", entry.name}, {"epoch", entry.epoch}, {"value", entry.value}, {"extra", entry.is_extra}});
  const Json json{{"metrics", ranking.metrics}, {"best", std::move(best)}, {"superfluous", ranking.superfluous}};
  core::write_file_atomic(ranking_file(run_folder), json.dump(1) + "\n");
}

}  // namespace lockstep::checkpoint
