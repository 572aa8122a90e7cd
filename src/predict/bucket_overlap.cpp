#include "predict/bucket_overlap.h"

#include <algorithm>

namespace lockstep::predict {

double play_buckets(std::span<const double> shares, double gradients_s, double backward_s) {
  double filled = 0, end = 0;
  for (const double share : shares) {
    filled += share;
    end = std::max(end, backward_s * filled) + share * gradients_s;
  }
  return std::max(0.0, end - backward_s);
}

}  // namespace lockstep::predict
