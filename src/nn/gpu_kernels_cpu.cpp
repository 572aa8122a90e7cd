#include <ATen/core/Tensor.h>

#include "core/error.h"
#include "nn/gpu_kernels.h"

namespace lockstep::nn {
namespace {

[[noreturn]] void refuse() { LOCKSTEP_CHECK(false, "kernels of a GPU in a build for CPUs"); }

}  // namespace

bool has_gpu_kernels(const at::Device&) { return false; }
bool suits_gpu_layer_norm(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }
Normed layer_norm_on_gpu(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                         at::ScalarType) {
  refuse();
}
NormGradients layer_norm_backward_on_gpu(const Normed&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         at::ScalarType) {
  refuse();
}
at::Tensor column_sums(const at::Tensor& x_NW, at::ScalarType type) { return x_NW.sum(0).to(type); }
bool suits_gpu_bias_activation(const at::Tensor&, const at::Tensor&) { return false; }
at::Tensor bias_activation_on_gpu(const at::Tensor&, const at::Tensor&, Activation) { refuse(); }
ActivationGradients bias_activation_backward_on_gpu(const at::Tensor&, const at::Tensor&, Activation,
                                                    const at::Tensor&) {
  refuse();
}
bool suits_gpu_swiglu(const at::Tensor&) { return false; }
at::Tensor swiglu_on_gpu(const at::Tensor&) { refuse(); }
at::Tensor swiglu_backward_on_gpu(const at::Tensor&, const at::Tensor&) { refuse(); }
bool suits_gpu_dropout(const at::Tensor&) { return false; }
at::Tensor dropout_on_gpu(const at::Tensor&, const at::Tensor&, uint64_t, int64_t, float) { refuse(); }
bool suits_gpu_copy(const at::Tensor&, const at::Tensor&) { return false; }
void copy_strided(at::Tensor to, const at::Tensor& from) { to.copy_(from); }
bool suits_gpu_rotation(const at::Tensor&, const at::Tensor&, const at::Tensor&) { return false; }
at::Tensor rotate_on_gpu(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool) { refuse(); }
bool suits_gpu_softmax(const at::Tensor&) { return false; }
at::Tensor softmax_stats_on_gpu(const at::Tensor&, int64_t, const at::Tensor&) { refuse(); }
void softmax_gradient_on_gpu(at::Tensor, int64_t, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&) {
  refuse();
}
bool suits_gpu_fp8(const at::Tensor&) { return false; }
GpuFp8 fp8_quantize_on_gpu(const at::Tensor&, at::ScalarType, const at::Tensor&, bool, const at::Tensor&) { refuse(); }

}  // namespace lockstep::nn
