#include "nn/gpu_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/env.h"
#include "core/error.h"
#include "nn/gpu_program.h"

namespace lockstep::nn {
namespace {

using internal::gpu_capability;
using internal::GpuGrid;
using internal::KernelInstance;
using internal::launch;

constexpr int64_t kOwned = 8;  // columns of a thread
constexpr int64_t kWarp = 32, kAlignment = 16;
constexpr int64_t kMostNormThreads = 512;  // of a block, where a row has fewer
constexpr int64_t kMostNormWidth = 6144;   // of 768 threads, of which each may hold 80 registers
constexpr int kLeastCapability = 80, kLeastFp8Capability = 89;

const char* name_of(Activation activation) {
  return activation == Activation::kGelu ? "kGelu" : activation == Activation::kGeluTanh ? "kGeluTanh" : "kQuickGelu";
}

bool is_aligned(const at::Tensor& x) { return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kAlignment == 0; }

/// Has it a type of the kernels, and a thread for each eight numbers?
bool is_taken(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) && x.dim() > 0 && x.numel() > 0 &&
         x.numel() / kOwned < int64_t{1} << 31;
}

/// Are the rows such as threads read 16 bytes at once?
bool suits(const at::Tensor& x) {
  return is_taken(x) && x.is_contiguous() && x.size(-1) % kOwned == 0 && is_aligned(x);
}

/// x, or a copy such as suits() wants.
at::Tensor dense(const at::Tensor& x) {
  const at::Tensor contiguous = x.contiguous();
  return is_aligned(contiguous) ? contiguous : contiguous.clone();
}

/// Not by trying: ranks that differ would compute with different rounding. A kernel that cannot be compiled is an
/// error.
bool are_wanted() {
  return internal::wants_gpu_kernels(core::env("LOCKSTEP_GPU_KERNELS").value_or("auto")) &&
         gpu_capability() >= kLeastCapability;
}

int64_t num_processors() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

const void* address(const at::Tensor& x) { return x.defined() ? x.const_data_ptr() : nullptr; }
void* written(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }

dim3 grid(int64_t x, int64_t y = 1) { return {static_cast<unsigned>(x), static_cast<unsigned>(y)}; }

/// A thread for each eight numbers of x, as far as the GPU has any.
GpuGrid elementwise_grid(const at::Tensor& x) {
  constexpr int64_t kThreads = 256, kBlocksOfProcessor = 16;
  return {.blocks = grid(std::min(ceil_div(x.numel(), kOwned * kThreads), kBlocksOfProcessor * num_processors())),
          .threads = grid(kThreads)};
}

/// Threads of a block that normalises rows: as many in a row as own its columns, in whole warps.
dim3 norm_threads(int64_t width) {
  const int64_t in_row = ceil_div(width / kOwned, kWarp) * kWarp;
  return grid(in_row, std::max<int64_t>(1, kMostNormThreads / in_row));
}

}  // namespace

bool has_gpu_kernels(const at::Device& device) {
  if (!device.is_cuda()) return false;
  static const bool has_kernels = are_wanted();
  return has_kernels;
}

bool suits_gpu_layer_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                          const at::Tensor& bias) {
  const bool suits_residual =
      !residual.defined() || (suits(residual) && residual.sizes() == x.sizes() &&
                              at::promote_types(x.scalar_type(), residual.scalar_type()) == x.scalar_type());
  return has_gpu_kernels(x.device()) && suits(x) && suits_residual && suits(gain) &&
         (!bias.defined() || (suits(bias) && gain.scalar_type() == bias.scalar_type())) &&
         x.size(-1) <= kMostNormWidth && gain.numel() == x.size(-1);
}

Normed layer_norm_on_gpu(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gain,
                         const at::Tensor& bias, double epsilon, at::ScalarType type) {
  const int64_t width = x.size(-1), rows = x.numel() / width;
  const at::TensorOptions floats = x.options().dtype(at::kFloat);
  Normed result{.sum = residual.defined() ? at::empty_like(x) : x,
                .out = at::empty(x.sizes(), x.options().dtype(type)),
                .mean_N = bias.defined() ? at::empty({rows}, floats) : at::Tensor(),
                .rstd_N = at::empty({rows}, floats)};
  const dim3 threads = norm_threads(width);
  launch(KernelInstance("layer_norm_forward")
             .type(x)
             .type(residual.defined() ? residual : x)
             .type(type)
             .type(gain)
             .flag(residual.defined())
             .flag(!bias.defined()),
         {.blocks = grid(ceil_div(rows, threads.y)), .threads = threads}, static_cast<long>(rows),
         static_cast<int>(width), static_cast<float>(epsilon), address(x), address(residual), address(gain),
         address(bias), residual.defined() ? written(result.sum) : nullptr, written(result.out), written(result.mean_N),
         written(result.rstd_N));
  return result;
}

