#include "train/grad_sync_choice.h"

#include "config/grad_sync_kind.h"
#include "core/error.h"

namespace lockstep::train {

std::unique_ptr<parallel::GradSync> make_grad_sync(const GradSyncChoice& choice,
                                                   const std::vector<comm::NamedTensor>& parameters,
                                                   comm::Comm& data_axis) {
  if (choice.flag == "none" && data_axis.size() > 1)
    throw UsageError(fmt::format("train: --grad-sync none on {} ranks would train {} different models",
                                 data_axis.size(), data_axis.size()),
                     "leave --grad-sync out, or start one rank");
  switch (config::grad_sync_kind(choice.flag, data_axis.size(), choice.masters.has_masters)) {
    case config::GradSyncKind::kZero1:
      return parallel::make_grad_sync_zero1(parameters, data_axis, choice.bucket_bytes, choice.masters);
    case config::GradSyncKind::kDdp:
      return parallel::make_grad_sync_ddp(parameters, data_axis, choice.bucket_bytes, choice.masters);
    case config::GradSyncKind::kNone: break;
  }
  return parallel::make_grad_sync_none(parameters);
}

}  // namespace lockstep::train
