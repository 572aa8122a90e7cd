#include "models/contrastive_loss.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "models/pair_logits.h"

// Gradient, with l_ij = s <I_i, T_j>, row softmax P_ij = exp(l_ij - a_i) (image to text) and column softmax Q_ij =
// exp(l_ij - c_j) (text to image):
//   dL/dI_i = s/2N sum_j (P_ij + Q_ij - 2 [i=j]) T_j,   dL/dT_j = s/2N sum_i (P_ij + Q_ij - 2 [i=j]) I_i,
//   dL/ds = 1/s sum_i <I_i, dL/dI_i>, since L depends on the product s I alone.
// A rank that knows a of all images and c of all texts therefore computes the gradient of its own rows without hearing
// from others. Tiles over the keys with online log-sum-exp: Inf-CL (Cheng et al. 2024), FlashAttention (Dao et al.
// 2022).

namespace lockstep::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Log-sum-exp of each row and the logit of its own pair, column blocks coming one by one.
class OnlineRows {
 public:
  OnlineRows(int64_t num_rows, const at::TensorOptions& options)
      : max_R_(at::full({num_rows}, -std::numeric_limits<float>::infinity(), options)),
        sum_R_(at::zeros({num_rows}, options)) {}

  void add(const at::Tensor& tile_RK) {
    const auto max_R = at::maximum(max_R_, tile_RK.amax(1));
    sum_R_.mul_((max_R_ - max_R).exp_()).add_((tile_RK - max_R.unsqueeze(1)).exp_().sum(1));
    max_R_ = max_R;
  }
  at::Tensor log_sum_exp_R() const { return max_R_ + sum_R_.log(); }

 private:
  at::Tensor max_R_, sum_R_;
};

/// One direction of the loss: own rows against the keys of all ranks.
struct Direction {
  at::Tensor rows_RE, keys_NE;
  at::Tensor scale;  ///< 0-dim fp32
  int64_t first_column = 0, tile_columns = 0;

  int64_t num_rows() const { return rows_RE.size(0); }
  int64_t num_columns() const { return keys_NE.size(0); }
  at::Tensor logits_RK(int64_t begin, int64_t end) const {
    return feature_products(rows_RE, keys_NE.narrow(0, begin, end - begin)).mul_(scale);
  }
  template <typename Body> void for_each_tile(Body&& body) const {
    for (int64_t begin = 0; begin < num_columns(); begin += tile_columns)
      body(begin, std::min(begin + tile_columns, num_columns()));
  }
};

struct RowStatistics {
  at::Tensor log_sum_exp_R, own_pair_R;
  at::Tensor log_sum_exp_columns_N;  ///< Only where asked for (one rank).
  at::Tensor kept_RN;                ///< The logits, where they fit into one tile.
};

/// `with_columns`: the rows are all rows there are, so that one pass over the logits gives both directions.
RowStatistics row_statistics(const Direction& direction, bool with_columns, bool keep) {
  const auto options = direction.rows_RE.options().dtype(at::kFloat);
  RowStatistics out;
  OnlineRows online(direction.num_rows(), options);
  out.own_pair_R = at::empty({direction.num_rows()}, options);
  if (with_columns) out.log_sum_exp_columns_N = at::empty({direction.num_columns()}, options);
  direction.for_each_tile([&](int64_t begin, int64_t end) {
    const auto tile_RK = direction.logits_RK(begin, end);
    if (with_columns) out.log_sum_exp_columns_N.narrow(0, begin, end - begin).copy_(at::logsumexp(tile_RK, {0}));
    const DiagonalPart diagonal(direction.num_rows(), direction.first_column, begin, end);
    if (diagonal.size > 0) out.own_pair_R.narrow(0, diagonal.row, diagonal.size).copy_(diagonal.of(tile_RK));
    online.add(tile_RK);
    if (keep && end - begin == direction.num_columns()) out.kept_RN = tile_RK;
  });
  out.log_sum_exp_R = online.log_sum_exp_R();
  return out;
}

/// Gradient of the sum over this direction's rows with respect to s x rows, and optionally s x keys.
struct DirectionGradient {
  at::Tensor rows_RE, keys_NE;
};

