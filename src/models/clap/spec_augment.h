#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>

namespace lockstep::models {

/// SpecAugment (Park et al. 2019) as HTSAT trains with it: of each spectrogram two stripes of up to 63 frames and two
/// of up to 7 mel bins are blanked. True there: [clips, mel bins, frames] on `device`, where the stripes are painted;
/// only their ends travel. Draws are a function of (random_key, clip).
at::Tensor spec_augment_blanks(int64_t num_clips, int64_t mel_bins, int64_t frames, uint64_t random_key,
                               const at::Device& device);

}  // namespace lockstep::models
