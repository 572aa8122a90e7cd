#include "support/ranks/local_ops.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/error.h"

namespace lockstep::tests {

using comm::Call, comm::OpKind, comm::ReduceOp;

namespace {

bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

/// Reduction in rank order of one part of every rank's tensor; 16-bit floats in fp32. Fresh memory.
at::Tensor reduce(const std::vector<at::Tensor>& parts, ReduceOp op) {
  const bool is_sum = op == ReduceOp::kSum || op == ReduceOp::kAverage;
  const at::ScalarType type = is_sum && is_half(parts[0].scalar_type()) ? at::kFloat : parts[0].scalar_type();
  at::Tensor total = parts[0].to(type, /*non_blocking=*/false, /*copy=*/true);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (is_sum)
      total.add_(parts[i]);
    else if (op == ReduceOp::kMax)
      at::maximum_out(total, total, parts[i]);
    else
      at::minimum_out(total, total, parts[i]);
  }
  if (op == ReduceOp::kAverage) total.div_(static_cast<double>(parts.size()));
  return total;
}

void all_reduce(const std::vector<Call>& calls) {
  std::vector<at::Tensor> parts;
  for (const Call& call : calls) parts.push_back(call.tensor);
  const at::Tensor total = reduce(parts, calls[0].op);
  for (const Call& call : calls) call.tensor.copy_(total);
}

/// As many operators as ranks, not as pairs of ranks: there may be hundreds.
void all_gather(const std::vector<Call>& calls) {
  std::vector<at::Tensor> parts;
  for (const Call& call : calls) parts.push_back(call.input);
  const at::Tensor all = at::cat(parts);  // inputs may lie in the outputs
  for (const Call& call : calls) call.tensor.copy_(all);
}

void reduce_scatter(const std::vector<Call>& calls) {
  const int64_t n = calls[0].tensor.numel();
  std::vector<at::Tensor> parts;
  for (const Call& call : calls) parts.push_back(call.input);
  const at::Tensor total = reduce(parts, calls[0].op);
  for (size_t to = 0; to < calls.size(); ++to) calls[to].tensor.copy_(total.narrow(0, static_cast<int64_t>(to) * n, n));
}

void all_to_all(const std::vector<Call>& calls) {
  const int64_t n = calls[0].tensor.numel() / static_cast<int64_t>(calls.size());
  for (size_t to = 0; to < calls.size(); ++to)
    for (size_t from = 0; from < calls.size(); ++from)
      calls[to]
          .tensor.narrow(0, static_cast<int64_t>(from) * n, n)
          .copy_(calls[from].input.narrow(0, static_cast<int64_t>(to) * n, n));
}

void broadcast(const std::vector<Call>& calls) {
  const auto root = static_cast<size_t>(calls[0].peer);
  for (size_t to = 0; to < calls.size(); ++to)
    if (to != root) calls[to].tensor.copy_(calls[root].tensor);
}

}  // namespace

std::string mismatch(const Call& a, const Call& b) {
  const bool is_transfer = a.kind == OpKind::kSend || a.kind == OpKind::kReceive;
  if (!is_transfer && a.kind != b.kind) return "different operations";
  if (a.op != b.op) return "different reductions";
  if (a.kind == OpKind::kBroadcast && a.peer != b.peer) return "different roots";
  if (a.tensor.numel() != b.tensor.numel()) return "different element counts";
  if (a.tensor.scalar_type() != b.tensor.scalar_type()) return "different types";
  if (a.layout != b.layout) return "different memory layouts";
  return "";
}

void execute(const std::vector<Call>& calls) {
  const c10::NoGradGuard no_grad;
  switch (calls[0].kind) {
    case OpKind::kAllReduce: return all_reduce(calls);
    case OpKind::kAllGather: return all_gather(calls);
    case OpKind::kReduceScatter: return reduce_scatter(calls);
    case OpKind::kBroadcast: return broadcast(calls);
    case OpKind::kAllToAll: return all_to_all(calls);
    case OpKind::kSend: calls[1].tensor.copy_(calls[0].tensor); return;
    default: LOCKSTEP_CHECK(false, "comm: {} is no call of a transport", op_name(calls[0].kind));
  }
}

}  // namespace lockstep::tests