/// `column_lse_N` undefined: only the rows' own softmax counts (keys carry no gradient), else both softmaxes. `kept_RN`
/// is left as it is.
DirectionGradient direction_gradient(const Direction& direction, const at::Tensor& row_lse_R,
                                     const at::Tensor& column_lse_N, at::Tensor kept_RN, bool wants_keys) {
  const auto options = direction.rows_RE.options().dtype(at::kFloat);
  DirectionGradient out{.rows_RE = at::zeros(direction.rows_RE.sizes(), options), .keys_NE = {}};
  if (wants_keys) out.keys_NE = at::empty(direction.keys_NE.sizes(), options);
  direction.for_each_tile([&](int64_t begin, int64_t end) {
    auto tile_RK = kept_RN.defined() ? kept_RN : direction.logits_RK(begin, end);
    at::Tensor column_softmax_RK;
    if (column_lse_N.defined()) column_softmax_RK = (tile_RK - column_lse_N.narrow(0, begin, end - begin)).exp_();
    auto weights_RK =
        kept_RN.defined() ? (tile_RK - row_lse_R.unsqueeze(1)).exp_() : tile_RK.sub_(row_lse_R.unsqueeze(1)).exp_();
    if (column_softmax_RK.defined()) weights_RK.add_(column_softmax_RK);
    const DiagonalPart diagonal(direction.num_rows(), direction.first_column, begin, end);
    if (diagonal.size > 0) diagonal.of(weights_RK).sub_(column_lse_N.defined() ? 2.0 : 1.0);
    const auto keys_KE = direction.keys_NE.narrow(0, begin, end - begin);
    add_weighted_features(out.rows_RE, weights_RK, keys_KE);
    if (wants_keys) {
      auto keys_gradient_KE = out.keys_NE.narrow(0, begin, end - begin).zero_();
      add_weighted_features(keys_gradient_KE, weights_RK.t(), direction.rows_RE);
    }
  });
  return out;
}

struct Geometry {
  int64_t num_rows = 0, num_columns = 0, first_column = 0, tile_columns = 0;
  bool keeps_logits = false, is_symmetric = false, is_biased = false;
};

Geometry plan_tiles(int64_t num_rows, int num_ranks, int rank, const ContrastiveLossOptions& options) {
  Geometry geometry{.num_rows = num_rows,
                    .num_columns = num_rows * num_ranks,
                    .first_column = num_rows * rank,
                    .is_symmetric = num_ranks == 1,
                    .is_biased = options.is_biased(num_ranks)};
  const int64_t logit_bytes = options.logit_bytes / (geometry.is_symmetric ? 1 : 2);
  geometry.tile_columns = tile_columns(num_rows, geometry.num_columns, logit_bytes);
  geometry.keeps_logits = geometry.num_columns * num_rows * static_cast<int64_t>(sizeof(float)) <= logit_bytes;
  return geometry;
}

Direction direction_of(const at::Tensor& rows_RE, const at::Tensor& keys_NE, const at::Tensor& scale,
                       const Geometry& geometry) {
  return {.rows_RE = rows_RE,
          .keys_NE = keys_NE,
          .scale = scale,
          .first_column = geometry.first_column,
          .tile_columns = geometry.tile_columns};
}

