#include "parallel/sum_gradients.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <map>

#include "core/error.h"

namespace lockstep::parallel {

void sum_gradients(const std::vector<at::Tensor>& gradients, comm::Comm& group) {
  if (group.size() == 1) return;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& gradient : gradients) {
    LOCKSTEP_CHECK(gradient.defined(), "one of {} parameters has no gradient", gradients.size());
    by_type[gradient.scalar_type()].push_back(gradient);
  }
  for (const auto& [type, of_type] : by_type) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& gradient : of_type) flat.push_back(gradient.reshape({-1}));
    const at::Tensor joined = at::cat(flat);
    group.all_reduce(joined).wait();
    int64_t begin = 0;
    for (const at::Tensor& gradient : of_type) {
      gradient.copy_(joined.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }
}

}  // namespace lockstep::parallel
