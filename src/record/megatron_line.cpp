#include "record/megatron_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace lockstep::record {
namespace {

/// "[2026-05-01 10:11:12.000000]"
std::string stamp(double time_s) {
  const double whole = std::floor(time_s);
  const auto seconds = static_cast<std::time_t>(whole);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("[{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}]", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                     static_cast<int>((time_s - whole) * 1e6));
}

}  // namespace

std::string format_megatron_line(const MegatronLine& line) {
  std::string text = fmt::format(
      " {} iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | throughput per "
      "GPU (TFLOP/s/GPU): {} | tokens per second per device: {:.1f} | learning rate: {:.6E} | global batch size: {:5} "
      "|",
      stamp(line.time_s), line.iteration, line.num_iterations, line.consumed_samples, line.iteration_ms,
      line.tflops_per_device < 1 ? fmt::format("{:.3f}", line.tflops_per_device)
                                 : fmt::format("{:.1f}", line.tflops_per_device),
      line.tokens_per_s_per_device, line.lr, line.global_batch);
  if (std::isfinite(line.loss)) text += fmt::format(" lm loss: {:.6E} |", line.loss);
  if (line.loss_scale) text += fmt::format(" loss scale: {:.1f} |", *line.loss_scale);
  if (line.grad_norm) text += fmt::format(" grad norm: {:.3f} |", *line.grad_norm);
  if (line.num_zeros) text += fmt::format(" num zeros: {:.1f} |", *line.num_zeros);
  if (line.params_norm) text += fmt::format(" params norm: {:.3f} |", *line.params_norm);
  return text + fmt::format(" number of skipped iterations: {:3} | number of nan iterations: {:3} |", line.num_skipped,
                            line.num_nan);
}

double perplexity(double loss) {
  constexpr double kMostExponent = 20;
  return std::exp(std::min(kMostExponent, loss));
}

std::string format_megatron_validation(int64_t iteration, double loss) {
  return fmt::format(" validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", iteration,
                     loss, perplexity(loss));
}

}  // namespace lockstep::record
