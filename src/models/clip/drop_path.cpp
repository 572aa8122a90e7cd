#include "models/clip/drop_path.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <vector>

#include "core/rng.h"
#include "nn/dropout.h"

namespace lockstep::models {

at::Tensor kept_branch(const DroppedBranch& branch, const at::Tensor& input, int64_t dims,
                       const ForwardContext& context) {
  if (branch.num_blocks < 2) return {};
  const double rate =
      branch.drop_path * static_cast<double>(branch.number) / static_cast<double>(branch.num_blocks - 1);
  if (rate <= 0.0) return {};
  const uint64_t key = core::stream_key({context.random_key, branch.stream, static_cast<uint64_t>(branch.number)});
  std::vector<int64_t> shape(static_cast<size_t>(dims), 1);
  shape.front() = input.size(0);
  return nn::dropout(at::ones(shape, input.options()), {rate, key});
}

}  // namespace lockstep::models
