#include "optim/grad_norm.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace lockstep::optim {

namespace {

/// Pieces that a CPU reduction widens to double in one go: 2 MB of scratch, where whole tensors took 200 MB and left holes in the heap.
constexpr int64_t kPieceElements = int64_t{1} << 18;

std::vector<at::Tensor> in_pieces(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> pieces;
  for (const auto& tensor : tensors) {
    if (!tensor.is_non_overlapping_and_dense()) {
      pieces.push_back(tensor);
      continue;
    }
    const auto flat = tensor.as_strided({tensor.numel()}, {1});
    for (const auto& piece : flat.split(kPieceElements)) pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

at::Tensor squared_norm(const std::vector<at::Tensor>& tensors) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> present;
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.numel() > 0) present.push_back(tensor.detach());
  if (present.empty()) return at::zeros({}, at::kDouble);
  if (present.front().is_cpu()) present = in_pieces(present);
  return at::stack(at::_foreach_norm(present, 2, at::kDouble)).square_().sum();
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
  if (loss_scale.defined()) out.grad_divisor = out.grad_divisor.defined() ? out.grad_divisor * loss_scale : loss_scale.clone();
  return out;
}

}  // namespace lockstep::optim
