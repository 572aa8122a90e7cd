#include "models/sigmoid_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/error.h"
#include "models/pair_logits.h"

// Gradient, with g_ij = dL/dl_ij = -y_ij sigmoid(-y_ij l_ij) / N:
//   dL/dI_i = s sum_j g_ij T_j,   dL/dT_j = s sum_i g_ij I_i,   dL/db = sum_ij g_ij,
//   dL/ds = 1/s sum_i <I_i, dL/dI_i>, since l depends on s I alone.

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Own rows against the keys of all ranks.
struct SigmoidRows {
  at::Tensor rows_RE, keys_NE, scale, bias;
  int64_t first_column = 0, tile_columns = 0;
};

/// Sums over the rows of one rank and all columns, not yet divided by the number of rows.
struct SigmoidSums {
  at::Tensor loss, slope;       ///< sum softplus(-y l) and sum g N, 0-dim.
  at::Tensor rows_RE, keys_NE;  ///< sum_j g_ij N key_j for each row, and the same for each key where asked for.
};

SigmoidSums sum_rows(const SigmoidRows& in, bool wants_rows, bool wants_keys) {
  const auto options = in.rows_RE.options().dtype(at::kFloat);
  const int64_t num_rows = in.rows_RE.size(0), num_columns = in.keys_NE.size(0);
  SigmoidSums out{.loss = at::zeros({}, options), .slope = at::zeros({}, options), .rows_RE = {}, .keys_NE = {}};
  if (wants_rows) out.rows_RE = at::zeros(in.rows_RE.sizes(), options);
  if (wants_keys) out.keys_NE = at::zeros(in.keys_NE.sizes(), options);
  for (int64_t begin = 0; begin < num_columns; begin += in.tile_columns) {
    const int64_t end = std::min(begin + in.tile_columns, num_columns);
    const auto keys_KE = in.keys_NE.narrow(0, begin, end - begin);
    auto logits_RK = feature_products(in.rows_RE, keys_KE).mul_(in.scale).add_(in.bias);
    const DiagonalPart own(num_rows, in.first_column, begin, end);
    out.loss.add_(at::softplus(logits_RK).sum());
    // softplus(-l) = softplus(l) - l, and its slope is that of softplus(l) less one.
    if (own.size > 0) out.loss.sub_(own.of(logits_RK).sum());
    if (!wants_rows && !wants_keys) continue;
    auto slopes_RK = logits_RK.sigmoid_();
    if (own.size > 0) own.of(slopes_RK).sub_(1.0);
    out.slope.add_(slopes_RK.sum());
    if (wants_rows) add_weighted_features(out.rows_RE, slopes_RK, keys_KE);
    if (wants_keys) {
      auto keys_gradient_KE = out.keys_NE.narrow(0, begin, end - begin);
      add_weighted_features(keys_gradient_KE, slopes_RK.t(), in.rows_RE);
    }
  }
  return out;
}

class SigmoidLossFunction : public torch::autograd::Function<SigmoidLossFunction> {
 public:
  /// Returns {loss of this rank, global loss}.
  static variable_list forward(AutogradContext* context, const at::Tensor& image_BE, const at::Tensor& text_BE,
                               const at::Tensor& scale, const at::Tensor& bias, comm::Comm* data_axis,
                               int64_t logit_bytes) {
    // Autocast would round the logits to half precision.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const int64_t B = image_BE.size(0), E = image_BE.size(1);
    const bool is_alone = data_axis->size() == 1;
    const bool wants_text = text_BE.requires_grad();
    const bool wants_image = image_BE.requires_grad() || scale.requires_grad() || bias.requires_grad();
    const auto all_NE = gather_features(image_BE, text_BE, *data_axis);
    SigmoidRows rows{.rows_RE = image_BE,
                     .keys_NE = all_NE.narrow(1, E, E),
                     .scale = scale,
                     .bias = bias,
                     .first_column = B * data_axis->rank(),
                     .tile_columns = tile_columns(B, all_NE.size(0), logit_bytes)};
    const auto by_image = sum_rows(rows, wants_image, is_alone && wants_text);
    auto text_gradient_BE = by_image.keys_NE;
    if (!is_alone && wants_text) {
      rows.rows_RE = text_BE;
      rows.keys_NE = all_NE.narrow(1, 0, E);
      text_gradient_BE = sum_rows(rows, true, false).rows_RE;
    }
    const auto loss = by_image.loss / static_cast<double>(B);
    const auto global_loss = mean_over_ranks(loss, *data_axis);
    context->save_for_backward({image_BE, text_BE, scale, by_image.rows_RE, text_gradient_BE, by_image.slope});
    context->mark_non_differentiable({global_loss});
    return {loss, global_loss};
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const c10::NoGradGuard no_grad;
    const auto saved = context->get_saved_variables();
    const auto &image_BE = saved[0], &text_BE = saved[1], &scale = saved[2];
    const auto factor = upstream[0] / static_cast<double>(image_BE.size(0));
    variable_list out(6);
    if (context->needs_input_grad(0)) out[0] = (saved[3] * (factor * scale)).to(image_BE.scalar_type());
    if (context->needs_input_grad(1)) out[1] = (saved[4] * (factor * scale)).to(text_BE.scalar_type());
    if (context->needs_input_grad(2)) out[2] = (saved[3] * image_BE).sum() * factor;
    if (context->needs_input_grad(3)) out[3] = saved[5] * factor;
    return out;
  }
};

}  // namespace

ContrastiveLoss sigmoid_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                             const at::Tensor& logit_bias, comm::Comm& data_axis, int64_t logit_bytes) {
  LOCKSTEP_CHECK(image_BE.dim() == 2 && image_BE.sizes() == text_BE.sizes() && image_BE.size(0) > 0,
                 "image dims={}, text dims={}", image_BE.dim(), text_BE.dim());
  LOCKSTEP_CHECK(logit_scale.numel() == 1 && logit_bias.defined() && logit_bias.numel() == 1,
                 "logit_scale elements={}, logit_bias defined={}", logit_scale.numel(), logit_bias.defined());
  const auto type = at::promote_types(image_BE.scalar_type(), text_BE.scalar_type());
  auto parts = SigmoidLossFunction::apply(image_BE.to(type), text_BE.to(type), logit_scale.reshape({}).to(at::kFloat),
                                          logit_bias.reshape({}).to(at::kFloat), &data_axis, logit_bytes);
  return {.loss = parts[0], .global_loss = parts[1]};
}

}  // namespace lockstep::models
