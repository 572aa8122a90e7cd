#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::checkpoint {

/// A checkpoint and its value of the metric that ranks it.
struct RankedCheckpoint {
  std::string name{};  ///< Of its folder.
  int64_t epoch = 0;   ///< Behind which it was evaluated.
  double value = 0;
  bool is_extra = false;  ///< Saved for its rank alone: nothing asks for it when it is not among the best any more.
};

/// How checkpoints are compared.
struct RankingRule {
  std::vector<std::string> metrics{};  ///< Their mean counts.
  bool is_smaller_better = false;
  int64_t num_best = 0;
};

/// The best checkpoints of a run: <run>/checkpoints/best.json.
struct Ranking {
  std::vector<std::string> metrics{};
  std::vector<RankedCheckpoint> best{};    ///< The best first; of equal ones the earlier.
  std::vector<std::string> superfluous{};  ///< Names of extra checkpoints that fell out of it.

  bool is_best(const std::string& name) const;
  bool is_superfluous(const std::string& name) const;
  /// Enters a checkpoint where it is one of the best by now. Its place, from 1, or 0. A ranking by other metrics is
  /// given up first. Entries beyond rule.num_best leave.
  int64_t enter(const RankedCheckpoint& candidate, const RankingRule& rule);
  /// Forgets checkpoints that are not in `usable` (their names).
  void keep_only(const std::vector<std::string>& usable);

 private:
  void leave(const RankedCheckpoint& entry);
};

/// Empty where there is none. DataError for one that was altered by hand into something else.
Ranking read_ranking(const std::filesystem::path& run_folder);
void write_ranking(const std::filesystem::path& run_folder, const Ranking& ranking);
/// The same from its JSON; `where` is for messages.
Ranking ranking_from_json(const core::Json& json, const std::string& where);

}  // namespace lockstep::checkpoint
