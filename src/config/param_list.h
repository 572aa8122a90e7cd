#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/param_spec.h"

namespace lockstep::config {

inline InitLaw zeros() { return {InitLaw::Kind::kZeros}; }
inline InitLaw ones() { return {InitLaw::Kind::kOnes}; }
inline InitLaw constant(double value) { return {InitLaw::Kind::kConstant, value}; }
inline InitLaw normal(double deviation) { return {InitLaw::Kind::kNormal, 0.0, deviation}; }
inline InitLaw uniform(double half_width) { return {InitLaw::Kind::kUniform, 0.0, half_width}; }
inline double inverse_root(int64_t count) { return 1.0 / std::sqrt(static_cast<double>(count)); }
/// Not drawn: row 0 is zero, the row of each cell of a square grid holds sines and cosines of its column, then of its
/// row, at width / 4 frequencies from 1 down to 1 / 10000 (He et al. 2021).
inline InitLaw sin_cos_2d(int64_t cells_per_side, int64_t width) {
  return {InitLaw::Kind::kSinCos2d, static_cast<double>(cells_per_side), static_cast<double>(width)};
}
/// PyTorch's default for Linear and Conv, weight (kaiming-uniform with a = sqrt 5) and bias alike.
inline InitLaw fan_in(int64_t inputs) { return uniform(inverse_root(inputs)); }

/// CLIP keeps the parameter ln(scale) within these, so that logits are multiplied by 1 to 100 (Radford et al. 2021).
inline constexpr double kLowestLogitScale = 0.0, kHighestLogitScale = 4.605170185988092;

/// OpenCLIP 3.3.0's rule of weight decay: none for vectors, scalars, and names that contain "bn", "ln", "bias" or
/// "logit_scale".
bool decays_in_openclip(const std::string& name, const std::vector<int64_t>& shape);

/// Collects the parameters of a model in forward order, with OpenCLIP 3.3.0's rule of weight decay.
class ParamList {
 public:
  /// `low_precision`: OpenCLIP converts it under --precision bf16 (weights of convolutions, linear layers and
  /// attention, projections).
  void add(const std::string& name, std::vector<int64_t> shape, InitLaw init, bool low_precision);
  /// What was added last is clamped to [low, high] after each update.
  void bound_last(double low, double high) { specs_.back().bounds = {low, high}; }
  void add_buffer(const std::string& name, std::vector<int64_t> shape, InitLaw init);
  void add_linear(const std::string& name, int64_t in, int64_t out, InitLaw weight, InitLaw bias);
  void add_layer_norm(const std::string& name, int64_t width);
  void add_conv(const std::string& name, int64_t in, int64_t out, int64_t kernel);
  void add_batch_norm(const std::string& name, int64_t channels, InitLaw weight = ones());
  /// What is listed from now on is carried (see ParamSpec), until switched off.
  void set_carried(bool carried) { carried_ = carried; }
  std::vector<ParamSpec> take() { return std::move(specs_); }

 private:
  std::vector<ParamSpec> specs_;
  bool carried_ = false;
};

}  // namespace lockstep::config