NormGradients layer_norm_backward_on_gpu(const Normed& normed, const at::Tensor& gain, const at::Tensor& dout,
                                         const at::Tensor& dsum, at::ScalarType residual_type) {
  const at::Tensor& s = normed.sum;
  const int64_t width = s.size(-1), rows = s.numel() / width;
  const at::Tensor d = dense(dout), more = dsum.defined() ? dense(dsum.to(s.scalar_type())) : dsum;
  const bool has_own_residual = residual_type != s.scalar_type();
  NormGradients result;
  result.sum = at::empty_like(s);
  result.residual = has_own_residual ? at::empty(s.sizes(), s.options().dtype(residual_type)) : result.sum;
  const dim3 threads = norm_threads(width);
  constexpr int64_t kBlocksOfProcessor = 3;
  const int64_t blocks = std::min(ceil_div(rows, threads.y), kBlocksOfProcessor * num_processors());
  const bool is_rms = !normed.mean_N.defined();
  const int64_t num_sums = is_rms ? 1 : 2;
  const at::Tensor parts_BS = at::empty({blocks, num_sums * width}, s.options().dtype(at::kFloat));
  launch(KernelInstance("layer_norm_backward")
             .type(s)
             .type(residual_type)
             .type(d)
             .type(gain)
             .flag(more.defined())
             .flag(has_own_residual)
             .flag(is_rms),
         {.blocks = grid(blocks), .threads = threads, .shared_bytes = threads.x * kOwned * sizeof(float)},
         static_cast<long>(rows), static_cast<int>(width), address(d), address(more), address(s),
         address(normed.mean_N), address(normed.rstd_N), address(gain), written(result.sum),
         has_own_residual ? written(result.residual) : nullptr, written(parts_BS));
  const at::Tensor sums = column_sums(parts_BS, at::kFloat).to(gain.scalar_type());
  result.gain = sums.narrow(0, 0, width);
  if (!is_rms) result.bias = sums.narrow(0, width, width);
  return result;
}

namespace {

/// How a matrix is divided among blocks that sum its columns.
struct SumGrid {
  int64_t across, parts;
  GpuGrid grid() const {
    return {.blocks = nn::grid(across, parts),
            .threads = nn::grid(kWarp, kRowsAtOnce),
            .shared_bytes = kWarp * kOwned * sizeof(float)};
  }
  static constexpr int64_t kRowsAtOnce = 8;
};

SumGrid sum_grid(int64_t rows, int64_t width) {
  constexpr int64_t kLeastRows = 64, kBlocksOfProcessor = 8;
  const int64_t across = ceil_div(width, kWarp * kOwned);
  return {across, std::clamp(kBlocksOfProcessor * num_processors() / across, int64_t{1}, ceil_div(rows, kLeastRows))};
}

/// Zeros that kernels leave zero, from a ring that is so long that nobody else has them while a kernel runs.
unsigned* take_counters(const SumGrid& shape, const at::Device& device) {
  constexpr int64_t kNumCounters = int64_t{1} << 16;
  static std::mutex mutex;
  static auto& rings = *new std::map<c10::DeviceIndex, std::pair<at::Tensor, int64_t>>();  // outlives the driver
  LOCKSTEP_CHECK(shape.across < kNumCounters, "{} groups of columns", shape.across);
  const std::lock_guard lock(mutex);
  auto& [ring, next] = rings[device.index()];
  if (!ring.defined()) {
    ring = at::zeros({kNumCounters}, at::TensorOptions(at::kInt).device(device));
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();  // before other streams see it
  }
  if (next + shape.across > kNumCounters) next = 0;
  unsigned* taken = reinterpret_cast<unsigned*>(ring.mutable_data_ptr<int>()) + next;
  next += shape.across;
  return taken;
}

at::Tensor parts_of(const SumGrid& shape, const at::Tensor& x, int64_t width) {
  return at::empty({shape.parts > 1 ? shape.parts : 0, width}, x.options().dtype(at::kFloat));
}

at::Tensor summed(const at::Tensor& x_NW, at::ScalarType type) {
  const int64_t rows = x_NW.size(0), width = x_NW.size(1);
  const SumGrid shape = sum_grid(rows, width);
  const at::Tensor parts_PW = parts_of(shape, x_NW, width);
  at::Tensor sum_W = at::empty({width}, x_NW.options().dtype(type));
  launch(KernelInstance("column_sums").type(x_NW).type(type), shape.grid(), static_cast<long>(rows),
         static_cast<int>(width), address(x_NW), written(parts_PW), written(sum_W),
         take_counters(shape, x_NW.device()));
  return sum_W;
}

}  // namespace

