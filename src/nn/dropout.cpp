#include "nn/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include "core/error.h"

namespace lockstep::nn {
namespace {

at::Generator generator_of(const at::Tensor& x, uint64_t key) {
  auto generator =
      x.is_cpu()
          ? at::detail::createCPUGenerator(key)
          : at::globalContext().getAcceleratorHooksInterface(x.device().type()).getNewGenerator(x.device().index());
  if (!x.is_cpu()) generator.set_current_seed(key);
  return generator;
}

/// The last steps of SplitMix64 (Steele et al. 2014), element by element. int64 wraps around as uint64 does; its right
/// shift copies the sign, which the mask takes off.
at::Tensor mixed(const at::Tensor& x) {
  const auto folded = [](const at::Tensor& y, int64_t shift) {
    return y.bitwise_xor(y.bitwise_right_shift(shift).bitwise_and_((int64_t{1} << (64 - shift)) - 1));
  };
  const at::Tensor y = folded(x, 30).mul_(static_cast<int64_t>(0xbf58476d1ce4e5b9u));
  return folded(folded(y, 27).mul_(static_cast<int64_t>(0x94d049bb133111ebu)), 31);
}

/// 1 where an element stays, as a function of (key, number of the row, column).
at::Tensor numbered_mask(const at::Tensor& x, const Dropout& dropout, double kept) {
  LOCKSTEP_CHECK(dropout.rows.numel() * x.size(-1) == x.numel(), "rows={} elements={}", dropout.rows.numel(),
                 x.numel());
  const at::Tensor row_key = mixed(dropout.rows.reshape({-1, 1}).add(static_cast<int64_t>(dropout.key)));
  const at::Tensor column = at::arange(x.size(-1), row_key.options()).mul_(static_cast<int64_t>(0x9e3779b97f4a7c15u));
  constexpr int64_t kUnit = int64_t{1} << 24;
  const at::Tensor drawn = mixed(row_key.add(column)).bitwise_and_(kUnit - 1);
  return drawn.lt(static_cast<int64_t>(kept * static_cast<double>(kUnit))).view(x.sizes()).to(x.scalar_type());
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.probability <= 0.0) return x;
  const double kept = 1.0 - dropout.probability;
  at::Tensor mask;
  {
    const c10::NoGradGuard no_grad;
    mask = dropout.rows.defined()
               ? numbered_mask(x, dropout, kept)
               : at::empty_like(x, at::MemoryFormat::Contiguous).bernoulli_(kept, generator_of(x, dropout.key));
  }
  return x.mul(mask).mul(1.0 / kept);  // two products: 1 / kept is no number of the half-precision types
}

}  // namespace lockstep::nn
