#include "plan/mesh_layout.h"

#include <algorithm>

#include "core/error.h"

namespace lockstep::plan {
namespace {

void check_sizes(int world_size, const MeshPoint& sizes) {
  if (world_size < 1) throw UsageError(fmt::format("plan: world size is {}, expected at least 1", world_size));
  if (sizes.pp < 1 || sizes.dp < 1 || sizes.tp < 1)
    throw UsageError(
        fmt::format("plan: mesh of pp={} dp={} tp={}, expected at least 1 on each axis", sizes.pp, sizes.dp, sizes.tp));
}

}  // namespace

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kPipeline: return "pp";
    case Axis::kData: return "dp";
    case Axis::kTensor: return "tp";
  }
  LOCKSTEP_CHECK(false, "axis {}", static_cast<int>(axis));
}

MeshLayout::MeshLayout(int world_size, MeshPoint sizes, MeshOrder order) : sizes_(sizes), order_(order) {
  check_sizes(world_size, sizes);
  const int64_t product = int64_t{sizes.pp} * sizes.dp * sizes.tp;
  if (product == world_size) return;
  const int64_t model_ranks = int64_t{sizes.pp} * sizes.tp;
  throw UsageError(fmt::format("plan: mesh of pp={} x dp={} x tp={} has {} ranks, expected={}", sizes.pp, sizes.dp,
                               sizes.tp, product, world_size),
                   world_size % model_ranks == 0 ? fmt::format("use dp={}", world_size / model_ranks)
                                                 : fmt::format("start {} ranks", product));
}

MeshLayout MeshLayout::with_data_axis_filled(int world_size, int pp, int tp, MeshOrder order) {
  check_sizes(world_size, {.pp = pp, .dp = 1, .tp = tp});
  const int64_t model_ranks = int64_t{pp} * tp;
  if (world_size % model_ranks != 0) {
    const int64_t below = world_size / model_ranks * model_ranks;
    const std::string choices =
        below == 0 ? fmt::format("{}", model_ranks) : fmt::format("{} or {}", below, below + model_ranks);
    throw UsageError(fmt::format("plan: {} ranks do not divide into copies of the model of {} ranks (pp={} x tp={})",
                                 world_size, model_ranks, pp, tp),
                     fmt::format("start {} ranks", choices));
  }
  return MeshLayout(world_size, {.pp = pp, .dp = static_cast<int>(world_size / model_ranks), .tp = tp}, order);
}

int MeshLayout::stride(Axis axis) const {
  if (axis == Axis::kTensor) return 1;
  const bool data_is_slowest = order_ == MeshOrder::kDpPpTp;
  if (axis == Axis::kData) return data_is_slowest ? sizes_.tp * sizes_.pp : sizes_.tp;
  return data_is_slowest ? sizes_.tp : sizes_.tp * sizes_.dp;
}

MeshPoint MeshLayout::point_of(int rank) const {
  LOCKSTEP_CHECK(rank >= 0 && rank < world_size(), "rank={} world_size={}", rank, world_size());
  const auto along = [&](Axis axis) { return rank / stride(axis) % size(axis); };
  return {.pp = along(Axis::kPipeline), .dp = along(Axis::kData), .tp = along(Axis::kTensor)};
}

std::vector<int> MeshLayout::group_of(int rank, Axis axis) const {
  const int first = rank - point_of(rank).at(axis) * stride(axis);
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride(axis));
  return ranks;
}

}  // namespace lockstep::plan