at::Tensor column_sums(const at::Tensor& x_NW, at::ScalarType type) {
  return has_gpu_kernels(x_NW.device()) && suits(x_NW) ? summed(x_NW, type) : x_NW.sum(0).to(type);
}

bool suits_gpu_bias_activation(const at::Tensor& x, const at::Tensor& bias) {
  return has_gpu_kernels(x.device()) && suits(x) && bias.defined() && suits(bias) && bias.dim() == 1 &&
         bias.size(0) == x.size(-1);
}

at::Tensor bias_activation_on_gpu(const at::Tensor& x, const at::Tensor& bias, Activation activation) {
  const int64_t width = x.size(-1);
  at::Tensor y = at::empty_like(x);
  launch(KernelInstance("bias_activation").type(x).type(bias).argument(name_of(activation)), elementwise_grid(x),
         static_cast<long>(x.numel()), static_cast<int>(width), address(x), address(bias), written(y));
  return y;
}

ActivationGradients bias_activation_backward_on_gpu(const at::Tensor& x, const at::Tensor& bias, Activation activation,
                                                    const at::Tensor& dy) {
  const int64_t width = x.size(-1);
  const int64_t rows = x.numel() / width;
  const SumGrid shape = sum_grid(rows, width);
  const at::Tensor d = dense(dy), parts_PW = parts_of(shape, x, width);
  ActivationGradients result{.x = at::empty_like(x), .bias = at::empty_like(bias)};
  launch(KernelInstance("bias_activation_backward").type(x).type(bias).argument(name_of(activation)), shape.grid(),
         static_cast<long>(rows), static_cast<int>(width), address(d), address(x), address(bias), written(result.x),
         written(parts_PW), written(result.bias), take_counters(shape, x.device()));
  return result;
}

bool suits_gpu_swiglu(const at::Tensor& x) {
  return has_gpu_kernels(x.device()) && suits(x) && x.size(-1) % (2 * kOwned) == 0;
}

at::Tensor swiglu_on_gpu(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() /= 2;
  at::Tensor y = at::empty(sizes, x.options());
  launch(KernelInstance("swiglu").type(x), elementwise_grid(y), static_cast<long>(y.numel() / sizes.back()),
         static_cast<int>(sizes.back()), address(x), written(y));
  return y;
}

at::Tensor swiglu_backward_on_gpu(const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor d = dense(dy);
  at::Tensor dx = at::empty_like(x);
  launch(KernelInstance("swiglu_backward").type(x), elementwise_grid(d), static_cast<long>(d.numel() / d.size(-1)),
         static_cast<int>(d.size(-1)), address(d), address(x), written(dx));
  return dx;
}

bool suits_gpu_dropout(const at::Tensor& x) {
  return has_gpu_kernels(x.device()) && is_taken(x) && x.size(-1) < int64_t{1} << 31;
}

namespace {

/// As the kernel takes them.
struct Draws {
  const void* rows;
  uint64_t key;
  unsigned kept_of_2_24;
  float factor;
};

}  // namespace