class LossFunction : public torch::autograd::Function<LossFunction> {
 public:
  /// Returns {loss of this rank, global loss}.
  static variable_list forward(AutogradContext* context, const at::Tensor& image_BE, const at::Tensor& text_BE,
                               const at::Tensor& scale, comm::Comm* data_axis, const ContrastiveLossOptions& options) {
    // Autocast would round the logits to half precision.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto geometry = plan_tiles(image_BE.size(0), data_axis->size(), data_axis->rank(), options);
    at::Tensor images_NE = image_BE, texts_NE = text_BE;
    if (!geometry.is_symmetric) {
      const auto all_NE = gather_features(image_BE, text_BE, *data_axis);
      images_NE = all_NE.narrow(1, 0, image_BE.size(1));
      texts_NE = all_NE.narrow(1, image_BE.size(1), text_BE.size(1));
    }
    const bool keep =
        geometry.keeps_logits && (image_BE.requires_grad() || text_BE.requires_grad() || scale.requires_grad());
    const auto by_image =
        row_statistics(direction_of(image_BE, texts_NE, scale, geometry), geometry.is_symmetric, keep);
    RowStatistics by_text;
    if (geometry.is_symmetric) {
      by_text.log_sum_exp_R = by_image.log_sum_exp_columns_N;
      by_text.own_pair_R = by_image.own_pair_R;
    } else {
      by_text = row_statistics(direction_of(text_BE, images_NE, scale, geometry), false, keep);
    }
    const auto loss =
        ((by_image.log_sum_exp_R - by_image.own_pair_R).mean() + (by_text.log_sum_exp_R - by_text.own_pair_R).mean()) *
        0.5;

    // One message carries what the backward pass needs of the other ranks and the loss to report.
    const auto mine = at::cat({by_image.log_sum_exp_R, by_text.log_sum_exp_R, loss.reshape({1})});
    auto all = mine.unsqueeze(0);
    if (!geometry.is_symmetric) {
      all = at::empty({data_axis->size(), mine.size(0)}, mine.options());
      data_axis->all_gather_into(all, mine.unsqueeze(0)).wait();
    }
    const auto global_loss = all.select(1, mine.size(0) - 1).mean();
    save(context, geometry, {image_BE, text_BE, scale, images_NE, texts_NE, all, by_image.kept_RN, by_text.kept_RN});
    context->saved_data["rank"] = static_cast<int64_t>(data_axis->rank());
    context->mark_non_differentiable({global_loss});
    return {loss, global_loss};
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const c10::NoGradGuard no_grad;
    const auto saved = context->get_saved_variables();
    const auto &image_BE = saved[0], &text_BE = saved[1], &scale = saved[2], &all = saved[5];
    const Geometry geometry = restore(context);
    const int64_t B = geometry.num_rows;
    const int64_t rank = context->saved_data["rank"].toInt();
    const auto own_image_lse_B = all.select(0, rank).narrow(0, 0, B);
    const auto own_text_lse_B = all.select(0, rank).narrow(0, B, B);
    const auto all_image_lse_N = geometry.is_biased ? at::Tensor() : all.narrow(1, 0, B).reshape({-1});
    const auto all_text_lse_N = geometry.is_biased ? at::Tensor() : all.narrow(1, B, B).reshape({-1});
    const bool wants_image = context->needs_input_grad(0), wants_text = context->needs_input_grad(1);
    const bool wants_scale = context->needs_input_grad(2);

    at::Tensor image_gradient_BE, text_gradient_BE;  // of s x features, summed over the rows
    if (geometry.is_symmetric || wants_image || wants_scale) {
      auto gradient = direction_gradient(direction_of(image_BE, saved[4], scale, geometry), own_image_lse_B,
                                         all_text_lse_N, saved[6], geometry.is_symmetric && wants_text);
      image_gradient_BE = gradient.rows_RE;
      text_gradient_BE = gradient.keys_NE;
    }
    if (!geometry.is_symmetric && (wants_text || (wants_scale && geometry.is_biased)))
      text_gradient_BE = direction_gradient(direction_of(text_BE, saved[3], scale, geometry), own_text_lse_B,
                                            all_image_lse_N, saved[7], false)
                             .rows_RE;

    const auto factor = upstream[0] / static_cast<double>(2 * B);
    variable_list out(5);
    if (wants_scale) {
      auto sum = (image_gradient_BE * image_BE).sum();
      if (geometry.is_biased) sum = sum + (text_gradient_BE * text_BE).sum();
      out[2] = sum * factor;
    }
    if (wants_image) out[0] = image_gradient_BE.mul_(factor * scale).to(image_BE.scalar_type());
    if (wants_text) out[1] = text_gradient_BE.mul_(factor * scale).to(text_BE.scalar_type());
    return out;
  }

 private:
  static void save(AutogradContext* context, const Geometry& geometry, variable_list tensors) {
    context->save_for_backward(std::move(tensors));
    context->saved_data["geometry"] =
        c10::List<int64_t>({geometry.num_rows, geometry.num_columns, geometry.first_column, geometry.tile_columns,
                            geometry.keeps_logits, geometry.is_symmetric, geometry.is_biased});
  }
  static Geometry restore(AutogradContext* context) {
    const auto list = context->saved_data["geometry"].toIntVector();
    return {.num_rows = list[0],
            .num_columns = list[1],
            .first_column = list[2],
            .tile_columns = list[3],
            .keeps_logits = list[4] != 0,
            .is_symmetric = list[5] != 0,
            .is_biased = list[6] != 0};
  }
};

}  // namespace

ContrastiveLoss contrastive_loss(const at::Tensor& image_BE, const at::Tensor& text_BE, const at::Tensor& logit_scale,
                                 const at::Tensor& logit_bias, comm::Comm& data_axis,
                                 const ContrastiveLossOptions& options) {
  LOCKSTEP_CHECK(image_BE.dim() == 2 && image_BE.sizes() == text_BE.sizes() && image_BE.size(0) > 0,
                 "image dims={}, text dims={}, rows={}", image_BE.dim(), text_BE.dim(),
                 image_BE.dim() > 0 ? image_BE.size(0) : 0);
  LOCKSTEP_CHECK(logit_scale.numel() == 1, "logit_scale elements={}", logit_scale.numel());
  const auto type = at::promote_types(image_BE.scalar_type(), text_BE.scalar_type());
  const auto scale = logit_scale.reshape({}).to(at::kFloat);
  auto parts = LossFunction::apply(image_BE.to(type), text_BE.to(type), scale, &data_axis, options);
  ContrastiveLoss out{.loss = parts[0], .global_loss = parts[1]};
  if (logit_bias.defined() && logit_bias.requires_grad())
    out.loss = out.loss + logit_bias.reshape({}).to(at::kFloat) * 0.0;
  return out;
}

}  // namespace lockstep::models
