#include "optim/unfused.h"

#include <ATen/ATen.h>

#include "optim/segment_groups.h"

namespace lockstep::optim {

at::Tensor finite_gradient(const at::Tensor& gradient, const at::Tensor& parameter, const at::Tensor& grad_divisor,
                           const at::Tensor& found_inf) {
  const at::Tensor plain = gradient.detach();
  if (grad_divisor.defined()) plain.div_(grad_divisor);
  const at::Tensor matched = matched_gradient(plain, parameter);
  return found_inf.defined() ? at::where(found_inf.gt(0), at::zeros_like(matched), matched) : matched;
}

at::Tensor update_weight(const at::Tensor& parameter, const at::Tensor& found_inf) {
  if (!found_inf.defined()) return at::ones({}, parameter.options().requires_grad(false));
  return (1 - found_inf).to(parameter.scalar_type());
}

}  // namespace lockstep::optim
