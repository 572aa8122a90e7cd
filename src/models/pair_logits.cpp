#include "models/pair_logits.h"

#include <ATen/ATen.h>

namespace lockstep::models {
namespace {

constexpr int64_t kMinTileColumns = 64;

}  // namespace

at::Tensor feature_products(const at::Tensor& rows_RE, const at::Tensor& keys_KE) {
  if (rows_RE.scalar_type() == at::kFloat) return at::mm(rows_RE, keys_KE.t());
  if (!rows_RE.is_cpu()) return at::mm(rows_RE, keys_KE.t(), at::kFloat);
  return at::mm(rows_RE.to(at::kFloat), keys_KE.to(at::kFloat).t());
}

void add_weighted_features(at::Tensor& into_RE, const at::Tensor& weights_RK, const at::Tensor& keys_KE) {
  if (keys_KE.scalar_type() == at::kFloat)
    into_RE.addmm_(weights_RK, keys_KE);
  else if (!keys_KE.is_cpu())
    into_RE.add_(at::mm(weights_RK.to(keys_KE.scalar_type()), keys_KE, at::kFloat));
  else
    into_RE.addmm_(weights_RK, keys_KE.to(at::kFloat));
}

at::Tensor gather_features(const at::Tensor& image_BE, const at::Tensor& text_BE, comm::Comm& data_axis) {
  const auto mine_BE = at::cat({image_BE, text_BE}, 1);
  if (data_axis.size() == 1) return mine_BE;
  auto all_NE = at::empty({mine_BE.size(0) * data_axis.size(), mine_BE.size(1)}, mine_BE.options());
  data_axis.all_gather_into(all_NE, mine_BE).wait();
  return all_NE;
}

at::Tensor mean_over_ranks(const at::Tensor& loss, comm::Comm& data_axis) {
  const auto mine = loss.detach().reshape({1});
  if (data_axis.size() == 1) return mine.mean();
  auto all_W = at::empty({data_axis.size()}, mine.options());
  data_axis.all_gather_into(all_W, mine).wait();
  return all_W.mean();
}

int64_t tile_columns(int64_t num_rows, int64_t num_columns, int64_t logit_bytes) {
  const int64_t column_bytes = std::max<int64_t>(1, num_rows * static_cast<int64_t>(sizeof(float)));
  return std::clamp<int64_t>(logit_bytes / column_bytes, std::min(kMinTileColumns, num_columns), num_columns);
}

at::Tensor DiagonalPart::of(const at::Tensor& tile_RK) const {
  return tile_RK.narrow(0, row, size).narrow(1, column, size).diagonal();
}

}  // namespace lockstep::models
