#pragma once
#include <string>

#include "core/options.h"

namespace lockstep::config {

/// How a GPU computes products of fp32 numbers, and how cuDNN chooses kernels; PyTorch's torch.backends has the same
/// switches, and these defaults. Nothing here changes what a CPU computes.
struct GpuMath {
  bool tf32 = false;             // --tf32: matrix products
  bool cudnn_tf32 = true;        // --cudnn-tf32: convolutions
  bool cudnn_benchmark = false;  // --cudnn-benchmark
};

/// As open_clip_train's main sets them, also for CLAP; LAION-CLAP's asks for the timing of kernels alike.
inline constexpr GpuMath kOpenclipGpuMath{.tf32 = true, .cudnn_tf32 = true, .cudnn_benchmark = true};
/// Products of fp32 numbers in fp32, and kernels that do not depend on times: under --deterministic.
inline constexpr GpuMath kExactGpuMath{.tf32 = false, .cudnn_tf32 = false, .cudnn_benchmark = false};

/// Their values in `math` at this time are the defaults.
void declare_gpu_math_options(core::OptionSet& set, GpuMath& math);

/// What nobody asked for becomes what `values` says; `from_what` as of OptionSet::mark_derived.
void fill_gpu_math(GpuMath& math, const GpuMath& values, core::OptionSet& set, const std::string& from_what);

/// UsageError for what --deterministic excludes.
void check_gpu_math(const GpuMath& math, bool is_deterministic);

}  // namespace lockstep::config
