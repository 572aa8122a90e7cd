#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::record {

/// What Megatron-LM says of an iteration, with tokens per second and device besides. Times and the loss are means over
/// the log interval, the loss over those of its iterations that were not skipped.
struct MegatronLine {
  double time_s = 0;      ///< Unix time, printed as local time.
  int64_t iteration = 0;  ///< From 1.
  int64_t num_iterations = 0;
  int64_t consumed_samples = 0;
  double iteration_ms = 0;
  double tflops_per_device = 0;  ///< Model FLOPs.
  double tokens_per_s_per_device = 0;
  double lr = 0;
  int64_t global_batch = 0;
  double loss = 0;
  std::optional<double> loss_scale{};
  std::optional<double> grad_norm{};
  std::optional<double> num_zeros{};  ///< In the gradient.
  std::optional<double> params_norm{};
  int64_t num_skipped = 0, num_nan = 0;  ///< Iterations in the interval.
};
std::string format_megatron_line(const MegatronLine& line);

/// " validation loss at iteration 10 | lm loss value: ... | lm loss PPL: ... | ": PPL is exp(min(20, loss)).
std::string format_megatron_validation(int64_t iteration, double loss);
double perplexity(double loss);

}  // namespace lockstep::record
