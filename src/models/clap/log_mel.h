#pragma once
#include <ATen/core/TensorBody.h>

#include "config/clap_shape.h"

namespace lockstep::models {

/// Weights of the mel filters, [frequency bins, mel bins], fp32: triangles on Slaney's mel scale (Auditory Toolbox,
/// 1998: linear below 1 kHz, logarithmic above), each of area 1 over Hz. librosa's default.
at::Tensor slaney_mel_filters(const config::AudioShape& shape);

/// Log-mel spectrogram in decibels: Hann window, reflected borders, power, mel filters, 10 log10(max(x, 1e-10)).
/// Computed in fp32 outside autocast and without gradient. Equal to the reference's convolution with DFT kernels, by
/// FFT.
class LogMel {
 public:
  LogMel(const config::AudioShape& shape, const at::Device& device);
  /// [B, S] samples -> [B, M, frames]. DataError where S is shorter than half a window or gives more frames than the
  /// tower takes.
  at::Tensor operator()(const at::Tensor& audio_BS) const;

 private:
  config::AudioShape shape_;
  at::Tensor window_, mel_MF_;
};

}  // namespace lockstep::models
