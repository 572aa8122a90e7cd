#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "support/accelerator/kernels.h"

namespace lockstep::tests::accelerator {

void register_autocast() {
  static torch::Library fallback(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  fallback.fallback(torch::CppFunction::makeFallthrough());
  static torch::Library m(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
#define LOCKSTEP_NARROW(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define LOCKSTEP_WIDE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define LOCKSTEP_WIDE_BY_TYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define LOCKSTEP_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOCKSTEP_NARROW)
  AT_FORALL_FP32(LOCKSTEP_WIDE)
  AT_FORALL_FP32_SET_OPT_DTYPE(LOCKSTEP_WIDE_BY_TYPE)
  AT_FORALL_PROMOTE(LOCKSTEP_WIDEST)
#undef LOCKSTEP_NARROW
#undef LOCKSTEP_WIDE
#undef LOCKSTEP_WIDE_BY_TYPE
#undef LOCKSTEP_WIDEST
}

}  // namespace lockstep::tests::accelerator
