#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace lockstep::bench {

class OpKernel;

/// What the matrix products of a training precision multiply, by the names of `bench op --precisions`: "fp32", ...
std::string product_type(const std::string& precision, at::Device device);

/// The type of tensors that `bench op` calls so.
at::ScalarType scalar_type_of(const std::string& type);

/// Square matrix products of one type that all ranks compute at the same time, the slowest counting, as `bench op --ops
/// gemm` measures them.
class SquareProducts {
 public:
  /// Looks for the size with the highest rate, over sizes that double until a product takes long enough to show it. All
  /// ranks call; takes about a second.
  SquareProducts(comm::Comm& world, at::Device device, at::ScalarType type);
  ~SquareProducts();
  SquareProducts(const SquareProducts&) = delete;
  SquareProducts& operator=(const SquareProducts&) = delete;

  /// TFLOP/s of a device when the sizes were compared.
  double highest_tflops() const { return highest_tflops_; }
  /// TFLOP/s of a device now, with that size: over about a third of a second, as a step takes the processor as it is
  /// all the time. All ranks call.
  double tflops_now();

 private:
  std::vector<double> times_us(OpKernel& kernel, int64_t num_warmup, int64_t num_samples);

  comm::Comm& world_;
  at::Device device_;
  at::ScalarType type_;
  int64_t dim_ = 0;  ///< Of the matrices with the highest rate.
  double highest_tflops_ = 0;
  int64_t num_samples_ = 0;           ///< Products of that size that tflops_now() measures.
  std::unique_ptr<OpKernel> kernel_;  ///< Of that size, since the first tflops_now().
};

}  // namespace lockstep::bench
