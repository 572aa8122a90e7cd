// Letters: B micro-batch, P patches, T tokens, H heads, K head width.
#include "models/clip/patch_rotation.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>

namespace lockstep::models {

PatchRotation make_rotation(const config::RotaryCells& rotary, int64_t cells, int64_t head_width,
                            const at::TensorOptions& options) {
  const int64_t num_bands = head_width / 4;
  const auto fp32 = at::TensorOptions(at::kFloat);
  const at::Tensor bands =
      at::pow(10000.0, at::arange(num_bands, fp32).div(static_cast<double>(num_bands))).reciprocal();
  const at::Tensor place = at::arange(cells, fp32)
                               .add(rotary.offset)
                               .div(static_cast<double>(cells))
                               .mul(static_cast<double>(rotary.reference_cells));
  const at::Tensor angle = place.unsqueeze(1).mul(bands.unsqueeze(0));  // [cells, bands]
  const at::Tensor row = angle.unsqueeze(1).expand({cells, cells, num_bands}),
                   column = angle.unsqueeze(0).expand({cells, cells, num_bands});
  const at::Tensor both = rotary.columns_first ? at::cat({column, row}, 2) : at::cat({row, column}, 2);
  const at::Tensor angle_PK = both.reshape({cells * cells, 2 * num_bands}).repeat_interleave(2, 1);
  return {angle_PK.sin().to(options.device()), angle_PK.cos().to(options.device())};
}

at::Tensor rotated(const at::Tensor& x_BHTK, const PatchRotation& rotation, int64_t num_others) {
  const at::Tensor patch = x_BHTK.narrow(2, num_others, x_BHTK.size(2) - num_others);
  const at::Tensor pairs = patch.unflatten(3, {-1, 2});
  const at::Tensor turned = at::stack({pairs.select(4, 1).neg(), pairs.select(4, 0)}, 4).flatten(3);
  const at::Tensor sum = patch.mul(rotation.cos_PK).add(turned.mul(rotation.sin_PK)).to(x_BHTK.scalar_type());
  return num_others == 0 ? sum : at::cat({x_BHTK.narrow(2, 0, num_others), sum}, 2);
}

}  // namespace lockstep::models
