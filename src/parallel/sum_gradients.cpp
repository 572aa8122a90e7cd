#include "parallel/sum_gradients.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <map>

#include "core/error.h"

namespace lockstep::parallel {

void sum_gradients(const std::vector<comm::NamedTensor>& parameters, comm::Comm& group) {
  if (group.size() == 1) return;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const auto& [name, tensor] : parameters) {
    LOCKSTEP_CHECK(tensor->grad().defined(), "parameter '{}' has no gradient", name);
    by_type[tensor->grad().scalar_type()].push_back(tensor->grad());
  }
  for (auto& [type, gradients] : by_type) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
    const at::Tensor joined = at::cat(flat);
    group.all_reduce(joined).wait();
    int64_t begin = 0;
    for (at::Tensor& gradient : gradients) {
      gradient.copy_(joined.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
      begin += gradient.numel();
    }
  }
}

}  // namespace lockstep::parallel
