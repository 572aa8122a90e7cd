#include "nn/fp8_state.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <vector>

#include "core/error.h"
#include "nn/work_recorder.h"

namespace lockstep::nn {
namespace {

at::ScalarType type_of(Fp8Operand operand, const Fp8Options& options) {
  return operand == Fp8Operand::kGradient ? options.gradient_type : at::kFloat8_e4m3fn;
}

}  // namespace

const Fp8Options& Fp8Linear::options() const { return state_.options_; }

Fp8Engine Fp8Linear::engine() const { return state_.engine_; }

at::Tensor Fp8Linear::current_scale(const at::Tensor& amax, at::ScalarType type) const {
  return fp8_scale(amax, at::full({}, fp8_max(type), amax.options()), options().margin, at::ones({}, amax.options()));
}

Fp8Tensor Fp8Linear::quantize(const at::Tensor& x, Fp8Operand operand, comm::Comm* sharers, bool is_transposed) {
  const c10::NoGradGuard no_grad;
  const at::ScalarType type = type_of(operand, options());
  if (options().recipe == Fp8Recipe::kTensorwise) {
    const at::Tensor amax = fp8_amax(x);
    if (sharers != nullptr) sharers->all_reduce(amax, comm::ReduceOp::kMax).wait();
    return fp8_quantize(x, type, current_scale(amax, type), {}, is_transposed);
  }
  const auto place = static_cast<int64_t>(operand);
  return fp8_quantize(x, type, scale_.select(0, place), is_training() ? amax_.select(0, place) : at::Tensor(),
                      is_transposed);
}

const Fp8Tensor& Fp8Linear::weight(const at::Tensor& weight, comm::Comm* sharers) {
  const uint32_t version = weight._version();
  if (weight_step_ != state_.num_steps_ || weight_version_ != version || weight_recording_ != recording_number()) {
    weight_ = quantize(weight, Fp8Operand::kWeight, sharers, is_training());
    transposed_weight_ = {};
    weight_step_ =
        is_training() ? state_.num_steps_ : -1;  // evaluation notes no largest value: training must round again
    weight_version_ = version;
    weight_recording_ = recording_number();
  }
  return weight_;
}

const Fp8Tensor& Fp8Linear::transposed_weight(const at::Tensor& weight, comm::Comm* sharers) {
  const Fp8Tensor& plain = this->weight(weight, sharers);
  if (!transposed_weight_.bits.defined()) {
    transposed_weight_ = plain.transpose();
    if (engine() == Fp8Engine::kScaledMm) transposed_weight_.bits = transposed_weight_.bits.contiguous();
  }
  return transposed_weight_;
}

Fp8State::Fp8State(const Fp8Options& options, int64_t num_linears, const at::Device& device)
    : options_(options), engine_(fp8_engine_of(device)), num_linears_(num_linears) {
  LOCKSTEP_CHECK(options.history_len >= 1 && options.margin >= 0, "history_len={} margin={}", options.history_len,
                 options.margin);
  if (options.recipe == Fp8Recipe::kTensorwise) return;
  const auto floats = at::TensorOptions(at::kFloat).device(device);
  const int64_t count = num_linears * kNumFp8Operands;
  amax_ = at::zeros({count}, floats);
  history_ = at::zeros({count, options.history_len}, floats);
  scale_ = at::ones({count}, floats);
  const double forward = fp8_max(at::kFloat8_e4m3fn), backward = fp8_max(options.gradient_type);
  max_ = at::tensor({forward, forward, backward}, floats).repeat({num_linears});
}

std::unique_ptr<Fp8Linear> Fp8State::add_linear() {
  LOCKSTEP_CHECK(num_added_ < num_linears_, "more than {} linear layers", num_linears_);
  std::unique_ptr<Fp8Linear> linear(new Fp8Linear(*this));
  if (options_.recipe == Fp8Recipe::kDelayed) {
    const int64_t first = num_added_ * kNumFp8Operands;
    linear->amax_ = amax_.narrow(0, first, kNumFp8Operands);
    linear->history_ = history_.narrow(0, first, kNumFp8Operands);
    linear->scale_ = scale_.narrow(0, first, kNumFp8Operands);
    linear->register_buffer("amax_history", linear->history_);
    linear->register_buffer("scale", linear->scale_);
  }
  ++num_added_;
  return linear;
}

/// A value that is not finite is not remembered: it would hide all others as long as the history reaches.
at::Tensor Fp8State::step_amax() const { return at::where(amax_.isfinite(), amax_, at::zeros_like(amax_)); }

void Fp8State::remember(const at::Tensor& amax) {
  history_.copy_(at::cat({amax.unsqueeze(1), history_.narrow(1, 0, options_.history_len - 1)}, 1));
  scale_.copy_(fp8_scale(options_.uses_max ? history_.amax(1) : amax, max_, options_.margin, scale_));
  amax_.zero_();
}

void finish_fp8_step(std::span<Fp8State* const> states, std::span<comm::Comm* const> axes) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (Fp8State* state : states) {
    ++state->num_steps_;
    if (state->options_.recipe == Fp8Recipe::kDelayed) parts.push_back(state->step_amax());
  }
  if (parts.empty()) return;
  const at::Tensor all = at::cat(parts);
  if (all.numel() == 0) return;
  for (comm::Comm* axis : axes) axis->all_reduce(all, comm::ReduceOp::kMax).wait();
  int64_t begin = 0;
  for (Fp8State* state : states) {
    const int64_t count = state->amax_.numel();
    state->remember(all.narrow(0, begin, count));
    begin += count;
  }
}

}  // namespace lockstep::nn
