#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <span>

#include "config/param_spec.h"
#include "nn/module.h"
#include "nn/shard.h"

namespace lockstep::nn {

/// Elements first_index, first_index + 1, ... of the parameter `name` (row-major over its full shape) under `law`. Each
/// element is a function of (seed, name, element index) alone.
void fill_range(std::span<float> out, const config::InitLaw& law, uint64_t seed, std::string_view name,
                int64_t first_index);

/// Fills a whole parameter or buffer in place: any dtype, device and strides.
void initialize(at::Tensor& tensor, const config::ParamSpec& spec, uint64_t seed);

/// Fills the slice [begin, begin + tensor.size(dim)) along `dim` of the parameter, as a rank holds it. Same elements as
/// of the whole one.
void initialize_slice(at::Tensor& tensor, const config::ParamSpec& spec, uint64_t seed, int64_t dim, int64_t begin);

/// Every parameter of a module, and every buffer that has a spec. Names and shapes must be those of `specs` (an
/// invariant).
void initialize(Module& module, const std::vector<config::ParamSpec>& specs, uint64_t seed);

/// The same for one of the ranks that share each layer: of a parameter with a split dim the rank's even part of it, so
/// that ranks together hold what one rank alone would.
void initialize_shard(Module& module, const std::vector<config::ParamSpec>& specs, uint64_t seed,
                      const ShardCtx& shard);

}  // namespace lockstep::nn
