#include "bench/collective_values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kChunk = 1 << 20;  // elements that are computed at a time: the temporaries stay small

/// Values of `count` elements from `first_index` on, as the type sees them, in int64.
at::Tensor whole_values(int64_t count, int rank, int64_t first_index, int64_t call, at::ScalarType type,
                        at::Device device) {
  const at::Tensor index = at::arange(first_index, first_index + count, at::TensorOptions(device).dtype(at::kLong));
  const at::Tensor mixed = index.mul_(2654435761LL).add_(rank * 2246822519LL + call * 3266489917LL);
  const at::Tensor values = mixed.bitwise_and_(0x7fffffffffffLL).bitwise_right_shift(11).remainder_(3).sub_(1);
  return values.to(type).to(at::kLong);  // -1 is 255 in bytes
}

at::Tensor expected_values(const ExpectedRun& run, int64_t begin, int64_t count, comm::ReduceOp op, int64_t call,
                           const at::Tensor& like) {
  const auto values_of = [&](int rank) {
    return whole_values(count, rank, run.source_index + begin, call, like.scalar_type(), like.device());
  };
  at::Tensor total = values_of(run.first_rank);
  for (int rank = run.first_rank + 1; rank < run.first_rank + run.num_ranks; ++rank) {
    const at::Tensor values = values_of(rank);
    if (op == comm::ReduceOp::kMax)
      total = at::maximum(total, values);
    else if (op == comm::ReduceOp::kMin)
      total = at::minimum(total, values);
    else
      total.add_(values);
  }
  if (op == comm::ReduceOp::kAverage && run.num_ranks > 1) return total.to(at::kDouble).div_(run.num_ranks);
  return total.to(like.scalar_type()).to(at::kDouble);  // sums of bytes wrap around
}

double rounding_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return 0x1p-10;
    case at::kBFloat16: return 0x1p-7;
    case at::kFloat: return 0x1p-23;
    case at::kDouble: return 0x1p-52;
    default: return 0;
  }
}

/// Largest difference that is rounding: none where all partial sums are whole numbers that the type holds.
double tolerance_of(at::ScalarType type, const ExpectedRun& run, comm::ReduceOp op) {
  const bool is_exact = run.num_ranks == 1 || op == comm::ReduceOp::kMax || op == comm::ReduceOp::kMin;
  if (is_exact) return 0;
  if (op == comm::ReduceOp::kAverage) return 2 * rounding_of(type) * run.num_ranks;
  return run.num_ranks * rounding_of(type) <= 1 ? 0 : run.num_ranks * rounding_of(type);
}

}  // namespace

void fill_values(const at::Tensor& tensor, int rank, int64_t first_index, int64_t call) {
  for (int64_t begin = 0; begin < tensor.numel(); begin += kChunk) {
    const int64_t count = std::min(kChunk, tensor.numel() - begin);
    tensor.narrow(0, begin, count)
        .copy_(whole_values(count, rank, first_index + begin, call, tensor.scalar_type(), tensor.device()));
  }
}

int64_t count_wrong(const at::Tensor& received, const std::vector<ExpectedRun>& runs, comm::ReduceOp op, int64_t call) {
  int64_t num_wrong = 0, num_seen = 0;
  for (const ExpectedRun& run : runs) {
    num_seen += run.count;
    for (int64_t begin = 0; begin < run.count; begin += kChunk) {
      const int64_t count = std::min(kChunk, run.count - begin);
      const at::Tensor expected = expected_values(run, begin, count, op, call, received);
      const at::Tensor difference = received.narrow(0, run.offset + begin, count).to(at::kDouble).sub_(expected).abs_();
      num_wrong += difference.le(tolerance_of(received.scalar_type(), run, op))
                       .logical_not_()
                       .sum()
                       .item<int64_t>();  // NaN is not <=
    }
  }
  LOCKSTEP_CHECK(num_seen == received.numel(), "checked={} received={}", num_seen, received.numel());
  return num_wrong;
}

}  // namespace lockstep::bench
