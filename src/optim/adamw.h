#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::optim {

/// What is updated in one piece: a parameter, or the part of a parameter that this rank owns.
struct Segment {
  std::string name;
  at::Tensor parameter;  ///< Updated in place; same storage as the module's, or its fp32 master copy.
  bool decays = false;   ///< Decay group by ParamSpec: false = group 0 (no decay), true = group 1.
  at::Tensor gradient =
      {};  ///< Undefined: parameter.grad() at the time of the step. Of a narrower type: widened for the update.
  std::optional<std::pair<double, double>> bounds =
      std::nullopt;    ///< ParamSpec::bounds: clamped to these after each update.
  int64_t offset = 0;  ///< Of a part: its first element, counted in the parameter's memory.
};

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-6;
  double weight_decay = 0.2;  ///< Of group 1.
};

/// State of one segment; handles to the optimiser's own tensors.
struct AdamWState {
  std::string name;
  at::Tensor exp_avg, exp_avg_sq;  ///< Type, shape and strides of the parameter.
  at::Tensor step;                 ///< 0-dim fp32: updates made so far.
};

/// AdamW (Loshchilov & Hutter 2019), one fused call per decay group and type.
///
/// A segment without a gradient is left alone, as in torch. A gradient whose strides are not the parameter's is copied
/// first: the fused kernel pairs memory, not indices. Where copies would take more than 256 MB at once, a group takes
/// several calls.
class AdamW {
 public:
  AdamW(std::vector<Segment> segments, const AdamWConfig& config);

  /// Divides gradients by `grad_divisor` in place (undefined: by 1), then updates. `found_inf` (0-dim fp32) = 1 turns
  /// the whole call into a no-op on the device; undefined: always updates. No host synchronisation.
  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {});

  std::vector<at::Tensor> gradients() const;  ///< As of now; undefined where a segment has none.
  /// In segment order. Reading and writing through the handles exports and imports the state.
  std::vector<AdamWState> state() const;
  const std::vector<Segment>& segments() const { return segments_; }
  const AdamWConfig& config() const { return config_; }

 private:
  struct Group;  // segments that share fused calls
  std::vector<Group> groups_with_gradients() const;

  std::vector<Segment> segments_;
  AdamWConfig config_;
  std::vector<at::Tensor> exp_avgs_, exp_avg_sqs_, steps_;
};

}  // namespace lockstep::optim
