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

double measure_gemm_tflops(comm::Comm& world, at::Device device, at::ScalarType type) {
  constexpr int64_t kLeastDim = 512, kMostDim = 8192, kNumWarmup = 2, kNumSamples = 7;
  constexpr double kLongEnoughUs = 30'000;
  const c10::NoGradGuard no_grad;
  double best = 0, us = 0;
  for (int64_t dim = kLeastDim; dim <= kMostDim && us < kLongEnoughUs; dim *= 2) {
    const OpShape shape{OpKind::kGemm, "square", {dim, dim, dim}};
    const auto kernel = make_op_kernel(shape, type, device);
    world.barrier();
    us = stats::median(
        combine_ranks(world, time_samples(device, kNumWarmup, kNumSamples, [&] { kernel->run(); }), "max"));
    best = std::max(best, shape.flops() / us / 1e6);
  }
  return best;
}

}  // namespace lockstep::bench
