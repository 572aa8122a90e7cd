#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <vector>

#include "comm/world.h"
#include "config/run_options.h"
#include "hw/ranks.h"

namespace lockstep::train {

/// The ranks of a run, and the device of this one.
struct JoinedRanks {
  hw::RankInfo info;
  at::Device device;
  comm::World world;
  bool is_first() const { return info.rank == 0; }
};

/// Finds this process's place among the ranks, sets up its log and its device, and joins the others. Collective.
JoinedRanks join_ranks(const config::RunOptions& options);

/// UsageError on every rank unless all ranks say the same. Collective.
void agree_on(comm::Comm& world, const std::string& what, const std::string& hint);

}  // namespace lockstep::train
