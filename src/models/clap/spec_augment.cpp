#include "models/clap/spec_augment.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "core/rng.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kStream = 0x73706563;  // "spec": apart from other draws under the same key
constexpr int kStripes = 2;
constexpr int64_t kFrameStripe = 64, kMelStripe = 8;

void blank_stripes(at::Tensor plane, int64_t dim, int64_t widest, core::CounterRng& rng) {
  const int64_t size = plane.size(dim);
  for (int stripe = 0; stripe < kStripes; ++stripe) {
    const auto width = static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::min(widest, size))));
    const auto begin = static_cast<int64_t>(rng.below(static_cast<uint64_t>(size - width)));
    plane.narrow(dim, begin, width).zero_();
  }
}

}  // namespace

at::Tensor spec_augment_mask(int64_t num_clips, int64_t mel_bins, int64_t frames, uint64_t random_key) {
  at::Tensor mask_BMF = at::ones({num_clips, mel_bins, frames}, at::TensorOptions(at::kFloat));
  for (int64_t clip = 0; clip < num_clips; ++clip) {
    core::CounterRng rng(core::stream_key({random_key, kStream, static_cast<uint64_t>(clip)}));
    blank_stripes(mask_BMF[clip], 1, kFrameStripe, rng);
    blank_stripes(mask_BMF[clip], 0, kMelStripe, rng);
  }
  return mask_BMF;
}

}  // namespace lockstep::models
