#pragma once
#include <ATen/core/TensorBody.h>

#include <string>

#include "comm/comm.h"

namespace lockstep::bench {

/// What the matrix products of a training precision multiply, by the names of `bench op --precisions`: "fp32", ...
std::string product_type(const std::string& precision, at::Device device);

/// The type of tensors that `bench op` calls so.
at::ScalarType scalar_type_of(const std::string& type);

/// The highest rate of square matrix products in TFLOP/s that one device of these ranks reaches, all of them at the
/// same time and the slowest counting, as `bench op --ops gemm` measures it: medians, over sizes that double until a
/// product takes long enough to show it. All ranks call; takes about a second.
double measure_gemm_tflops(comm::Comm& world, at::Device device, at::ScalarType type);

}  // namespace lockstep::bench
