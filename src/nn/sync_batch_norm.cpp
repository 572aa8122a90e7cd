#include "nn/sync_batch_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor per_channel(const at::Tensor& values_C) { return values_C.view({1, -1, 1, 1}); }

struct JoinedStatistics {
  at::Tensor mean_C, var_C, count;  // biased variance
};

/// Pools the ranks' means and variances (Chan, Golub, LeVeque 1979: no difference of large sums).
JoinedStatistics join_statistics(const at::Tensor& x, comm::Comm& comm) {
  const int64_t channels = x.size(1);
  const auto [var, mean] = at::var_mean(x.to(at::kFloat), at::IntArrayRef{0, 2, 3}, /*correction=*/0);
  const double local_count = static_cast<double>(x.numel() / channels);
  const at::Tensor mine = at::cat({mean, var, at::full({1}, local_count, mean.options())}).unsqueeze(0);
  at::Tensor all_RS = at::empty({comm.size(), 2 * channels + 1}, mine.options());
  comm.all_gather_into(all_RS, mine).wait();
  const at::Tensor means_RC = all_RS.narrow(1, 0, channels), vars_RC = all_RS.narrow(1, channels, channels);
  const at::Tensor counts_R1 = all_RS.narrow(1, 2 * channels, 1), count = counts_R1.sum();
  const at::Tensor joined_mean = (means_RC * counts_R1).sum(0) / count;
  const at::Tensor joined_var = ((vars_RC + (means_RC - joined_mean).square()) * counts_R1).sum(0) / count;
  return {joined_mean, joined_var, count};
}

void update_running(const RunningStatistics& running, const JoinedStatistics& joined) {
  if (!running.mean_C.defined()) return;
  running.mean_C.lerp_(joined.mean_C.to(running.mean_C.scalar_type()), running.momentum);
  const at::Tensor unbiased = joined.var_C * (joined.count / (joined.count - 1.0).clamp_min(1.0));
  running.var_C.lerp_(unbiased.to(running.var_C.scalar_type()), running.momentum);
}

struct SyncBatchNorm : torch::autograd::Function<SyncBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const RunningStatistics* running, double epsilon,
                            int64_t comm_address) {
    auto& comm = *reinterpret_cast<comm::Comm*>(comm_address);
    const JoinedStatistics joined = join_statistics(x, comm);
    update_running(*running, joined);
    const at::Tensor inverse = (joined.var_C + epsilon).rsqrt();
    context->save_for_backward({x, weight, joined.mean_C, inverse, joined.count});
    context->saved_data["comm"] = comm_address;
    const at::Tensor scale = weight.to(at::kFloat) * inverse, shift = bias.to(at::kFloat) - joined.mean_C * scale;
    return (x * per_channel(scale) + per_channel(shift)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    auto& comm = *reinterpret_cast<comm::Comm*>(context->saved_data["comm"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3], &count = saved[4];
    const at::Tensor dy = gradients[0].to(at::kFloat);
    const at::Tensor normalized = (x - per_channel(mean)) * per_channel(inverse);
    const at::Tensor sum_dy = dy.sum({0, 2, 3}), sum_dy_normalized = (dy * normalized).sum({0, 2, 3});
    at::Tensor sums = at::cat({sum_dy, sum_dy_normalized});
    comm.all_reduce(sums).wait();
    sums.div_(count);
    const int64_t channels = x.size(1);
    const at::Tensor mean_dy = per_channel(sums.narrow(0, 0, channels)),
                     mean_dyn = per_channel(sums.narrow(0, channels, channels));
    const at::Tensor dx = (dy - mean_dy - normalized * mean_dyn) * per_channel(weight.to(at::kFloat) * inverse);
    const at::Tensor none;
    return {dx.to(x.scalar_type()),
            sum_dy_normalized.to(weight.scalar_type()),
            sum_dy.to(weight.scalar_type()),
            none,
            none,
            none};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x_BCYX, const at::Tensor& weight_C, const at::Tensor& bias_C,
                           const RunningStatistics& running, double epsilon, comm::Comm& comm) {
  return SyncBatchNorm::apply(x_BCYX, weight_C, bias_C, &running, epsilon, reinterpret_cast<int64_t>(&comm));
}

}  // namespace lockstep::nn
