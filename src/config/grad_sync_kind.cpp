#include "config/grad_sync_kind.h"

namespace lockstep::config {

GradSyncKind grad_sync_kind(std::string_view flag, int64_t num_ranks, bool has_masters) {
  if (flag == "zero1") return GradSyncKind::kZero1;
  const bool has_buckets = flag == "ddp" || has_masters || (flag == "auto" && num_ranks > 1);
  return has_buckets ? GradSyncKind::kDdp : GradSyncKind::kNone;
}

}  // namespace lockstep::config
