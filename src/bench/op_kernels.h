#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/clip_shape.h"

namespace lockstep::bench {

enum class OpKind { kGemm, kCopy, kTriad, kAttention, kLayerNorm, kSumNorm, kNormBackward };

/// One operator of one shape.
struct OpShape {
  OpKind kind = OpKind::kGemm;
  std::string label;           ///< What it is in a model ("image mlp up"), or "square".
  std::vector<int64_t> sizes;  ///< GEMM: m n k. Copy, triad: elements. Attention: B H T K. Norms: rows, width.

  std::string text() const;                   ///< "4096x4096x4096"
  double flops() const;                       ///< 2 x multiply-adds; 0 for copy, triad and layer norm.
  double bytes(int64_t element_bytes) const;  ///< Read and written once each; 0 for GEMM and attention.
};

std::string op_name(OpKind kind);  ///< "gemm", ...

/// Square matrix products with m = n = k from `min_dim` to `max_dim`.
std::vector<OpShape> square_gemms(int64_t min_dim, int64_t max_dim, double factor);
/// Matrix products, attention and layer norms of the transformer towers of a model for `batch` samples, equal shapes
/// once. A convolutional image tower has none.
std::vector<OpShape> model_ops(const config::ClipShape& shape, int64_t batch);

/// An operator with its input and output memory, ready to run again and again.
class OpKernel {
 public:
  virtual ~OpKernel() = default;
  virtual void run() = 0;
  /// Runs once and compares with a computation in double precision of a part of the result (rows and columns spread
  /// over it); the number of elements that are off by more than the type explains.
  virtual int64_t count_wrong() = 0;
};

/// Allocates and fills with random numbers that do not depend on anything but the shape.
std::unique_ptr<OpKernel> make_op_kernel(const OpShape& shape, at::ScalarType type, at::Device device);

}  // namespace lockstep::bench
