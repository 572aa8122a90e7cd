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

/// decide_on_rank_zero for decisions that test the files of checkpoints: `decide` gets a function that has all ranks
/// hash them, each its share. Behind each test `wait_for_rank_zero` is called, if given, since the shares may take
/// longer than collectives wait. Collective.
std::string decide_with_shared_hashing(
    comm::Comm& world, const std::function<std::string(const checkpoint::VerifyFunction& verify)>& decide,
    const std::function<void()>& wait_for_rank_zero = {});

}  // namespace lockstep::train
