#pragma once
#include <ATen/core/TensorBody.h>

namespace lockstep::nn {

/// x in the type that autocast would compute a matrix product in; x itself where autocast is off.
at::Tensor in_compute_type(const at::Tensor& x);
/// The type of that.
at::ScalarType compute_type_of(const at::Tensor& x);

}  // namespace lockstep::nn
