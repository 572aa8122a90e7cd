#include "train/batch_mover.h"

#include <ATen/ATen.h>

#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/hash.h"

namespace lockstep::train {
namespace {

/// A hash of each of the first `num_rows` rows of `values`.
template <typename T>
std::vector<std::string> keys_of_rows(const std::vector<T>& values, int64_t num_rows, int64_t row_size) {
  std::vector<std::string> keys;
  const auto rows = std::as_bytes(std::span(values));
  const size_t row_bytes = static_cast<size_t>(row_size) * sizeof(T);
  for (size_t row = 0; row < static_cast<size_t>(num_rows); ++row)
    keys.push_back(core::xxh3_hex(rows.subspan(row * row_bytes, row_bytes)));
  return keys;
}

}  // namespace

BatchMover::BatchMover(at::Device device, at::ScalarType dtype, const std::array<float, 3>& mean,
                       const std::array<float, 3>& std, TextPlace text_place)
    : stream_(device), dtype_(dtype), text_place_(text_place) {
  std::array<float, 3> scale{}, shift{};
  for (size_t c = 0; c < 3; ++c) {
    scale[c] = 1.0f / (255.0f * std[c]);
    shift[c] = -mean[c] / std[c];
  }
  scale_C_ = at::tensor(scale, at::kFloat).to(device).view({3, 1, 1});
  shift_C_ = at::tensor(shift, at::kFloat).to(device).view({3, 1, 1});
}

models::Batch BatchMover::to_device(const data::HostBatch& host, Texts texts) const {
  return stream_.run([&] { return make(host, texts); });
}

at::Tensor BatchMover::ids(const data::HostBatch& host) const {
  const int64_t B = host.num_samples, T = host.context_length;
  LOCKSTEP_CHECK(static_cast<int64_t>(host.text_BT.size()) >= B * T, "ids={} B={} T={}", host.text_BT.size(), B, T);
  const auto host_BT = at::from_blob(const_cast<int32_t*>(host.text_BT.data()), {B, T}, at::kInt);
  return (text_place_ == TextPlace::kHost ? host_BT : stream_.staged(host_BT)).to(at::kLong);
}

/// Bytes travel as they are: uint8 is a quarter of the floats.
models::Batch BatchMover::make(const data::HostBatch& host, Texts texts) const {
  models::Batch batch;
  batch.num_samples = host.num_samples;
  const int64_t B = host.num_samples, Y = host.image_pixels;
  if (Y > 0) {
    LOCKSTEP_CHECK(static_cast<int64_t>(host.image_BYXC.size()) >= B * Y * Y * 3, "bytes={} B={} Y={}",
                   host.image_BYXC.size(), B, Y);
    const auto bytes_BYXC = at::from_blob(const_cast<uint8_t*>(host.image_BYXC.data()), {B, Y, Y, 3}, at::kByte);
    const auto image_BCYX =
        stream_.staged(bytes_BYXC).permute({0, 3, 1, 2}).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    batch.image_BCYX = image_BCYX.mul_(scale_C_).add_(shift_C_).to(dtype_);
    if (keys_images_) batch.image_keys_B = keys_of_rows(host.image_BYXC, B, Y * Y * 3);
  }
  if (const int64_t S = host.clip_samples; S > 0) {
    LOCKSTEP_CHECK(static_cast<int64_t>(host.audio_BS.size()) >= B * S, "values={} B={} S={}", host.audio_BS.size(), B,
                   S);
    const auto audio_BS = stream_.staged(at::from_blob(const_cast<float*>(host.audio_BS.data()), {B, S}, at::kFloat));
    batch.audio_BS = device().is_cpu() ? audio_BS.clone() : audio_BS;  // stays fp32: the spectrogram is computed in it
  }
  if (host.context_length > 0 && texts == Texts::kMove) {
    batch.text_BT = ids(host);
    if (keys_texts_) batch.text_keys_B = keys_of_rows(host.text_BT, B, host.context_length);
  }
  if (!host.label_B.empty())
    batch.label_B = stream_.staged(at::from_blob(const_cast<int64_t*>(host.label_B.data()), {B}, at::kLong)).clone();
  return batch;
}

}  // namespace lockstep::train
