#pragma once
#include <string>
#include <vector>

#include "plan/batch_plan.h"
#include "train/joined_ranks.h"
#include "train/run_folder.h"
#include "train/shared_hashing.h"
#include "train/train_request.h"

namespace lockstep::train {

/// What the parts of a run share, once its ranks have joined.
struct RunContext {
  const TrainRequest& request;
  SoftwareVersions versions;
  JoinedRanks ranks;
  plan::BatchPlan batch;
  std::vector<std::string> hosts = {};  ///< Of all ranks.
  RunFolder folder = {};
  TaskFacts task = {};  ///< Once there is a task.

  const config::RunOptions& options() const { return request.options; }
  const config::RunFacts& facts() const { return request.facts; }
  comm::Comm& world() { return ranks.world.comm(); }
  /// For reading and writing of weights and checkpoints, which may take longer than a collective. For this run's life.
  LongWaits long_waits() {
    comm::World& world = ranks.world;
    return {.for_rank_zero = [&world] { world.wait_for_rank_zero("it works on files of weights or checkpoints"); },
            .for_all = [&world] { world.wait_for_all("they read weights or checkpoints"); },
            .tell_work = [&world](const std::string& work) { world.tell_work(work); },
            .is_at_work = [&world](int rank, const std::string& work) { return world.is_at_work(rank, work); }};
  }
};

}  // namespace lockstep::train
