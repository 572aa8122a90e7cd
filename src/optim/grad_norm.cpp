#include "optim/grad_norm.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace lockstep::optim {

namespace {

/// Elements that a CPU adds up in fp32 before it goes on in fp64: so few that the sum of equal numbers is right to
/// 1e-6.
constexpr int64_t kRowElements = 512;
/// Elements of a narrow type that are widened at a time: 1 MB of scratch, where whole tensors left holes in the heap.
constexpr int64_t kPieceElements = int64_t{1} << 18;

/// Of one row of memory on the CPU: 0-dim fp64. (torch's norm with an fp64 result first makes an fp64 copy, at 20 times
/// the cost.)
at::Tensor squared_norm_of_row(const at::Tensor& flat) {
  const auto norms = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, {{1}}).to(at::kDouble).square_().sum();
  };
  const int64_t body = flat.numel() / kRowElements * kRowElements;
  at::Tensor sum = at::zeros({}, at::kDouble);
  if (body > 0) sum.add_(norms(flat.narrow(0, 0, body).view({-1, kRowElements})));
  if (body < flat.numel()) sum.add_(norms(flat.narrow(0, body, flat.numel() - body).unsqueeze(0)));
  return sum;
}

at::Tensor squared_norm_on_cpu(const std::vector<at::Tensor>& tensors) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const auto& tensor : tensors) {
    const at::Tensor flat =
        tensor.is_non_overlapping_and_dense() ? tensor.as_strided({tensor.numel()}, {1}) : tensor.reshape({-1});
    if (!at::isReducedFloatingType(flat.scalar_type()))
      sum.add_(squared_norm_of_row(flat));
    else
      for (const auto& piece : flat.split(kPieceElements)) sum.add_(squared_norm_of_row(piece.to(at::kFloat)));
  }
  return sum;
}

/// Those that have elements.
std::vector<at::Tensor> present_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> present;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.numel() > 0) present.push_back(tensor.detach());
  return present;
}

/// A sum of nothing so far, where the tensors lie, though they be without elements.
at::Tensor zero_beside(const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors)
    if (tensor.defined()) return at::zeros({}, tensor.options().dtype(at::kDouble));
  return at::zeros({}, at::kDouble);
}

}  // namespace

at::Tensor squared_norm(const std::vector<at::Tensor>& tensors) {
  const c10::NoGradGuard no_grad;
  const std::vector<at::Tensor> present = present_of(tensors);
  if (present.empty()) return zero_beside(tensors);
  if (present.front().is_cpu()) return squared_norm_on_cpu(present);
  return at::stack(at::_foreach_norm(present, 2, at::kDouble)).square_().sum();
}

at::Tensor count_zeros(const std::vector<at::Tensor>& tensors) {
  const c10::NoGradGuard no_grad;
  at::Tensor sum = zero_beside(tensors);
  for (const auto& tensor : present_of(tensors))
    sum.add_(static_cast<double>(tensor.numel())).sub_(tensor.count_nonzero());
  return sum;
}

GradSummary summarise_gradients(const std::vector<at::Tensor>& gradients, double max_norm, const at::Tensor& loss_scale,
                                comm::Comm* shards) {
  const c10::NoGradGuard no_grad;
  auto squared = squared_norm(gradients);
  if (shards != nullptr) shards->all_reduce(squared).wait();
  auto norm = squared.sqrt();
  GradSummary out;
  out.found_inf = norm.isfinite().logical_not_().to(at::kFloat);
  if (loss_scale.defined()) norm = norm / loss_scale.to(at::kDouble);
  out.norm = norm.to(at::kFloat);
  if (max_norm > 0) out.grad_divisor = ((norm + 1e-6) / max_norm).clamp_min_(1.0).to(at::kFloat);
  if (loss_scale.defined())
    out.grad_divisor = out.grad_divisor.defined() ? out.grad_divisor * loss_scale : loss_scale.clone();
  return out;
}

}  // namespace lockstep::optim
