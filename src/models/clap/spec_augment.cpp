#include "models/clap/spec_augment.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "core/rng.h"
#include "nn/work_recorder.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kStream = 0x73706563;  // "spec": apart from other draws under the same key
constexpr int kStripes = 2;
constexpr int64_t kFrameStripe = 64, kMelStripe = 8;

/// Begin and end of two stripes.
int64_t* draw_stripes(int64_t* ends, int64_t size, int64_t widest, core::CounterRng& rng) {
  for (int stripe = 0; stripe < kStripes; ++stripe) {
    const auto width = static_cast<int64_t>(rng.below(static_cast<uint64_t>(std::min(widest, size))));
    const auto begin = static_cast<int64_t>(rng.below(static_cast<uint64_t>(size - width)));
    *ends++ = begin;
    *ends++ = begin + width;
  }
  return ends;
}

/// Whether each of `size` places lies in a stripe: [B, size].
at::Tensor painted(const at::Tensor& ends_BE, int64_t first, int64_t size) {
  const at::Tensor place_1S = at::arange(size, ends_BE.options()).unsqueeze(0);
  at::Tensor is_blank_BS;
  for (int64_t stripe = 0; stripe < kStripes; ++stripe) {
    const at::Tensor begin_B1 = ends_BE.narrow(1, first + 2 * stripe, 1),
                     end_B1 = ends_BE.narrow(1, first + 2 * stripe + 1, 1);
    const at::Tensor is_within_BS = place_1S.ge(begin_B1).logical_and_(place_1S.lt(end_B1));
    is_blank_BS = is_blank_BS.defined() ? is_blank_BS.logical_or_(is_within_BS) : is_within_BS;
  }
  return is_blank_BS;
}

}  // namespace

at::Tensor spec_augment_blanks(int64_t num_clips, int64_t mel_bins, int64_t frames, uint64_t random_key,
                               const at::Device& device) {
  nn::refuse_recording("SpecAugment");
  constexpr int64_t kEndsOfClip = 4 * kStripes;
  const at::Tensor host_BE =
      at::empty({num_clips, kEndsOfClip}, at::TensorOptions(at::kLong).pinned_memory(!device.is_cpu()));
  auto* ends = host_BE.mutable_data_ptr<int64_t>();
  for (int64_t clip = 0; clip < num_clips; ++clip) {
    core::CounterRng rng(core::stream_key({random_key, kStream, static_cast<uint64_t>(clip)}));
    ends = draw_stripes(ends, frames, kFrameStripe, rng);
    ends = draw_stripes(ends, mel_bins, kMelStripe, rng);
  }
  const at::Tensor ends_BE = host_BE.to(device, /*non_blocking=*/true);
  return painted(ends_BE, 0, frames).unsqueeze(1).logical_or(painted(ends_BE, 2 * kStripes, mel_bins).unsqueeze(2));
}

}  // namespace lockstep::models
