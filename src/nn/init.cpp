#include "nn/init.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "core/error.h"
#include "core/rng.h"

namespace lockstep::nn {
namespace {

using config::InitLaw;
using config::ParamSpec;

constexpr int64_t kLanes = 4;  // elements drawn from one Philox block

/// Uniform in [-1, 1), 24 bits: exact in fp32.
float to_signed_unit(uint32_t word) { return static_cast<float>(static_cast<int32_t>(word) >> 8) * 0x1.0p-23f; }

std::array<float, 2> normal_pair(uint32_t a, uint32_t b) {  // Box-Muller; 32 bits of radius reach 6.6 deviations
  const float radius = std::sqrt(-2.0f * std::log((static_cast<float>(a) + 1.0f) * 0x1.0p-32f));
  const float angle = static_cast<float>(b) * static_cast<float>(2.0 * std::numbers::pi * 0x1.0p-32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::array<float, kLanes> draw_block(const InitLaw& law, uint64_t key, uint64_t block) {
  const auto words = core::philox(key, block);
  if (law.kind == InitLaw::Kind::kUniform) {
    const auto half = static_cast<float>(law.deviation);
    return {half * to_signed_unit(words[0]), half * to_signed_unit(words[1]), half * to_signed_unit(words[2]),
            half * to_signed_unit(words[3])};
  }
  const auto mean = static_cast<float>(law.mean), deviation = static_cast<float>(law.deviation);
  const auto first = normal_pair(words[0], words[1]), second = normal_pair(words[2], words[3]);
  return {mean + deviation * first[0], mean + deviation * first[1], mean + deviation * second[0],
          mean + deviation * second[1]};
}

void fill_serial(std::span<float> out, const InitLaw& law, uint64_t key, int64_t first_index) {
  int64_t index = first_index;
  const int64_t end = first_index + std::ssize(out);
  while (index < end) {
    const int64_t block = index / kLanes, block_end = std::min(end, (block + 1) * kLanes);
    const auto values = draw_block(law, key, static_cast<uint64_t>(block));
    for (; index < block_end; ++index)
      out[static_cast<size_t>(index - first_index)] = values[static_cast<size_t>(index % kLanes)];
  }
}

float sin_cos_element(const InitLaw& law, int64_t index) {
  const auto side = static_cast<int64_t>(law.mean), width = static_cast<int64_t>(law.deviation), quarter = width / 4;
  const int64_t row = index / width, column = index % width, cell = row - 1;
  if (row == 0) return 0.0f;
  const int64_t place = column < width / 2 ? cell % side : cell / side, part = column % (width / 2);
  const double frequency = std::pow(10000.0, -static_cast<double>(part % quarter) / static_cast<double>(quarter));
  const double angle = static_cast<double>(place) * frequency;
  return static_cast<float>(part < quarter ? std::sin(angle) : std::cos(angle));
}

std::unordered_map<std::string, const ParamSpec*> by_name(const std::vector<ParamSpec>& specs) {
  std::unordered_map<std::string, const ParamSpec*> found;
  for (const ParamSpec& spec : specs) found.emplace(spec.name, &spec);
  return found;
}

/// Parameters, and the buffers that have a spec.
std::vector<NamedTensor> tensors_to_fill(Module& module,
                                         const std::unordered_map<std::string, const ParamSpec*>& specs) {
  std::vector<NamedTensor> tensors = module.named_parameters();
  for (NamedTensor& buffer : module.named_buffers())
    if (specs.contains(buffer.name)) tensors.push_back(std::move(buffer));
  return tensors;
}

}  // namespace

void fill_range(std::span<float> out, const InitLaw& law, uint64_t seed, std::string_view name, int64_t first_index) {
  switch (law.kind) {
    case InitLaw::Kind::kZeros: return std::fill(out.begin(), out.end(), 0.0f), void();
    case InitLaw::Kind::kOnes: return std::fill(out.begin(), out.end(), 1.0f), void();
    case InitLaw::Kind::kConstant: return std::fill(out.begin(), out.end(), static_cast<float>(law.mean)), void();
    case InitLaw::Kind::kSinCos2d:
      for (size_t i = 0; i < out.size(); ++i) out[i] = sin_cos_element(law, first_index + static_cast<int64_t>(i));
      return;
    case InitLaw::Kind::kNormal:
    case InitLaw::Kind::kUniform: break;
  }
  const uint64_t key = core::stream_key(seed, name);
  constexpr int64_t kSerialElements = 1 << 18;
  const int64_t count = std::ssize(out);
  const int64_t num_threads = std::clamp<int64_t>(count / kSerialElements, 1, at::get_num_threads());
  const int64_t part = (count + num_threads - 1) / num_threads;
  std::vector<std::jthread> helpers;
  for (int64_t begin = part; begin < count; begin += part) {
    const auto piece = out.subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(part, count - begin)));
    const auto fill = [piece, &law, key, start = first_index + begin] { fill_serial(piece, law, key, start); };
    try {
      helpers.emplace_back(fill);
    } catch (const std::system_error&) {  // no more threads here
      fill();
    }
  }
  fill_serial(out.subspan(0, static_cast<size_t>(std::min(part, count))), law, key, first_index);
}

void initialize_slice(at::Tensor& tensor, const ParamSpec& spec, uint64_t seed, int64_t dim, int64_t begin) {
  LOCKSTEP_CHECK(
      dim >= 0 && dim < tensor.dim() && begin >= 0 && begin + tensor.size(dim) <= spec.shape[static_cast<size_t>(dim)],
      "{}: dim={} begin={}", spec.name, dim, begin);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < dim; ++i) outer *= tensor.size(i);
  for (int64_t i = dim + 1; i < tensor.dim(); ++i) inner *= tensor.size(i);
  at::Tensor host = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  const int64_t run = tensor.size(dim) * inner, full_run = spec.shape[static_cast<size_t>(dim)] * inner;
  for (int64_t i = 0; i < outer; ++i)
    fill_range({host.mutable_data_ptr<float>() + i * run, static_cast<size_t>(run)}, spec.init, seed, spec.name,
               i * full_run + begin * inner);
  tensor.detach().copy_(host);
}

