#pragma once
#include <ATen/core/TensorBody.h>

#include <string>

namespace lockstep::comm {

/// A named tensor of a module; `tensor` points at the module's own handle, so that it can be replaced (dtype, device,
/// bucket views).
struct NamedTensor {
  std::string name;
  at::Tensor* tensor;
};

}  // namespace lockstep::comm