at::Tensor dropout_on_gpu(const at::Tensor& x, const at::Tensor& rows, uint64_t key, int64_t kept_of_2_24,
                          float factor) {
  LOCKSTEP_CHECK(!rows.defined() || rows.device() == x.device(), "rows on {}, x on {}", rows.device().str(),
                 x.device().str());
  const at::Tensor from = x.contiguous(), numbers = rows.defined() ? rows.contiguous() : rows;
  at::Tensor y = at::empty(x.sizes(), x.options());
  const Draws draws{address(numbers), key, static_cast<unsigned>(kept_of_2_24), factor};
  launch(KernelInstance("dropout").type(x).flag(suits(from)), elementwise_grid(from), static_cast<long>(x.numel()),
         static_cast<int>(x.size(-1)), draws, address(from), written(y));
  return y;
}

namespace {

constexpr size_t kMostDims = 3;  // around rows that are copied

/// As the kernels take it.
struct Strides {
  long at[3] = {};
};

/// Two tensors of one shape as rows of numbers side by side in both.
struct Rows {
  int64_t width = 1;              ///< Of a row.
  std::vector<int64_t> sizes;     ///< Of what is around rows, the innermost first.
  std::vector<int64_t> from, to;  ///< Strides of those.
};

Rows rows_of(const at::Tensor& from, const at::Tensor& to) {
  Rows rows;
  for (int64_t dim = from.dim() - 1; dim >= 0; --dim) {
    const int64_t size = from.size(dim), a = from.stride(dim), b = to.stride(dim);
    if (size == 1) continue;
    if (rows.sizes.empty() && a == rows.width && b == rows.width) {
      rows.width *= size;
    } else if (!rows.sizes.empty() && a == rows.from.back() * rows.sizes.back() &&
               b == rows.to.back() * rows.sizes.back()) {
      rows.sizes.back() *= size;
    } else {
      rows.sizes.push_back(size);
      rows.from.push_back(a);
      rows.to.push_back(b);
    }
  }
  return rows;
}

bool are_aligned(const std::vector<int64_t>& strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride % kOwned == 0; });
}

}  // namespace

bool suits_gpu_copy(const at::Tensor& to, const at::Tensor& from) {
  if (from.element_size() != 2 || from.scalar_type() != to.scalar_type() || from.numel() == 0 ||
      !has_gpu_kernels(from.device()))
    return false;
  const Rows rows = rows_of(from, to);
  return rows.width % kOwned == 0 && !rows.sizes.empty() && rows.sizes.size() <= kMostDims && are_aligned(rows.from) &&
         are_aligned(rows.to) && is_aligned(from) && is_aligned(to);
}

void copy_strided(at::Tensor to, const at::Tensor& from) {
  if (!suits_gpu_copy(to, from)) {
    to.copy_(from);
    return;
  }
  const Rows rows = rows_of(from, to);
  Strides from_strides, to_strides;
  int sizes[kMostDims] = {1, 1, 1};
  for (size_t i = 0; i < rows.sizes.size(); ++i) {
    from_strides.at[kMostDims - 1 - i] = rows.from[i];
    to_strides.at[kMostDims - 1 - i] = rows.to[i];
    sizes[kMostDims - 1 - i] = static_cast<int>(rows.sizes[i]);
  }
  constexpr int64_t kThreads = 256, kBlocksOfProcessor = 16;
  int64_t across = 1;  // threads of a row
  while (across < kThreads && across * kOwned < rows.width) across *= 2;
  const int64_t num_rows = from.numel() / rows.width, at_once = kThreads / across;
  launch(KernelInstance("copy_rows"),
         {.blocks = grid(std::min(ceil_div(num_rows, at_once), kBlocksOfProcessor * num_processors())),
          .threads = grid(across, at_once)},
         static_cast<long>(num_rows), sizes[1], sizes[2], static_cast<int>(rows.width), address(from), from_strides,
         written(to), to_strides);
}

bool suits_gpu_rotation(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto suits_table = [&](const at::Tensor& table) {
    return suits(table) && table.dim() == 5 && table.scalar_type() == x.scalar_type() && table.size(0) == x.size(0) &&
           (table.size(1) == 1 || table.size(1) == x.size(1)) &&
           table.numel() == table.size(0) * table.size(1) * table.size(4);
  };
  return x.dim() == 5 && x.numel() > 0 && has_gpu_kernels(x.device()) && suits_table(cosine) && suits_table(sine) &&
         x.stride(4) == 1 && x.size(4) % kOwned == 0 && 2 * cosine.size(4) <= x.size(4) &&
         are_aligned({x.stride(0), x.stride(1), x.stride(2), x.stride(3)}) && is_aligned(x);
}

