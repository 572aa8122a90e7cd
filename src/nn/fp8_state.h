#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <span>

#include "nn/fp8.h"
#include "nn/module.h"
#include "nn/shard.h"

namespace lockstep::nn {

enum class Fp8Recipe {
  kDelayed,     ///< Scales come of the largest values of steps before: known before the tensor is.
  kTensorwise,  ///< Of the largest value of the tensor itself, all ranks' parts of it.
};

/// How linear layers compute in 8 bits. Names and meaning of Transformer Engine's recipes, but that scales change once
/// per step, not once per micro-batch: results then do not depend on the order of a pipeline's micro-batches.
struct Fp8Options {
  Fp8Recipe recipe = Fp8Recipe::kDelayed;
  /// "hybrid"; "e4m3" has kFloat8_e4m3fn. Inputs and weights are always E4M3.
  at::ScalarType gradient_type = at::kFloat8_e5m2;
  int64_t margin = 0;       ///< Powers of two between the largest value and the type's.
  int64_t history_len = 1;  ///< kDelayed: steps that are remembered.
  bool uses_max = false;    ///< kDelayed: the largest of them counts, else that of the last step.
};

enum class Fp8Operand { kInput, kWeight, kGradient };
inline constexpr int64_t kNumFp8Operands = 3;

class Fp8State;

/// The operands of one linear layer: scales, and what they will be made of. Under kDelayed its buffers are
/// "amax_history" [operand, step], newest step first, and "scale" [operand]. Largest values are noted in training only.
class Fp8Linear : public Module {
 public:
  /// x in 8 bits. `sharers`: ranks that hold the other parts of it (nullptr: x is whole). Under kTensorwise collective
  /// over them, one all-reduce, so that results do not depend on how many they are.
  /// `is_transposed`: see fp8_quantize().
  Fp8Tensor quantize(const at::Tensor& x, Fp8Operand operand, comm::Comm* sharers = nullptr,
                     bool is_transposed = false);
  /// The weight, kept until it changes or the step ends.
  const Fp8Tensor& weight(const at::Tensor& weight, comm::Comm* sharers = nullptr);
  /// Its transpose, with rows one after the other where the engine wants that.
  const Fp8Tensor& transposed_weight(const at::Tensor& weight, comm::Comm* sharers = nullptr);

  const Fp8Options& options() const;
  Fp8Engine engine() const;

 private:
  friend class Fp8State;
  explicit Fp8Linear(const Fp8State& state) : state_(state) {}
  at::Tensor current_scale(const at::Tensor& amax, at::ScalarType type) const;

  const Fp8State& state_;
  at::Tensor amax_, history_, scale_;  // views of the state's, kDelayed only
  Fp8Tensor weight_, transposed_weight_;
  int64_t weight_step_ = -1;
  uint32_t weight_version_ = 0;
  uint64_t weight_recording_ = 0;  // recording_number() then
};

/// The linear layers of a part of a model. Outlives them.
class Fp8State {
 public:
  /// `num_linears`: calls of add_linear to come.
  Fp8State(const Fp8Options& options, int64_t num_linears, const at::Device& device);
  Fp8State(const Fp8State&) = delete;
  Fp8State& operator=(const Fp8State&) = delete;

  std::unique_ptr<Fp8Linear> add_linear();
  const Fp8Options& options() const { return options_; }

 private:
  friend class Fp8Linear;
  friend void finish_fp8_step(std::span<Fp8State* const> states, std::span<comm::Comm* const> axes);
  at::Tensor step_amax() const;
  void remember(const at::Tensor& amax);

  Fp8Options options_;
  Fp8Engine engine_;
  int64_t num_linears_, num_added_ = 0, num_steps_ = 0;
  // [linear operand], history [linear operand, step]; undefined unless kDelayed
  at::Tensor amax_, history_, scale_, max_;
};

/// After the last pass of a training step, for all parts of a rank: scales for the next step. Collective over the axes
/// under kDelayed, one all-reduce each: those who share the layers and those who see other samples must agree on
/// scales.
void finish_fp8_step(std::span<Fp8State* const> states, std::span<comm::Comm* const> axes);

}  // namespace lockstep::nn
