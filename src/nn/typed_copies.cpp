#include "nn/typed_copies.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_copy.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace lockstep::nn {
namespace {

thread_local TypedCopies* current = nullptr;

}  // namespace

TypedCopies::Scope::Scope(TypedCopies& copies) : before_(std::exchange(current, &copies)) {
  if (before_ != &copies) copies.refresh();
}

TypedCopies::Scope::~Scope() { current = before_; }

/// Passes over micro-batches may be under way that have saved the copies: they get the values that they have.
void TypedCopies::refresh() {
  const c10::NoGradGuard no_grad;
  if (!values_.empty()) at::_foreach_copy_(values_, parameters_, /*non_blocking=*/true);
}

const at::Tensor& TypedCopies::copy_of(const at::Tensor& parameter) {
  at::Tensor& copy = copies_[parameter.unsafeGetTensorImpl()];
  if (!copy.defined()) {
    const c10::NoGradGuard no_grad;
    copy = parameter.detach().to(type_);
    parameters_.push_back(parameter.detach());
    values_.push_back(copy.variable_data());
  }
  return copy;
}

at::Tensor typed_parameter(const at::Tensor& parameter, at::ScalarType type) {
  if (parameter.scalar_type() == type) return parameter;
  const bool has_copy = current != nullptr && current->type_ == type && parameter.scalar_type() == at::kFloat &&
                        parameter.is_leaf() && parameter.requires_grad();
  return has_copy ? current->copy_of(parameter) : parameter.to(type);
}

}  // namespace lockstep::nn
