#pragma once
#include <ATen/core/TensorBody.h>

#include "nn/activation.h"

namespace lockstep::nn {

// Own kernels of GPUs (gpu_kernels.cu), without gradients. Each computes in fp32 what the tensor library's operators
// would, in fewer passes over memory and with fewer roundings to 16 bits on the way. Their callers take those operators
// where suits_...() says no: on other devices, for fp64, for widths that are no multiple of 8 (but for dropout), for
// norms wider than 6144. LOCKSTEP_GPU_KERNELS=off leaves all of them to the tensor library. A kernel that cannot be
// compiled or started throws EnvironmentError.

/// CUDA devices of compute capability 8.0 and more, but for LOCKSTEP_GPU_KERNELS=off; throws UsageError for values of
/// it other than "auto" and "off".
bool has_gpu_kernels(const at::Device& device);

/// Does layer_norm_on_gpu take these? `residual` may be undefined; gain and bias are of one type. Without a bias it is
/// an RMSNorm, which subtracts no mean.
bool suits_gpu_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                          const at::Tensor& bias);

struct Normed {
  at::Tensor sum;             ///< x + residual in x's type; x itself where there is none.
  at::Tensor out;             ///< The layer norm of it over the last dim, of `type`.
  at::Tensor mean_N, rstd_N;  ///< fp32; an RMSNorm has no mean.
};
Normed layer_norm_on_gpu(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                         const at::Tensor& bias, double epsilon, at::ScalarType type);

struct NormGradients {
  at::Tensor sum;         ///< Of x.
  at::Tensor residual;    ///< The same in the residual's type.
  at::Tensor gain, bias;  ///< An RMSNorm has no bias.
};
/// `dsum`: what comes to the sum from elsewhere, undefined where nothing does.
NormGradients layer_norm_backward_on_gpu(const Normed& normed, const at::Tensor& gain, const at::Tensor& dout,
                                         const at::Tensor& dsum, at::ScalarType residual_type);

/// [N, W] -> [W] of `type`, which is x's or fp32, summed in fp32; by the tensor library where the kernel does not suit.
at::Tensor column_sums(const at::Tensor& x_NW, at::ScalarType type);

/// Do the next two take these? bias [W].
bool suits_gpu_bias_activation(const at::Tensor& x, const at::Tensor& bias);
/// The activation of x + bias, the bias rounded to x's type before.
at::Tensor bias_activation_on_gpu(const at::Tensor& x, const at::Tensor& bias, Activation activation);
struct ActivationGradients {
  at::Tensor x, bias;
};
ActivationGradients bias_activation_backward_on_gpu(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                                    const at::Tensor& dy);

/// Do the next two take it? [..., 2 F]
bool suits_gpu_swiglu(const at::Tensor& x);
/// silu(gate) value, gates in the first half of the last dim.
at::Tensor swiglu_on_gpu(const at::Tensor& x);
at::Tensor swiglu_backward_on_gpu(const at::Tensor& x, const at::Tensor& dy);

/// Does dropout_on_gpu take it? Of any width and strides.
bool suits_gpu_dropout(const at::Tensor& x);
/// x `factor` where an element is kept, else x 0, drawn as dropout_kernel.h says; contiguous. `rows`: int64, numbers of
/// x's rows on its device; where undefined, row i has number i.
at::Tensor dropout_on_gpu(const at::Tensor& x, const at::Tensor& rows, uint64_t key, int64_t kept_of_2_24,
                          float factor);

/// Is a kernel behind copy_strided()? Of 16-bit numbers in rows with at most three dims around them.
bool suits_gpu_copy(const at::Tensor& to, const at::Tensor& from);
/// to = from, of one shape; by the tensor library where the kernel does not suit.
void copy_strided(at::Tensor to, const at::Tensor& from);

/// Does rotate_on_gpu take these? x [T, B, G, H, K] of any strides but in the last dim, cosine and sine [T, B or 1, 1,
/// 1, half] of its type.
bool suits_gpu_rotation(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);
/// Elements i and i + half of the last dim turned, or with `is_back` turned back.
at::Tensor rotate_on_gpu(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, bool is_back);

/// Do the next two take them? Logits [N, V].
bool suits_gpu_softmax(const at::Tensor& logits_NV);
/// Of the first `used` columns of each row: largest, sum of exp(logit - largest), and the logit of column target_N
/// (int64), 0 where that is none of them: fp32 [3, N].
at::Tensor softmax_stats_on_gpu(const at::Tensor& logits_NV, int64_t used, const at::Tensor& target_N);
/// Logits become exp(logit - top) factor, less `weight` in the target's column, and 0 from column `used` on; top,
/// factor and weight fp32 [N].
void softmax_gradient_on_gpu(at::Tensor logits_NV, int64_t used, const at::Tensor& target_N, const at::Tensor& top_N,
                             const at::Tensor& factor_N, const at::Tensor& weight_N);

/// Does fp8_quantize_on_gpu take it? [N, W], compute capability 8.9 and more.
bool suits_gpu_fp8(const at::Tensor& x_NW);
struct GpuFp8 {
  at::Tensor bits_NW;
  at::Tensor transposed_WN;  ///< Undefined where it is not wanted.
};
/// fp8_quantize's bits and their transpose in one pass. `amax`, where defined (fp32, 0-dim), becomes the largest
/// absolute value of x where that is larger, and NaN where x has one.
GpuFp8 fp8_quantize_on_gpu(const at::Tensor& x_NW, at::ScalarType type, const at::Tensor& scale, bool is_transposed,
                           const at::Tensor& amax);

}  // namespace lockstep::nn
