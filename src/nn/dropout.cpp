#include "nn/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "nn/dropout_kernel.h"
#include "nn/parallel_for.h"
#include "nn/work_recorder.h"

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

/// The last steps of SplitMix64 (Steele et al. 2014), element by element, in place. int64 wraps around as uint64 does;
/// its right shift copies the sign, which the mask takes off.
void mix_(at::Tensor& x) {
  const auto fold_ = [&x](int64_t shift) {
    x.bitwise_xor_(x.bitwise_right_shift(shift).bitwise_and_((int64_t{1} << (64 - shift)) - 1));
  };
  fold_(30);
  x.mul_(static_cast<int64_t>(0xbf58476d1ce4e5b9u));
  fold_(27);
  x.mul_(static_cast<int64_t>(0x94d049bb133111ebu));
  fold_(31);
}

constexpr double kNumDraws = 1 << 24;

/// Elements that are drawn at once by operators: a draw takes 16 bytes beside the mask.
constexpr int64_t kDrawsAtOnce = int64_t{1} << 22;

/// By the tensor library's operators, on any device and for any type.
at::Tensor drawn_by_operators(const at::Tensor& x, const Dropout& dropout, int64_t num_kept) {
  at::Tensor row_key = dropout.rows.reshape({-1, 1}).add(static_cast<int64_t>(dropout.key));
  mix_(row_key);
  const int64_t columns = x.size(-1), num_rows = row_key.size(0);
  const at::Tensor column = at::arange(columns, row_key.options()).mul_(static_cast<int64_t>(0x9e3779b97f4a7c15u));
  const at::Tensor mask = at::empty({num_rows, columns}, x.options());
  const int64_t rows_at_once = std::max<int64_t>(1, kDrawsAtOnce / std::max<int64_t>(1, columns));
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, num_rows - first);
    at::Tensor drawn = row_key.narrow(0, first, count).add(column);
    mix_(drawn);
    mask.narrow(0, first, count).copy_(drawn.bitwise_and_(static_cast<int64_t>(kNumDraws) - 1).lt(num_kept));
  }
  return mask.view(x.sizes());
}

/// The same bits in one pass.
template <typename Bits>
at::Tensor drawn_by_kernel(const at::Tensor& x, const Dropout& dropout, int64_t num_kept, Bits one) {
  const at::Tensor rows = dropout.rows.contiguous();
  const at::Tensor mask = at::empty(x.sizes(), x.options());
  const NumberedDraws draws{
      .rows = rows.const_data_ptr<int64_t>(), .columns = x.size(-1), .key = dropout.key, .kept_of_2_24 = num_kept};
  auto* out = static_cast<Bits*>(mask.mutable_data_ptr());
  const int64_t rows_at_once = std::max<int64_t>(1, at::internal::GRAIN_SIZE / std::max<int64_t>(1, draws.columns));
  parallel_for(0, rows.numel(), rows_at_once,
               [&](int64_t begin, int64_t end) { draw_kept(draws, begin, end, one, out); });
  return mask;
}

/// 1 where an element stays, as a function of (key, number of the row, column).
at::Tensor numbered_mask(const at::Tensor& x, const Dropout& dropout, double kept) {
  LOCKSTEP_CHECK(dropout.rows.numel() * x.size(-1) == x.numel(), "rows={} elements={}", dropout.rows.numel(),
                 x.numel());
  const auto num_kept = static_cast<int64_t>(kept * kNumDraws);
  constexpr uint32_t kOneAsFloat = 0x3f800000;
  constexpr uint16_t kOneAsBfloat16 = 0x3f80, kOneAsHalf = 0x3c00;
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return drawn_by_kernel(x, dropout, num_kept, kOneAsFloat);
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16) return drawn_by_kernel(x, dropout, num_kept, kOneAsBfloat16);
  if (x.is_cpu() && x.scalar_type() == at::kHalf) return drawn_by_kernel(x, dropout, num_kept, kOneAsHalf);
  return drawn_by_operators(x, dropout, num_kept);
}

}  // namespace

void seed_device_generator(at::Device device, uint64_t key) {
  refuse_recording("dropout");
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(key);
}

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.probability <= 0.0) return x;
  refuse_recording("dropout");
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
