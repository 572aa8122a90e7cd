#pragma once
#include <array>
#include <string>
#include <vector>

namespace lockstep::tasks {

/// --aug-cfg after parsing: what happens to a picture in training. Defaults are OpenCLIP's.
struct AugConfig {
  double scale_min = 0.9, scale_max = 1.0;  ///< Area of the crop, as torchvision's RandomResizedCrop has it.
  double ratio_min = 3.0 / 4.0, ratio_max = 4.0 / 3.0;  ///< Width over height of the crop.
  std::array<double, 4> color_jitter{};                 ///< Largest change of brightness, contrast, saturation and hue.
  double color_jitter_prob = 0;
  double gray_scale_prob = 0;
};
/// Pairs such as "scale=(0.4,1.0)". UsageError for unknown or unsupported keys and values out of range.
AugConfig parse_aug_cfg(const std::vector<std::string>& pairs);

}  // namespace lockstep::tasks
