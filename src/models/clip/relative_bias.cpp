// Letters: R different distances, H heads, P patches, T tokens.
#include "models/clip/relative_bias.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>

#include <cmath>

namespace lockstep::models {

RelativePlaces make_relative_places(int64_t cells, const at::TensorOptions& options) {
  const int64_t steps = 2 * cells - 1, patches = cells * cells;
  const at::Tensor offset = at::arange(1 - cells, cells, at::TensorOptions(at::kFloat));
  const at::Tensor distance = offset.sign().mul(offset.abs().log1p());
  const at::Tensor rows = distance.unsqueeze(1).expand({steps, steps}),
                   columns = distance.unsqueeze(0).expand({steps, steps});
  const at::Tensor cell = at::arange(cells, at::TensorOptions(at::kLong));
  const at::Tensor between = cell.unsqueeze(1).sub(cell.unsqueeze(0)).add(cells - 1);  // of query and key, one side
  const at::Tensor index = between.view({cells, 1, cells, 1}).mul(steps).add(between.view({1, cells, 1, cells}));
  return {at::stack({rows, columns}, 2).view({steps * steps, 2}).to(options.device()),
          index.reshape({patches * patches}).to(options.device())};
}

RelativeBias::RelativeBias(int64_t mlp_width, int64_t heads, const at::TensorOptions& options)
    : fc1_(2, mlp_width, options), fc2_(mlp_width, heads, options), heads_(heads) {
  register_child("mlp.fc1", fc1_);
  register_child("mlp.fc2", fc2_);
}

at::Tensor RelativeBias::forward(const RelativePlaces& places, int64_t num_others, const nn::Dropout& dropout) const {
  const at::Tensor hidden = at::relu(fc1_.forward(places.distance_R2.to(fc1_.weight().scalar_type())));
  const at::Tensor bias_RH = fc2_.forward(nn::dropout(hidden, dropout));
  const auto patches = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(places.index_Q.size(0)))));
  const at::Tensor bias_HPP =
      bias_RH.index_select(0, places.index_Q).view({patches, patches, heads_}).permute({2, 0, 1});
  return at::constant_pad_nd(bias_HPP, {num_others, 0, num_others, 0}).unsqueeze(0);
}

}  // namespace lockstep::models
