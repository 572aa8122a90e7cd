// Letters: B clips, S samples, M mel bins, F frequency bins.
#include "models/clap/log_mel.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stft.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace lockstep::models {
namespace {

constexpr double kLinearHz = 200.0 / 3.0;  // per mel, below the break
constexpr double kBreakHz = 1000.0, kBreakMel = kBreakHz / kLinearHz;
const double kLogStep = std::log(6.4) / 27.0;  // per mel, above

double to_mel(double hz) { return hz < kBreakHz ? hz / kLinearHz : kBreakMel + std::log(hz / kBreakHz) / kLogStep; }
double to_hz(double mel) {
  return mel < kBreakMel ? mel * kLinearHz : kBreakHz * std::exp(kLogStep * (mel - kBreakMel));
}

}  // namespace

at::Tensor slaney_mel_filters(const config::AudioShape& shape) {
  const int64_t num_bins = shape.fft_size / 2 + 1;
  const double low = to_mel(shape.low_hz), high = to_mel(shape.high_hz);
  std::vector<double> corners_hz;
  for (int64_t i = 0; i < shape.mel_bins + 2; ++i)
    corners_hz.push_back(to_hz(low + (high - low) * static_cast<double>(i) / static_cast<double>(shape.mel_bins + 1)));
  at::Tensor weights_FM = at::empty({num_bins, shape.mel_bins}, at::TensorOptions(at::kFloat));
  float* out = weights_FM.mutable_data_ptr<float>();
  for (int64_t bin = 0; bin < num_bins; ++bin) {
    const double hz = static_cast<double>(bin * shape.sample_rate) / static_cast<double>(shape.fft_size);
    for (size_t mel = 0; mel < static_cast<size_t>(shape.mel_bins); ++mel) {
      const double left = corners_hz[mel], middle = corners_hz[mel + 1], right = corners_hz[mel + 2];
      const double height = std::max(0.0, std::min((hz - left) / (middle - left), (right - hz) / (right - middle)));
      *out++ = static_cast<float>(height * 2.0 / (right - left));
    }
  }
  return weights_FM;
}

LogMel::LogMel(const config::AudioShape& shape, const at::Device& device)
    : shape_(shape),
      window_(
          at::hann_window(shape.fft_size, /*periodic=*/true, at::TensorOptions(at::kDouble)).to(at::kFloat).to(device)),
      mel_MF_(slaney_mel_filters(shape).t().contiguous().to(device)) {}

at::Tensor LogMel::operator()(const at::Tensor& audio_BS) const {
  const int64_t samples = audio_BS.size(1);
  if (samples <= shape_.fft_size / 2 || shape_.frames(samples) > shape_.image_frames())
    throw DataError(fmt::format("models: a clip of {} samples, expected {} to {}", samples, shape_.fft_size / 2 + 1,
                                shape_.image_frames() * shape_.hop_samples - 1),
                    "pad short clips, cut long ones (--audio-fill, --audio-trunc)");
  const c10::NoGradGuard no_grad;
  const at::NoTF32Guard in_fp32;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::Tensor spectrum =
      at::stft(audio_BS.to(at::kFloat), shape_.fft_size, shape_.hop_samples, shape_.fft_size, window_,
               /*center=*/true, "reflect", /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
  const at::Tensor power = at::view_as_real(spectrum).square().sum(-1);  // [B, F, frames]
  return at::matmul(mel_MF_, power).clamp_min_(1e-10).log10_().mul_(10.0);
}

}  // namespace lockstep::models