void initialize(at::Tensor& tensor, const ParamSpec& spec, uint64_t seed) {
  LOCKSTEP_CHECK(tensor.sizes() == at::IntArrayRef(spec.shape), "{}: {} elements, expected {}", spec.name,
                 tensor.numel(), spec.numel());
  const auto count = static_cast<size_t>(tensor.numel());
  if (tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous())
    return fill_range({tensor.mutable_data_ptr<float>(), count}, spec.init, seed, spec.name, 0);
  at::Tensor host = at::empty(tensor.sizes(), at::TensorOptions(at::kFloat));
  fill_range({host.mutable_data_ptr<float>(), count}, spec.init, seed, spec.name, 0);
  tensor.detach().copy_(host);
}

void initialize(Module& module, const std::vector<ParamSpec>& specs, uint64_t seed) {
  initialize_shard(module, specs, seed, {});
}

void initialize_shard(Module& module, const std::vector<ParamSpec>& specs, uint64_t seed, const ShardCtx& shard) {
  const auto found = by_name(specs);
  std::vector<NamedTensor> tensors = tensors_to_fill(module, found);
  LOCKSTEP_CHECK(tensors.size() == specs.size(), "tensors={} specs={}", tensors.size(), specs.size());
  for (NamedTensor& entry : tensors) {
    const auto spec = found.find(entry.name);
    LOCKSTEP_CHECK(spec != found.end(), "no spec of '{}'", entry.name);
    const auto& split_dim = spec->second->split_dim;
    if (shard.is_alone() || !split_dim)
      initialize(*entry.tensor, *spec->second, seed);
    else
      initialize_slice(*entry.tensor, *spec->second, seed, *split_dim, shard.rank() * entry.tensor->size(*split_dim));
  }
}

}  // namespace lockstep::nn
