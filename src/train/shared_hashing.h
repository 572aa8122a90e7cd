#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/comm.h"
#include "train/held_files.h"

namespace lockstep::train {

/// Those files of a checkpoint that `rank` of `num_ranks` hashes: each file is one rank's. It is one of those that keep
/// it (`kept`: their files by rank, if known), by turns, so that none holds much more than the others. A file that
/// nobody keeps is hashed by the rank that wrote it, where as many are there.
std::vector<checkpoint::CheckpointFile> hashing_share(const std::vector<checkpoint::CheckpointFile>& files, int rank,
                                                      int num_ranks,
                                                      const std::vector<std::set<std::string>>& kept = {});

/// What ranks call before a collective that some reach much later than others, beyond its time limit; and how one that
/// waits for another's work learns that it is still under way.
struct LongWaits {
  std::function<void()> for_rank_zero = {};                                ///< World::wait_for_rank_zero
  std::function<void()> for_all = {};                                      ///< World::wait_for_all
  std::function<void(const std::string& work)> tell_work = {};             ///< World::tell_work
  std::function<bool(int rank, const std::string& work)> is_at_work = {};  ///< World::is_at_work
};

/// Whoever reads a checkpoint once it is tested: what it hashes is kept for that.
struct KeptFiles {
  /// The files that are worth keeping on this rank, where all ranks see them. May throw: then none is.
  std::function<std::set<std::string>(const checkpoint::CheckpointManifest&)> choose;
  HeldFiles& held;  ///< Of the checkpoint that was tested last.
};

/// decide_on_rank_zero for decisions that test the files of checkpoints. `decide` gets a function that tests them: rank
/// 0 alone, or, where all ranks see the files (`is_shared`), all of them, each its share. Rank 0 alone keeps all.
/// Collective.
std::string decide_on_checkpoints(comm::Comm& world, bool is_shared, const LongWaits& waits,
                                  const std::function<std::string(const checkpoint::VerifyFunction& verify)>& decide,
                                  const KeptFiles* kept = nullptr);

}  // namespace lockstep::train
