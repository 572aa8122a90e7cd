#pragma once
#include <ATen/core/TensorBody.h>

#include <vector>

#include "optim/optimizer.h"

namespace lockstep::optim {

/// Segments that fused kernels update in one call: of one decay group, learning rate, type and device.
struct SegmentGroup {
  bool decays;
  double lr_scale;
  at::ScalarType type;
  at::Device device;
  std::vector<size_t> segments = {};  ///< Indices, ascending.
};

/// Those that have a gradient; `gradients` as Optimizer::gradients gives them.
std::vector<SegmentGroup> group_segments(const std::vector<Segment>& segments,
                                         const std::vector<at::Tensor>& gradients);

/// The gradient with the parameter's memory layout and type: fused kernels pair memory, not indices. Itself where it
/// has them, else a copy.
at::Tensor matched_gradient(const at::Tensor& gradient, const at::Tensor& parameter);

}  // namespace lockstep::optim
