#include "config/gpu_math.h"

#include "config/option_checks.h"

namespace lockstep::config {
using core::OptionRole;

void declare_gpu_math_options(core::OptionSet& set, GpuMath& math) {
  set.add("tf32", &math.tf32,
          {.role = OptionRole::kConfiguration,
           .help = "On GPUs: matrix products of fp32 numbers in TF32, which keeps 10 of their 23 bits behind the point "
                   "and is several times as fast (torch.backends.cuda.matmul.allow_tf32). --no-tf32 turns it off.",
           .aliases = {"allow-tf32"}});
  set.add("cudnn-tf32", &math.cudnn_tf32,
          {.role = OptionRole::kConfiguration,
           .help = "On GPUs: convolutions of fp32 numbers in TF32 (torch.backends.cudnn.allow_tf32). --no-cudnn-tf32 "
                   "turns it off.",
           .aliases = {"cudnn-allow-tf32"}});
  set.add("cudnn-benchmark", &math.cudnn_benchmark,
          {.role = OptionRole::kConfiguration,
           .help = "On GPUs: cuDNN times its kernels at each new shape of a convolution and takes the fastest, not "
                   "always the same one (torch.backends.cudnn.benchmark). --no-cudnn-benchmark turns it off."});
}

void fill_gpu_math(GpuMath& math, const GpuMath& values, core::OptionSet& set, const std::string& from_what) {
  const auto fill = [&](const char* flag, bool& field, bool value) {
    if (field == value || set.is_given(flag)) return;
    field = value;
    set.mark_derived(flag, from_what);
  };
  fill("tf32", math.tf32, values.tf32);
  fill("cudnn-tf32", math.cudnn_tf32, values.cudnn_tf32);
  fill("cudnn-benchmark", math.cudnn_benchmark, values.cudnn_benchmark);
}

void check_gpu_math(const GpuMath& math, bool is_deterministic) {
  refuse_if(is_deterministic && math.cudnn_benchmark,
            "--cudnn-benchmark and --deterministic at once: kernels chosen by their times differ between runs",
            "drop one of them");
}

}  // namespace lockstep::config
