// Letters: N tokens, n tokens of a chunk, D width, V rows of the table on this rank, R ranks.
#include "nn/vocab_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "nn/cpu_kernels.h"
#include "nn/gpu_kernels.h"
#include "nn/product.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunkElements = int64_t{1} << 26;
constexpr const char* kPlanKey = "plan";

/// What both passes must know beside tensors.
struct LossPlan : torch::CustomClassHolder {
  ShardCtx shard;
  int64_t first_row = 0, num_tokens_here = 0;  ///< This rank's rows; how many of them are no padding.
  int64_t chunk = 0;
  bool early_gradients = false;
  at::ScalarType compute_type = at::kFloat, wide_type = at::kFloat;
};

/// Softmax of one chunk before normalisation, and what it takes to finish it.
struct Chunk {
  at::Tensor exp_nV;            ///< exp(logit - the rank's own largest) ...
  at::Tensor logits_nV, top_n;  ///< ... or, where an own kernel makes the gradient of them, logits and largest.
  at::Tensor column_n;          ///< Of the target, which may be another rank's.
  at::Tensor factor_n;          ///< Times this the first is the softmax.
  at::Tensor loss_n;
  at::Tensor own_target_n1;    ///< Column of the target, where it is the rank's own ...
  at::Tensor is_own_target_n;  ///< ... 1, else 0.
};

/// Loss and factor of `stats_3n`, what this rank knows of each token: largest logit, sum of exp(logit - that), logit of
/// the target or 0.
void finish_chunk(const LossPlan& plan, const at::Tensor& stats_3n, Chunk& chunk) {
  at::Tensor stats_R3n = stats_3n.unsqueeze(0);
  if (!plan.shard.is_alone()) {
    const at::Tensor own = stats_R3n;
    stats_R3n = at::empty({plan.shard.size(), 3, stats_3n.size(1)}, own.options());
    plan.shard.tp->all_gather_into(stats_R3n, own).wait();
  }
  const at::Tensor top_Rn = stats_R3n.select(1, 0), highest_n = top_Rn.amax(0);
  const at::Tensor sum_n = stats_R3n.select(1, 1).mul(top_Rn.sub(highest_n).exp_()).sum(0);
  chunk.loss_n = sum_n.log().add_(highest_n).sub_(stats_R3n.select(1, 2).sum(0));
  chunk.factor_n = stats_3n.select(0, 0).sub(highest_n).exp_().div_(sum_n);
}

Chunk compute_chunk(const LossPlan& plan, const at::Tensor& x_nD, const at::Tensor& table_VD,
                    const at::Tensor& target_n) {
  Chunk chunk;
  at::Tensor logits_nV = product(x_nD, table_VD.t());
  const int64_t rows = table_VD.size(0), padding = rows - plan.num_tokens_here;
  const at::Tensor column_n = chunk.column_n = target_n.sub(plan.first_row);
  const at::Tensor is_own_n = column_n.ge(0).logical_and_(column_n.lt(rows));
  chunk.is_own_target_n = is_own_n.to(plan.wide_type);
  if (suits_cpu_softmax(logits_nV) || suits_gpu_softmax(logits_nV)) {
    const auto stats_of = logits_nV.is_cpu() ? softmax_stats_on_cpu : softmax_stats_on_gpu;
    const at::Tensor stats_3n = stats_of(logits_nV, plan.num_tokens_here, column_n);
    chunk.logits_nV = logits_nV;
    chunk.top_n = stats_3n.select(0, 0).clamp_min_(std::numeric_limits<float>::lowest());
    finish_chunk(plan, stats_3n, chunk);
    return chunk;
  }
  logits_nV = logits_nV.to(plan.wide_type);
  if (padding > 0) logits_nV.narrow(1, plan.num_tokens_here, padding).fill_(-std::numeric_limits<double>::infinity());
  chunk.own_target_n1 = column_n.masked_fill(is_own_n.logical_not(), 0).unsqueeze(1);
  const at::Tensor target_logit_n =
      logits_nV.gather(1, chunk.own_target_n1).squeeze(1).masked_fill_(is_own_n.logical_not(), 0);
  // A rank that holds nothing but padding has no largest logit; any finite number will do.
  const at::Tensor top_n = logits_nV.amax(1).clamp_min_(std::numeric_limits<float>::lowest());
  chunk.exp_nV = logits_nV.sub_(top_n.unsqueeze(1)).exp_();
  finish_chunk(plan, at::stack({top_n, chunk.exp_nV.sum(1), target_logit_n}), chunk);
  return chunk;
}

