#include "models/imagenet/mix_samples.h"
#include "nn/work_recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace lockstep::models {
namespace {

constexpr uint64_t kMixStream = 0x6d697873;  // "mixs": apart from other draws under the same key

/// log of a draw of Gamma(shape, 1): Marsaglia and Tsang 2000; below 1 by Gamma(shape + 1) U^(1/shape), in logarithms,
/// since small shapes give numbers that have no double.
double draw_log_gamma(double shape, core::CounterRng& rng) {
  if (shape < 1) {
    const double log_uniform = std::log1p(-rng.uniform());
    return draw_log_gamma(shape + 1, rng) + log_uniform / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double normal = rng.normal(), root = 1 + c * normal;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log1p(-rng.uniform()) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

MixedSamples mixup(const at::Tensor& image_BCYX, const at::Tensor& label_B, double own_share) {
  return {.image_BCYX = image_BCYX * own_share + image_BCYX.roll(1, 0) * (1 - own_share),
          .other_label_B = label_B.roll(1, 0),
          .own_share = own_share};
}

MixedSamples cutmix(const at::Tensor& image_BCYX, const at::Tensor& label_B, double own_share, core::CounterRng& rng) {
  const int64_t height = image_BCYX.size(2), width = image_BCYX.size(3);
  const CutBox box = draw_cut_box(width, height, own_share, rng);
  at::Tensor mixed = image_BCYX.clone();
  const auto cut = [&](const at::Tensor& image) {
    return image.narrow(2, box.y_begin, box.y_end - box.y_begin).narrow(3, box.x_begin, box.x_end - box.x_begin);
  };
  cut(mixed).copy_(cut(image_BCYX.roll(1, 0)));
  const auto num_cut = static_cast<double>((box.x_end - box.x_begin) * (box.y_end - box.y_begin));
  return {.image_BCYX = mixed,
          .other_label_B = label_B.roll(1, 0),
          .own_share = 1 - num_cut / static_cast<double>(width * height)};
}

}  // namespace

double draw_beta(double alpha, core::CounterRng& rng) {
  const double first = draw_log_gamma(alpha, rng), second = draw_log_gamma(alpha, rng);
  return 1 / (1 + std::exp(second - first));
}

CutBox draw_cut_box(int64_t width, int64_t height, double own_share, core::CounterRng& rng) {
  const auto x = static_cast<int64_t>(rng.below(static_cast<uint64_t>(width))),
             y = static_cast<int64_t>(rng.below(static_cast<uint64_t>(height)));
  const double half_side = 0.5 * std::sqrt(1 - own_share);
  const auto half_width = static_cast<int64_t>(half_side * static_cast<double>(width)),
             half_height = static_cast<int64_t>(half_side * static_cast<double>(height));
  return {.x_begin = std::max<int64_t>(x - half_width, 0),
          .x_end = std::min(x + half_width, width),
          .y_begin = std::max<int64_t>(y - half_height, 0),
          .y_end = std::min(y + half_height, height)};
}

MixedSamples mix_samples(const at::Tensor& image_BCYX, const at::Tensor& label_B, const MixOptions& options,
                         uint64_t random_key) {
  if (options.mixup_alpha == 0 && options.cutmix_alpha == 0) return {.image_BCYX = image_BCYX};
  nn::refuse_recording("mixing of samples");
  core::CounterRng rng(core::stream_key({random_key, kMixStream}));
  const bool has_both = options.mixup_alpha > 0 && options.cutmix_alpha > 0;
  const bool is_cutmix = has_both ? rng.uniform() < 0.5 : options.cutmix_alpha > 0;
  const double own_share = draw_beta(is_cutmix ? options.cutmix_alpha : options.mixup_alpha, rng);
  return is_cutmix ? cutmix(image_BCYX, label_B, own_share, rng) : mixup(image_BCYX, label_B, own_share);
}

}  // namespace lockstep::models
