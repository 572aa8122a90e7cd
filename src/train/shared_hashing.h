#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/comm.h"

namespace lockstep::train {

/// Those files of a checkpoint that `rank` of `num_ranks` hashes: each file is one rank's. Of as many ranks as wrote it
/// each has the files it wrote, which it will read next.
std::vector<checkpoint::CheckpointFile> hashing_share(const std::vector<checkpoint::CheckpointFile>& files, int rank,
                                                      int num_ranks);

/// What ranks call before a collective that some reach much later than others: beyond its time limit.
struct LongWaits {
  std::function<void()> for_rank_zero = {};  ///< World::wait_for_rank_zero
  std::function<void()> for_all = {};        ///< World::wait_for_all
};

/// decide_on_rank_zero for decisions that test the files of checkpoints. `decide` gets a function that tests them: rank
/// 0 alone, or, where all ranks see the files (`is_shared`), all of them, each its share. Collective.
std::string decide_on_checkpoints(comm::Comm& world, bool is_shared, const LongWaits& waits,
                                  const std::function<std::string(const checkpoint::VerifyFunction& verify)>& decide);

}  // namespace lockstep::train