/// Adds up gradients over chunks; consumes their softmax.
class GradientSum {
 public:
  GradientSum(const LossPlan& plan, const at::Tensor& x_ND, const at::Tensor& table_VD)
      : plan_(plan), x_ND_(x_ND), table_VD_(table_VD) {
    x_gradient_ND = at::empty_like(x_ND, at::MemoryFormat::Contiguous);
  }

  /// `weight_n`: derivative of the result with respect to each token's loss.
  void add(Chunk& chunk, int64_t begin, const at::Tensor& weight_n) {
    const int64_t count = weight_n.size(0);
    const at::Tensor low_nV = gradient_of_logits(chunk, weight_n);
    product_into(x_gradient_ND.narrow(0, begin, count), low_nV, table_VD_);
    const at::Tensor x_nD = x_ND_.narrow(0, begin, count);
    if (count == x_ND_.size(0))
      table_gradient_VD = product(low_nV.t(), x_nD);  // one chunk: nothing is added up
    else if (!table_gradient_VD.defined())
      table_gradient_VD = product(low_nV.t(), x_nD).to(plan_.wide_type);
    else if (plan_.compute_type == plan_.wide_type)
      table_gradient_VD.addmm_(low_nV.t(), x_nD);
    else
      table_gradient_VD.add_(low_nV.t().mm(x_nD));
  }

  at::Tensor x_gradient_ND, table_gradient_VD;

 private:
  at::Tensor gradient_of_logits(Chunk& chunk, const at::Tensor& weight_n) const {
    const at::Tensor factor_n = chunk.factor_n.mul(weight_n), own_weight_n = chunk.is_own_target_n.mul(weight_n);
    if (chunk.logits_nV.defined()) {
      const auto make_gradient = chunk.logits_nV.is_cpu() ? softmax_gradient_on_cpu : softmax_gradient_on_gpu;
      make_gradient(chunk.logits_nV, plan_.num_tokens_here, chunk.column_n, chunk.top_n, factor_n, own_weight_n);
      return chunk.logits_nV;
    }
    const at::Tensor gradient_nV = chunk.exp_nV.mul_(factor_n.unsqueeze(1));
    gradient_nV.scatter_add_(1, chunk.own_target_n1, own_weight_n.neg().unsqueeze(1));
    return gradient_nV.to(plan_.compute_type);
  }

  const LossPlan& plan_;
  const at::Tensor &x_ND_, &table_VD_;
};

/// Calls visit(begin, count) for each chunk.
template <typename Visit> void for_chunks(const LossPlan& plan, int64_t num_tokens, Visit&& visit) {
  for (int64_t begin = 0; begin < num_tokens; begin += plan.chunk)
    visit(begin, std::min(plan.chunk, num_tokens - begin));
}

