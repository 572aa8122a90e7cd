#include "analysis/odd_batch.h"

#include <fmt/format.h>

#include <bit>

namespace lockstep::analysis {

void check_odd_batch(const Curve& curve, Point& point) {
  const int64_t batch = point.setup.global_batch.value_or(0);
  if (batch < 1 || std::has_single_bit(static_cast<uint64_t>(batch))) return;
  point.flags.push_back({"T01", "odd-batch", point_name(curve, point),
                         fmt::format("the global batch of {} is no power of two", batch),
                         "take the next power of two, or say why not"});
}

}  // namespace lockstep::analysis
