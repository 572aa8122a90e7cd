#include "config/image_towers/mean_patch.h"

#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {

void MeanPatchTower::check(const ClipShape& shape) {
  require_between(shape, "vision patch_size", shape.vision.patch_size, 1, shape.vision.image_size);
}

int64_t MeanPatchTower::feature_width(const VisionShape& vision) { return vision.width; }

int64_t MeanPatchTower::grid(const VisionShape& vision) { return vision.image_size / vision.patch_size; }

void MeanPatchTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  list.add_conv("visual.conv1", 3, vision.width, vision.patch_size);
  list.add("visual.proj", {vision.width, embed_dim}, normal(inverse_root(vision.width)), true);
}

double MeanPatchTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t) {
  const double pixels = static_cast<double>(3 * vision.image_size * vision.image_size);
  return 2.0 * static_cast<double>(vision.width) * (pixels + static_cast<double>(embed_dim));
}

double MeanPatchTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
  return static_cast<double>(vision.grid() * vision.grid() * vision.width) * bytes.compute;
}

}  // namespace lockstep::config
