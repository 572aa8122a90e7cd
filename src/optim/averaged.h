#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/named_tensor.h"
#include "optim/optimizer.h"

namespace lockstep::optim {

/// Exponential moving average of weights, as torchvision's reference recipes keep it.
struct AverageConfig {
  double decay = 0.99998;        ///< Share of the average that stays at an update.
  int64_t steps_per_update = 1;  ///< Optimiser steps between two updates.
  int64_t steps_per_epoch = 1;   ///< Updates are counted from the first step of each epoch.
  int64_t num_copied_steps = 0;  ///< Up to this step an update copies the weights (the warm-up), as the one after it.
};

inline constexpr const char* kAverageState = "ema";  ///< Its name in checkpoints: "ema.PARAMETER".

/// An optimiser that also keeps averages of what it updates, and of `buffers` (running statistics). They are part of
/// its state, kAverageState, so that checkpoints hold them and each rank keeps those of the segments it has.
class AveragedOptimizer final : public Optimizer {
 public:
  /// Averages begin as the present values.
  AveragedOptimizer(std::unique_ptr<Optimizer> inner, const std::vector<comm::NamedTensor>& buffers,
                    const AverageConfig& config);
  /// As the inner optimiser's; then, where the step is one that updates, the averages. A step that `found_inf` turned
  /// into a no-op counts, as it does there. The first call waits for the device once.
  void step(double lr, const at::Tensor& grad_divisor = {}, const at::Tensor& found_inf = {}) override;
  std::vector<SegmentState> state() const override;
  std::vector<std::string> state_names() const override;
  /// Weights and buffers of this rank change places with their averages.
  void swap_averages();

 private:
  void update_averages(bool is_copy);

  std::unique_ptr<Optimizer> inner_;
  AverageConfig config_;
  std::vector<at::Tensor> averages_, counts_;  // of each segment: its average, and the steps done
  int64_t num_steps_ = -1;                     // the same for the host; -1: not read yet
};

}  // namespace lockstep::optim
