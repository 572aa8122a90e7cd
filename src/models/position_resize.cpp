#include "models/position_resize.h"

#include <ATen/ATen.h>

#include <cmath>

namespace lockstep::models {
namespace {

constexpr const char *kPictureName = "visual.positional_embedding", *kTextName = "positional_embedding";

/// Side of the grid of patches behind the class token; 0: not square.
int64_t grid_side(const at::Tensor& positions_TW) {
  const int64_t num_patches = positions_TW.size(0) - 1;
  const auto side =
      static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(num_patches, 0)))));
  return side * side == num_patches ? side : 0;
}

at::Tensor resized_picture(const at::Tensor& positions_TW, int64_t old_side, int64_t side) {
  const int64_t width = positions_TW.size(1);
  const auto grid_1WYX =
      positions_TW.narrow(0, 1, old_side * old_side).reshape({1, old_side, old_side, width}).permute({0, 3, 1, 2});
  const auto patches_TW = at::_upsample_bicubic2d_aa(grid_1WYX, {side, side}, /*align_corners=*/false)
                              .permute({0, 2, 3, 1})
                              .reshape({side * side, width});
  return at::cat({positions_TW.narrow(0, 0, 1), patches_TW});
}

at::Tensor resized_text(const at::Tensor& positions_TW, int64_t length) {
  return at::upsample_linear1d(positions_TW.t().unsqueeze(0), {length}, /*align_corners=*/false)
      .squeeze(0)
      .t()
      .contiguous();
}

const at::Tensor* find(const NamedValues& values, const std::string& name) {
  for (const auto& [key, value] : values)
    if (key == name) return &value;
  return nullptr;
}

bool differ_in_length(const at::Tensor& target, const at::Tensor& value) {
  return target.dim() == 2 && value.dim() == 2 && target.size(1) == value.size(1) && target.size(0) != value.size(0) &&
         value.size(0) > 0;
}

}  // namespace

std::vector<std::string> resize_positions(const NamedValues& targets, NamedValues& weights) {
  std::vector<std::string> told;
  for (auto& [name, value] : weights) {
    const at::Tensor* target = find(targets, name);
    if (target == nullptr && name == kTextName) target = find(targets, std::string("text.") + kTextName);
    if (target == nullptr || !differ_in_length(*target, value)) continue;
    if (name == kPictureName) {
      const int64_t old_side = grid_side(value), side = grid_side(*target);
      if (old_side == 0 || side == 0) continue;
      value = resized_picture(value.to(at::kFloat), old_side, side);
      told.push_back(fmt::format(
          "position embeddings of pictures resized from {0} x {0} to {1} x {1} patches (bicubic)", old_side, side));
    } else if (name == kTextName) {
      told.push_back(fmt::format("position embeddings of texts resized from {} to {} tokens (linear)", value.size(0),
                                 target->size(0)));
      value = resized_text(value.to(at::kFloat), target->size(0));
    }
  }
  return told;
}

}  // namespace lockstep::models
