#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::checkpoint {

/// A checkpoint and its value of the metric that ranks it.
struct RankedCheckpoint {
  std::string name{};             ///< Of its folder.
  int64_t epoch = 0;              ///< Behind which it was evaluated.
  std::optional<double> value{};  ///< None: it was ranked by other metrics, and stands behind all others.
  bool is_extra = false;          ///< Saved for its rank alone: nothing asks for it when others are better.
};

/// How checkpoints are compared.
struct RankingRule {
  std::vector<std::string> metrics{};  ///< Their mean counts.
  bool is_smaller_better = false;
  int64_t num_best = 0;
};

/// The evaluated checkpoints of a run by their rank: <run>/checkpoints/best.json. It names one that is still being
/// saved, too: those that it displaces stay until it is on the disk.
struct Ranking {
  std::vector<std::string> metrics{};
  int64_t num_best = 0;
  std::vector<RankedCheckpoint> entries{};  ///< The best first; of equal ones the earlier.

  /// Enters a checkpoint: its place, from 1, or 0 where it is none of the best. An extra one without a place is not
  /// entered, as it will not be saved. Values by other metrics are forgotten first.
  int64_t enter(RankedCheckpoint candidate, const RankingRule& rule);
  /// Forgets checkpoints that are neither usable nor, at the moment, unreadable; but for those in `expected` (their
  /// names).
  void forget_absent(const std::filesystem::path& run_folder, const std::vector<std::string>& expected);
  /// The best `num_best` of `usable` (names).
  std::vector<std::string> best_of(const std::vector<std::string>& usable) const;
  bool is_extra(const std::string& name) const;
};

/// Empty where there is none. DataError for one that was altered by hand into something else.
Ranking read_ranking(const std::filesystem::path& run_folder);
void write_ranking(const std::filesystem::path& run_folder, const Ranking& ranking);
/// Renames a ranking that cannot be understood to best.json.damaged, with a warning: a run ranks anew, and removes no
/// checkpoint of earlier attempts as long as that file is there. One that cannot be read may be good: it stays, with a
/// warning.
void set_aside_damaged_ranking(const std::filesystem::path& run_folder);
/// Also where that cannot be found out.
bool has_damaged_ranking(const std::filesystem::path& run_folder);
/// Forgets, in the file, what is not on the disk. For when nothing is being saved.
void tidy_ranking(const std::filesystem::path& run_folder);
/// The same from its JSON; `where` is for messages.
Ranking ranking_from_json(const core::Json& json, const std::string& where);

}  // namespace lockstep::checkpoint