struct VocabCrossEntropy : torch::autograd::Function<VocabCrossEntropy> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& table,
                               const at::Tensor& target_N, const at::Tensor& weight_N,
                               const c10::intrusive_ptr<LossPlan>& plan) {
    const at::Tensor x_ND = x.to(plan->compute_type), table_VD = table.to(plan->compute_type);
    GradientSum gradients(*plan, x_ND, table_VD);
    const at::Tensor loss_N = at::empty({x.size(0)}, x.options().dtype(plan->wide_type));
    for_chunks(*plan, x.size(0), [&](int64_t begin, int64_t count) {
      Chunk chunk = compute_chunk(*plan, x_ND.narrow(0, begin, count), table_VD, target_N.narrow(0, begin, count));
      loss_N.narrow(0, begin, count).copy_(chunk.loss_n);
      if (plan->early_gradients) gradients.add(chunk, begin, weight_N.narrow(0, begin, count));
    });
    context->saved_data[kPlanKey] = c10::IValue::make_capsule(plan);
    if (plan->early_gradients)
      context->save_for_backward({gradients.x_gradient_ND, gradients.table_gradient_VD});
    else
      context->save_for_backward({x, table, target_N, weight_N});
    context->mark_non_differentiable({loss_N});
    return {loss_N.mul(weight_N).sum(), loss_N};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto plan = c10::static_intrusive_pointer_cast<LossPlan>(context->saved_data[kPlanKey].toCapsule());
    const auto saved = context->get_saved_variables();
    if (plan->early_gradients) {
      at::Tensor x_gradient_ND = at::empty_like(saved[0]);  // one rounding: the factor, 1 / tokens, keeps its digits
      at::mul_out(x_gradient_ND, saved[0], upstream[0].view({1, 1}));
      return {x_gradient_ND, saved[1].mul(upstream[0]), {}, {}, {}};
    }
    const at::Tensor x_ND = saved[0].to(plan->compute_type), table_VD = saved[1].to(plan->compute_type);
    const at::Tensor weight_N = saved[3].mul(upstream[0]);
    GradientSum gradients(*plan, x_ND, table_VD);
    for_chunks(*plan, x_ND.size(0), [&](int64_t begin, int64_t count) {
      Chunk chunk = compute_chunk(*plan, x_ND.narrow(0, begin, count), table_VD, saved[2].narrow(0, begin, count));
      gradients.add(chunk, begin, weight_N.narrow(0, begin, count));
    });
    return {gradients.x_gradient_ND, gradients.table_gradient_VD, {}, {}, {}};
  }
};

}  // namespace

VocabLoss vocab_cross_entropy(const at::Tensor& x_ND, const at::Tensor& table_VD, const at::Tensor& target_N,
                              const at::Tensor& weight_N, const VocabLossOptions& options, const ShardCtx& shard) {
  const int64_t rows = table_VD.size(0);
  LOCKSTEP_CHECK(x_ND.dim() == 2 && x_ND.size(1) == table_VD.size(1) && target_N.numel() == x_ND.size(0),
                 "tokens={} targets={}", x_ND.size(0), target_N.numel());
  LOCKSTEP_CHECK(0 < options.vocab && options.vocab <= rows * shard.size(), "vocab={} rows={}", options.vocab, rows);
  const auto device = x_ND.device().type();
  auto plan = c10::make_intrusive<LossPlan>();
  plan->shard = shard;
  plan->first_row = shard.rank() * rows;
  plan->num_tokens_here = std::clamp<int64_t>(options.vocab - plan->first_row, 0, rows);
  plan->chunk = options.chunk_tokens > 0 ? options.chunk_tokens : std::max<int64_t>(1, kChunkElements / rows);
  plan->compute_type =
      at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x_ND.scalar_type();
  plan->wide_type = at::isReducedFloatingType(plan->compute_type) ? at::kFloat : plan->compute_type;
  const bool needs_gradient = at::GradMode::is_enabled() && (x_ND.requires_grad() || table_VD.requires_grad());
  plan->early_gradients = options.early_gradients && needs_gradient && plan->compute_type != at::kHalf;
  const at::Tensor mask_N = weight_N.defined() ? weight_N.to(plan->wide_type)
                                               : at::ones({x_ND.size(0)}, x_ND.options().dtype(plan->wide_type));
  auto result = VocabCrossEntropy::apply(x_ND, table_VD, target_N, mask_N, std::move(plan));
  return {result[0], result[1]};
}

}  // namespace lockstep::nn
