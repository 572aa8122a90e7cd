#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "parallel/grad_sync.h"

namespace lockstep::train {

/// What the flags say about gradients over the data ranks.
struct GradSyncChoice {
  std::string flag = "auto";  ///< --grad-sync {auto,none,ddp,zero1}
  int64_t bucket_bytes = 0;   ///< Of gradients.
  parallel::MasterOptions masters{};
};

/// What keeps the gradients of these parameters equal over `data_axis`, as config::grad_sync_kind says. UsageError for
/// "none" on several ranks, which would train as many models.
std::unique_ptr<parallel::GradSync> make_grad_sync(const GradSyncChoice& choice,
                                                   const std::vector<comm::NamedTensor>& parameters,
                                                   comm::Comm& data_axis);

}  // namespace lockstep::train
