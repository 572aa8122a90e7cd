#include "bench/gemm_peak.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "bench/op_kernels.h"
#include "bench/sample_stats.h"
#include "bench/sample_timer.h"
#include "stats/statistics.h"

namespace lockstep::bench {

std::string product_type(const std::string& precision, at::Device device) {
  if (precision == "fp32") return "fp32";
  return precision == "amp" && !device.is_cpu() ? "fp16" : "bf16";
}

at::ScalarType scalar_type_of(const std::string& type) {
  if (type == "bf16") return at::kBFloat16;
  if (type == "fp16") return at::kHalf;
  return type == "fp64" ? at::kDouble : at::kFloat;
}

SquareProducts::SquareProducts(comm::Comm& world, at::Device device, at::ScalarType type)
    : world_(world), device_(device), type_(type) {
  constexpr int64_t kLeastDim = 512, kMostDim = 8192, kNumWarmup = 2, kNumSamples = 7;
  constexpr double kLongEnoughUs = 30'000, kWindowUs = 300'000, kLeastProducts = 5;
  const c10::NoGradGuard no_grad;
  double us = 0;
  for (int64_t dim = kLeastDim; dim <= kMostDim && us < kLongEnoughUs; dim *= 2) {
    const OpShape shape{OpKind::kGemm, "square", {dim, dim, dim}};
    us = stats::median(times_us(*make_op_kernel(shape, type, device), kNumWarmup, kNumSamples));
    const double tflops = shape.flops() / us / 1e6;
    if (tflops <= highest_tflops_) continue;
    highest_tflops_ = tflops;
    dim_ = dim;
    num_samples_ = static_cast<int64_t>(std::max(kLeastProducts, kWindowUs / us));
  }
}

SquareProducts::~SquareProducts() = default;

double SquareProducts::tflops_now() {
  const c10::NoGradGuard no_grad;
  const OpShape shape{OpKind::kGemm, "square", {dim_, dim_, dim_}};
  if (!kernel_) kernel_ = make_op_kernel(shape, type_, device_);
  return shape.flops() / stats::mean(times_us(*kernel_, 0, num_samples_)) / 1e6;
}

std::vector<double> SquareProducts::times_us(OpKernel& kernel, int64_t num_warmup, int64_t num_samples) {
  world_.barrier();
  return combine_ranks(world_, time_samples(device_, num_warmup, num_samples, [&] { kernel.run(); }), "max");
}

}  // namespace lockstep::bench
