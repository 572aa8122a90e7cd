#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "parallel/grad_sync.h"

namespace lockstep::parallel {

/// Parameters of which every rank of a group has a part of the gradient: see sum_gradients.
struct PartialGradients {
  std::set<std::string> parameters;  ///< Names.
  comm::Comm* group = nullptr;       ///< Outlives the GradSync.
};

/// The syncs of `data`, which share out the parameters (an embedding that two stages hold has one of its own, so that
/// its bucket is that of both stages), and, behind their finish(), the sums over other axes, entry by entry: gradients
/// of parameters that tensor ranks share though each saw its own tokens, of the embedding of two stages. Where `data`
/// shards, the sums are over the own shard, which is the same one on all ranks of a group. Entries without parameters,
/// or on a group of one, send nothing.
std::unique_ptr<GradSync> make_grad_sync_summed(std::vector<std::unique_ptr<GradSync>> data,
                                                std::vector<PartialGradients> partial);

}  // namespace lockstep::parallel
