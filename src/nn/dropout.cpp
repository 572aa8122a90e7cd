#include "nn/dropout.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "nn/dropout_kernel.h"
#include "nn/gpu_kernels.h"
#include "nn/parallel_for.h"
#include "nn/work_recorder.h"

namespace lockstep::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

double kept_share(const Dropout& dropout) { return 1.0 - dropout.probability; }
int64_t kept_of_2_24(const Dropout& dropout) { return static_cast<int64_t>(kept_share(dropout) * kNumDraws); }

/// By the tensor library's operators, on any device and for any type.
at::Tensor dropped_by_operators(const at::Tensor& x, const Dropout& dropout) {
  const int64_t columns = x.size(-1), num_rows = x.numel() / columns;
  const at::Tensor number =
      dropout.rows.defined() ? dropout.rows.reshape({-1}) : at::arange(num_rows, x.options().dtype(at::kLong));
  at::Tensor row_key = number.unsqueeze(1).add(static_cast<int64_t>(dropout.key));
  mix_(row_key);
  const at::Tensor column = at::arange(columns, row_key.options()).mul_(static_cast<int64_t>(0x9e3779b97f4a7c15u));
  const at::Tensor mask = at::empty({num_rows, columns}, x.options());
  const int64_t rows_at_once = std::max<int64_t>(1, kDrawsAtOnce / columns);
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, num_rows - first);
    at::Tensor drawn = row_key.narrow(0, first, count).add(column);
    mix_(drawn);
    mask.narrow(0, first, count)
        .copy_(drawn.bitwise_and_(static_cast<int64_t>(kNumDraws) - 1).lt(kept_of_2_24(dropout)));
  }
  // Two products: 1 / kept is no number of the half-precision types, to which the result is rounded once.
  at::Tensor y = x.mul(mask.view(x.sizes()));
  if (at::isReducedFloatingType(y.scalar_type())) y = y.to(at::kFloat);
  return y.mul_(1.0 / kept_share(dropout)).to(x.scalar_type());
}

/// The same bits in one pass.
template <typename T> at::Tensor dropped_by_kernel(const at::Tensor& x, const Dropout& dropout) {
  const at::Tensor rows = dropout.rows.defined() ? dropout.rows.contiguous() : at::Tensor(), dense = x.contiguous();
  at::Tensor y = at::empty(x.sizes(), x.options());
  const NumberedDraws draws{.rows = rows.defined() ? rows.const_data_ptr<int64_t>() : nullptr,
                            .columns = x.size(-1),
                            .key = dropout.key,
                            .kept_of_2_24 = kept_of_2_24(dropout)};
  const auto factor = static_cast<float>(1.0 / kept_share(dropout));
  const auto* from = static_cast<const T*>(dense.const_data_ptr());
  auto* to = static_cast<T*>(y.mutable_data_ptr());
  const int64_t rows_at_once = std::max<int64_t>(1, at::internal::GRAIN_SIZE / draws.columns);
  parallel_for(0, x.numel() / draws.columns, rows_at_once,
               [&](int64_t begin, int64_t end) { drop_rows(draws, begin, end, factor, from, to); });
  return y;
}

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) {
  if (x.numel() == 0) return x.clone();
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return dropped_by_kernel<float>(x, dropout);
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16) return dropped_by_kernel<Bfloat16Bits>(x, dropout);
  if (x.is_cpu() && x.scalar_type() == at::kHalf) return dropped_by_kernel<HalfBits>(x, dropout);
  if (suits_gpu_dropout(x))
    return dropout_on_gpu(x, dropout.rows, dropout.key, kept_of_2_24(dropout),
                          static_cast<float>(1.0 / kept_share(dropout)));
  return dropped_by_operators(x, dropout);
}

/// Keeps the numbers of rows alone.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& numbers,
                            double probability, int64_t key) {
    const at::Tensor rows = numbers.value_or(at::Tensor());
    context->save_for_backward({rows});
    context->saved_data["probability"] = probability;
    context->saved_data["key"] = key;
    return dropped(x, {probability, static_cast<uint64_t>(key), rows});
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Dropout same{.probability = context->saved_data["probability"].toDouble(),
                       .key = static_cast<uint64_t>(context->saved_data["key"].toInt()),
                       .rows = context->get_saved_variables()[0]};
    return {dropout(gradients[0], same), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

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
  LOCKSTEP_CHECK(x.dim() > 0, "a number without dims has no rows");
  LOCKSTEP_CHECK(!dropout.rows.defined() ||
                     (dropout.rows.scalar_type() == at::kLong && dropout.rows.numel() * x.size(-1) == x.numel()),
                 "rows={} elements={}", dropout.rows.numel(), x.numel());
  if (!c10::GradMode::is_enabled()) return dropped(x, dropout);
  const auto rows = dropout.rows.defined() ? std::optional<at::Tensor>(dropout.rows) : std::nullopt;
  return DropoutFunction::apply(x, rows, dropout.probability, static_cast<int64_t>(dropout.key));
}

}  // namespace lockstep::nn
