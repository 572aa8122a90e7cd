#include "data/pictures/augment.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"
#include "data/text/name_table.h"

namespace lockstep::data {
namespace {

using Op = AugmentOp;

constexpr int kNumBins = 31, kAutoAugmentBins = 10;
constexpr int kEraseAttempts = 10;
constexpr int kNoBin = -1;

/// An operation of a learned pair: how often it is done, and at which of ten magnitudes.
struct LearnedOp {
  Op op;
  double probability;
  int bin = kNoBin;
};
/// AutoAugment's policy for ImageNet (Cubuk et al. 2019, table 9; torchvision's order).
constexpr LearnedOp kImageNetPolicy[][2] = {
    {{Op::kPosterize, 0.4, 8}, {Op::kRotate, 0.6, 9}}, {{Op::kSolarize, 0.6, 5}, {Op::kAutoContrast, 0.6}},
    {{Op::kEqualize, 0.8}, {Op::kEqualize, 0.6}},      {{Op::kPosterize, 0.6, 7}, {Op::kPosterize, 0.6, 6}},
    {{Op::kEqualize, 0.4}, {Op::kSolarize, 0.2, 4}},   {{Op::kEqualize, 0.4}, {Op::kRotate, 0.8, 8}},
    {{Op::kSolarize, 0.6, 3}, {Op::kEqualize, 0.6}},   {{Op::kPosterize, 0.8, 5}, {Op::kEqualize, 1.0}},
    {{Op::kRotate, 0.2, 3}, {Op::kSolarize, 0.6, 8}},  {{Op::kEqualize, 0.6}, {Op::kPosterize, 0.4, 6}},
    {{Op::kRotate, 0.8, 8}, {Op::kColor, 0.4, 0}},     {{Op::kRotate, 0.4, 9}, {Op::kEqualize, 0.6}},
    {{Op::kEqualize, 0.0}, {Op::kEqualize, 0.8}},      {{Op::kInvert, 0.6}, {Op::kEqualize, 1.0}},
    {{Op::kColor, 0.6, 4}, {Op::kContrast, 1.0, 8}},   {{Op::kRotate, 0.8, 8}, {Op::kColor, 1.0, 2}},
    {{Op::kColor, 0.8, 8}, {Op::kSolarize, 0.8, 7}},   {{Op::kSharpness, 0.4, 7}, {Op::kInvert, 0.6}},
    {{Op::kShearX, 0.6, 5}, {Op::kEqualize, 1.0}},     {{Op::kColor, 0.4, 0}, {Op::kEqualize, 0.6}},
    {{Op::kEqualize, 0.4}, {Op::kSolarize, 0.2, 4}},   {{Op::kSolarize, 0.6, 5}, {Op::kAutoContrast, 0.6}},
    {{Op::kInvert, 0.6}, {Op::kEqualize, 1.0}},        {{Op::kColor, 0.6, 4}, {Op::kContrast, 1.0, 8}},
    {{Op::kEqualize, 0.8}, {Op::kEqualize, 0.6}},
};

/// What RandAugment and TrivialAugment draw from.
constexpr Op kDrawnOps[] = {Op::kIdentity,  Op::kShearX,     Op::kShearY,       Op::kTranslateX, Op::kTranslateY,
                            Op::kRotate,    Op::kBrightness, Op::kColor,        Op::kContrast,   Op::kSharpness,
                            Op::kPosterize, Op::kSolarize,   Op::kAutoContrast, Op::kEqualize};

/// torch.linspace(low, high, num_bins)[bin], in single precision.
double spaced(float low, float high, int bin, int num_bins) {
  const float step = (high - low) / static_cast<float>(num_bins - 1);
  return bin < num_bins / 2 ? low + step * static_cast<float>(bin)
                            : high - step * static_cast<float>(num_bins - 1 - bin);
}

bool is_signed(Op op) { return op >= Op::kShearX && op <= Op::kSharpness; }

/// The magnitude of a bin without its sign. `is_wide`: the ranges of TrivialAugment Wide.
double magnitude_of(Op op, int bin, int num_bins, bool is_wide, int width, int height) {
  const auto up_to = [&](double high) { return spaced(0.0f, static_cast<float>(high), bin, num_bins); };
  switch (op) {
    case Op::kShearX:
    case Op::kShearY: return up_to(is_wide ? 0.99 : 0.3);
    case Op::kTranslateX: return up_to(is_wide ? 32.0 : 150.0 / 331.0 * width);
    case Op::kTranslateY: return up_to(is_wide ? 32.0 : 150.0 / 331.0 * height);
    case Op::kRotate: return up_to(is_wide ? 135.0 : 30.0);
    case Op::kBrightness:
    case Op::kColor:
    case Op::kContrast:
    case Op::kSharpness: return up_to(is_wide ? 0.99 : 0.9);
    case Op::kPosterize: {
      const auto bins_per_bit = static_cast<float>((num_bins - 1) / (is_wide ? 6.0 : 4.0));
      return 8 - std::nearbyint(static_cast<float>(bin) / bins_per_bit);
    }
    case Op::kSolarize: return spaced(255.0f, 0.0f, bin, num_bins);
    default: return 0;
  }
}

std::vector<AugmentStep> plan_learned(int width, int height, core::CounterRng& rng) {
  const auto& pair = kImageNetPolicy[rng.below(std::size(kImageNetPolicy))];
  std::vector<AugmentStep> steps;
  for (const LearnedOp& learned : pair) {
    const bool is_done = rng.uniform() <= learned.probability;
    const bool is_negative = rng.below(2) == 0 && is_signed(learned.op);
    if (!is_done) continue;
    const double magnitude =
        learned.bin == kNoBin ? 0 : magnitude_of(learned.op, learned.bin, kAutoAugmentBins, false, width, height);
    steps.push_back({learned.op, is_negative ? -magnitude : magnitude});
  }
  return steps;
}

/// `bin` < 0: drawn, too.
AugmentStep draw_step(int bin, bool is_wide, int width, int height, core::CounterRng& rng) {
  const Op op = kDrawnOps[rng.below(std::size(kDrawnOps))];
  const int used = bin < 0 ? static_cast<int>(rng.below(kNumBins)) : bin;
  const double magnitude = magnitude_of(op, used, kNumBins, is_wide, width, height);
  return {op, is_signed(op) && rng.below(2) == 1 ? -magnitude : magnitude};
}

}  // namespace

AugmentPolicy parse_augment_policy(const std::string& name) {
  static constexpr NameTable<AugmentPolicy, 4> kNames{{{"none", AugmentPolicy::kNone},
                                                       {"imagenet", AugmentPolicy::kAutoAugment},
                                                       {"ra", AugmentPolicy::kRandAugment},
                                                       {"ta_wide", AugmentPolicy::kTrivialAugment}}};
  return parse_name(name, kNames, "augmentation policy");
}

void check_augment(const AugmentConfig& config) {
  const auto check = [](const char* what, double seen, double low, double high) {
    if (!(seen >= low && seen <= high))
      throw UsageError(fmt::format("data: {} is {}, expected {} to {}", what, seen, low, high));
  };
  check("the number of augmentations of a picture", config.num_ops, 0, 16);
  check("the magnitude of augmentation", config.magnitude, 0, kNumBins - 1);
  for (const double change : config.jitter) check("a change of colours", change, 0, 1e6);
  check("the change of hue", config.jitter[3], 0, 0.5);
  check("the probability of changed colours", config.jitter_probability, 0, 1);
  check("the probability of a grey picture", config.grey_probability, 0, 1);
  check("the probability of erasing", config.erase_probability, 0, 1);
}

std::vector<AugmentStep> plan_augment(const AugmentConfig& config, int width, int height, uint64_t rng_key) {
  core::CounterRng rng(rng_key);
  std::vector<AugmentStep> steps;
  switch (config.policy) {
    case AugmentPolicy::kNone: break;
    case AugmentPolicy::kAutoAugment: return plan_learned(width, height, rng);
    case AugmentPolicy::kRandAugment:
      for (int i = 0; i < config.num_ops; ++i) steps.push_back(draw_step(config.magnitude, false, width, height, rng));
      break;
    case AugmentPolicy::kTrivialAugment: steps.push_back(draw_step(-1, true, width, height, rng)); break;
  }
  return steps;
}

std::vector<AugmentStep> plan_colours(const AugmentConfig& config, uint64_t rng_key) {
  core::CounterRng rng(core::stream_key(rng_key, "colours"));
  std::vector<AugmentStep> steps;
  if (config.jitter_probability > 0 && rng.uniform() < config.jitter_probability) {
    constexpr std::array kOps{Op::kBrightness, Op::kContrast, Op::kColor, Op::kHue};
    for (size_t i = 0; i < kOps.size(); ++i) {
      const double change = config.jitter[i];
      if (change == 0) continue;
      const double low = kOps[i] == Op::kHue ? -change : std::max(-1.0, -change);  // a factor of at least 0
      steps.push_back({kOps[i], rng.uniform(low, change)});
    }
    for (size_t left = steps.size(); left > 1; --left) std::swap(steps[left - 1], steps[rng.below(left)]);
  }
  if (config.grey_probability > 0 && rng.uniform() < config.grey_probability) steps.push_back({Op::kColor, -1.0});
  return steps;
}

Region plan_erase(const AugmentConfig& config, int width, int height, uint64_t rng_key) {
  core::CounterRng rng(core::stream_key(rng_key, "erase"));
  if (!(rng.uniform() < config.erase_probability)) return {};
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < kEraseAttempts; ++attempt) {
    const double target = area * rng.uniform(0.02, 0.33);
    const double ratio = std::exp(rng.uniform(std::log(0.3), std::log(3.3)));
    const int h = static_cast<int>(std::nearbyint(std::sqrt(target * ratio)));
    const int w = static_cast<int>(std::nearbyint(std::sqrt(target / ratio)));
    if (h >= height || w >= width) continue;
    const int y = static_cast<int>(rng.below(static_cast<uint64_t>(height - h) + 1));
    const int x = static_cast<int>(rng.below(static_cast<uint64_t>(width - w) + 1));
    return {x, y, w, h};
  }
  return {};
}

void augment(const AugmentConfig& config, uint64_t rng_key, PixelRows picture, AugmentScratch& scratch) {
  for (const AugmentStep& step : plan_augment(config, picture.width, picture.height, rng_key))
    apply_augment_op(step.op, step.magnitude, config.interpolates, picture, scratch);
  for (const AugmentStep& step : plan_colours(config, rng_key))
    apply_augment_op(step.op, step.magnitude, config.interpolates, picture, scratch);
  const Region erased = plan_erase(config, picture.width, picture.height, rng_key);
  for (int y = erased.y; y < erased.y + erased.height; ++y)
    for (int x = erased.x; x < erased.x + erased.width; ++x)
      std::copy(config.erase_color.begin(), config.erase_color.end(),
                picture.rgb_YXC.begin() + (static_cast<ptrdiff_t>(y) * picture.width + x) * 3);
}

}  // namespace lockstep::data