at::Tensor rotate_on_gpu(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, bool is_back) {
  constexpr int64_t kMostThreads = 256;
  const int64_t half = cosine.size(4), width = x.size(4), parts = (width - half) / kOwned;
  at::Tensor y = at::empty(x.sizes(), x.options());
  const Strides strides{{x.stride(1), x.stride(2), x.stride(3)}};
  launch(KernelInstance("rotate").type(x),
         {.blocks = grid(x.size(0) * x.size(1)),
          .threads = grid(std::min(kMostThreads, ceil_div(x.size(2) * x.size(3) * parts, kWarp) * kWarp))},
         static_cast<int>(x.size(1)), static_cast<int>(x.size(2)), static_cast<int>(x.size(3)), static_cast<int>(width),
         static_cast<int>(half), is_back ? -1.0f : 1.0f, address(x), static_cast<long>(x.stride(0)), strides,
         address(cosine), address(sine), static_cast<int>(cosine.size(1)), written(y));
  return y;
}

namespace {
constexpr int64_t kRowThreads = 512;  // of the softmax kernels

at::Tensor dense_targets(const at::Tensor& target_N) {
  LOCKSTEP_CHECK(target_N.scalar_type() == at::kLong, "targets are {}", c10::toString(target_N.scalar_type()));
  return target_N.contiguous();
}
}  // namespace

bool suits_gpu_softmax(const at::Tensor& logits_NV) {
  return has_gpu_kernels(logits_NV.device()) && suits(logits_NV) && logits_NV.dim() == 2;
}

at::Tensor softmax_stats_on_gpu(const at::Tensor& logits_NV, int64_t used, const at::Tensor& target_N) {
  const int64_t rows = logits_NV.size(0);
  const at::Tensor targets = dense_targets(target_N);
  at::Tensor stats_3N = at::empty({3, rows}, logits_NV.options().dtype(at::kFloat));
  launch(KernelInstance("softmax_stats").type(logits_NV), {.blocks = grid(rows), .threads = grid(kRowThreads)},
         static_cast<long>(rows), static_cast<int>(logits_NV.size(1)), static_cast<int>(used), address(logits_NV),
         address(targets), written(stats_3N));
  return stats_3N;
}

void softmax_gradient_on_gpu(at::Tensor logits_NV, int64_t used, const at::Tensor& target_N, const at::Tensor& top_N,
                             const at::Tensor& factor_N, const at::Tensor& weight_N) {
  const at::Tensor targets = dense_targets(target_N), tops = top_N.contiguous(), factors = factor_N.contiguous(),
                   weights = weight_N.contiguous();
  launch(KernelInstance("softmax_gradient").type(logits_NV),
         {.blocks = grid(logits_NV.size(0)), .threads = grid(kRowThreads)}, static_cast<int>(logits_NV.size(1)),
         static_cast<int>(used), written(logits_NV), address(targets), address(tops), address(factors),
         address(weights));
}

bool suits_gpu_fp8(const at::Tensor& x_NW) {
  return has_gpu_kernels(x_NW.device()) && gpu_capability() >= kLeastFp8Capability && suits(x_NW) && x_NW.dim() == 2 &&
         x_NW.size(0) % kOwned == 0;
}

GpuFp8 fp8_quantize_on_gpu(const at::Tensor& x_NW, at::ScalarType type, const at::Tensor& scale, bool is_transposed,
                           const at::Tensor& amax) {
  constexpr int64_t kTile = 64, kThreads = 256;
  const int64_t rows = x_NW.size(0), width = x_NW.size(1);
  const at::TensorOptions options = x_NW.options().dtype(type);
  GpuFp8 result{.bits_NW = at::empty({rows, width}, options),
                .transposed_WN = is_transposed ? at::empty({width, rows}, options) : at::Tensor()};
  launch(KernelInstance("fp8_quantize").type(x_NW).argument(type == at::kFloat8_e5m2 ? "kE5M2" : "kE4M3"),
         {.blocks = grid(ceil_div(rows, kTile), ceil_div(width, kTile)), .threads = grid(kThreads)},
         static_cast<long>(rows), static_cast<int>(width), address(x_NW), address(scale), written(result.bits_NW),
         written(result.transposed_WN), amax.defined() ? written(amax) : nullptr);
  return result;
}

}  // namespace lockstep::nn
