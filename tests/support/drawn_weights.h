// The rule by which ref/make_imagenet_goldens.py makes weights and pictures that are too large for a file.
#pragma once
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <string>

#include "nn/module.h"

namespace lockstep::tests {

/// zlib's CRC-32.
inline uint32_t crc32_of(const std::string& text) {
  uint32_t crc = ~0u;
  for (const char c : text) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/// Numbers from shift - scale to shift + scale by a hash of the index and the name: drawn() of the script, bit for bit.
inline at::Tensor drawn(const std::string& name, at::IntArrayRef shape, double scale = 1.0, double shift = 0.0) {
  const at::Tensor out = at::empty(shape, at::kFloat);
  auto* data = out.mutable_data_ptr<float>();
  const uint32_t first = crc32_of(name);
  for (int64_t i = 0; i < out.numel(); ++i) {
    uint32_t word = static_cast<uint32_t>(i) + first;
    word = (word ^ (word >> 16)) * 0x45d9f3bu;
    word = (word ^ (word >> 15)) * 0x2c1b3c6du;
    word = word ^ (word >> 16);
    data[i] = static_cast<float>((static_cast<double>(word) / 0x1p31 - 1) * scale + shift);
  }
  return out;
}

/// draw_weights() of the script.
inline void draw_weights(nn::Module& module) {
  const c10::NoGradGuard no_grad;
  const auto fill = [](const comm::NamedTensor& entry) {
    const std::string& name = entry.name;
    at::Tensor& value = *entry.tensor;
    if (name.ends_with("num_batches_tracked")) return;
    double scale = 1, shift = 0;
    if (name.ends_with("running_var"))
      scale = 0.5, shift = 1.0;
    else if (name.ends_with("running_mean") || name.ends_with("bias"))
      scale = 0.1;
    else if (value.dim() == 1)
      scale = 0.3, shift = 0.7;
    else if (value.dim() == 3)
      scale = 0.5;
    else
      scale = std::sqrt(3.0 / static_cast<double>(value[0].numel()));
    value.detach().copy_(drawn(name, value.sizes(), scale, shift));
  };
  for (const auto& entry : module.named_parameters()) fill(entry);
  for (const auto& entry : module.named_buffers()) fill(entry);
}

/// calm_blocks() of the script: roundings would grow a hundredfold in training otherwise.
inline void calm_blocks(nn::Module& module) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : module.named_parameters())
    if (name.ends_with("bn3.weight")) tensor->detach().mul_(0.1);
}

/// pictures() of the script.
inline at::Tensor drawn_pictures(const std::string& name, int64_t count, int64_t pixels) {
  return drawn("picture." + name, {count, 3, pixels, pixels}, 2.0);
}

}  // namespace lockstep::tests
