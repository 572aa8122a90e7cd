#include "nn/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

namespace lockstep::nn {
namespace {

at::Generator generator_of(const at::Tensor& x, uint64_t key) {
  auto generator = x.is_cpu() ? at::detail::createCPUGenerator(key)
                              : at::globalContext().getAcceleratorHooksInterface(x.device().type()).getNewGenerator(x.device().index());
  if (!x.is_cpu()) generator.set_current_seed(key);
  return generator;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.probability <= 0.0) return x;
  const double kept = 1.0 - dropout.probability;
  at::Tensor mask;
  {
    const c10::NoGradGuard no_grad;
    mask = at::empty_like(x, at::MemoryFormat::Contiguous).bernoulli_(kept, generator_of(x, dropout.key));
  }
  return x.mul(mask).mul(1.0 / kept);  // two products: 1 / kept is no number of the half-precision types
}

}  // namespace lockstep::nn
