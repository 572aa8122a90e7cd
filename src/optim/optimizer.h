#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::optim {

/// What is updated in one piece: a parameter, or the part of a parameter that this rank owns.
struct Segment {
  std::string name;
  at::Tensor parameter;  ///< Updated in place; same storage as the module's, or its fp32 master copy.
  bool decays = false;   ///< Decay group by ParamSpec: false = group 0 (no decay), true = group 1.
  /// Undefined: parameter.grad() at the time of the step. Of a narrower type: widened for the update.
  at::Tensor gradient = {};
  /// ParamSpec::bounds: clamped to these after each update.
  std::optional<std::pair<double, double>> bounds = std::nullopt;
  int64_t offset = 0;          ///< Of a part: its first element, counted in the parameter's memory.
  double lr_scale = 1;         ///< By ParamSpec: times the learning rate of a step.
  bool is_pretrained = false;  ///< By ParamSpec; see SplitOptimizer.
};

/// What an optimiser keeps of one segment; handles to its own tensors.
struct SegmentState {
  std::string name;                                              ///< Of the segment.
  std::vector<std::pair<std::string, at::Tensor>> tensors = {};  ///< Type, shape and strides of the parameter.
  std::vector<std::pair<std::string, at::Tensor>> scalars = {};  ///< 0-dim, such as the number of updates.

  /// The tensor or scalar of this name, which must be there.
  const at::Tensor& at(std::string_view state_name) const;
};

/// Updates the parameters of a rank from their gradients.
///
/// A segment without a gradient is left alone, as in torch.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Divides gradients by `grad_divisor` in place (undefined: by 1), then updates. `found_inf` (0-dim fp32) = 1 turns
  /// the whole call into a no-op on the device; undefined: always updates. No host synchronisation.
  virtual void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) = 0;
  /// In segment order. Reading and writing through the handles exports and imports the state.
  virtual std::vector<SegmentState> state() const = 0;
  /// Every name that state() has, also of an optimiser without segments: checkpoints have tensors "exp_avg.NAME".
  virtual std::vector<std::string> state_names() const = 0;

  std::vector<at::Tensor> gradients() const;  ///< As of now; undefined where a segment has none.
  const std::vector<Segment>& segments() const { return segments_; }

 protected:
  explicit Optimizer(std::vector<Segment> segments);
  /// Of segments with bounds, after an update.
  void clamp_to_bounds() const;

 private:
  std::vector<Segment> segments_;
};

}  // namespace lockstep::optim
