#include "plan/batch_plan.h"

#include <limits>

#include "core/error.h"

namespace lockstep::plan {
namespace {

void check_positive(const std::optional<int64_t>& value, const std::string& flag) {
  if (value && *value < 1) throw UsageError(fmt::format("plan: {} is {}, expected at least 1", flag, *value));
}

int64_t multiply(int64_t a, int64_t b) {
  if (b != 0 && a > std::numeric_limits<int64_t>::max() / b)
    throw UsageError(fmt::format("plan: batch of {} x {} samples is beyond 64 bits", a, b));
  return a * b;
}

std::string ranks_text(int64_t num_data_ranks) {
  return num_data_ranks == 1 ? "1 rank" : fmt::format("{} data ranks", num_data_ranks);
}

/// "96 or 128": the multiples of `quantum` next to `value`.
std::string neighbours(int64_t value, int64_t quantum) {
  const int64_t below = value / quantum * quantum;
  if (below == 0) return fmt::format("{}", quantum);
  if (below > std::numeric_limits<int64_t>::max() - quantum) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, below + quantum);
}

/// The largest micro-batch up to `wanted` with which the global batch divides evenly; 0: none, or not looked for.
int64_t fitting_micro_batch(int64_t num_data_ranks, int64_t global_batch, int64_t wanted) {
  constexpr int64_t kMostTried = 1 << 20;
  if (global_batch % num_data_ranks != 0 || wanted > kMostTried) return 0;
  int64_t micro_batch = std::min(wanted, global_batch / num_data_ranks);
  while (global_batch / num_data_ranks % micro_batch != 0) --micro_batch;
  return micro_batch;
}

/// `micro_batch` would fit; 0: none would, or it was not asked for.
[[noreturn]] void throw_misfit(int64_t global_batch, int64_t quantum, const std::string& factors,
                               const BatchFlags& flags, int64_t micro_batch = 0) {
  const std::string smaller =
      micro_batch == 0 ? "" : fmt::format("{} {}, or else ", flags.micro_batch_size, micro_batch);
  throw UsageError(fmt::format("plan: the global batch does not divide evenly: {}={}, expected a multiple of {} ({})",
                               flags.global_batch, global_batch, quantum, factors),
                   fmt::format("use {}{} {}", smaller, flags.global_batch, neighbours(global_batch, quantum)));
}

BatchPlan from_global(int64_t num_data_ranks, int64_t global_batch, const BatchRequest& request,
                      const BatchFlags& flags) {
  if (!request.micro_batch_size) {
    const int64_t num_micro_batches = request.num_micro_batches.value_or(1);
    const int64_t quantum = multiply(num_data_ranks, num_micro_batches);
    if (global_batch % quantum != 0)
      throw_misfit(global_batch, quantum,
                   fmt::format("{} x {} {}", ranks_text(num_data_ranks), flags.num_micro_batches, num_micro_batches),
                   flags);
    return {num_data_ranks, global_batch / quantum, num_micro_batches, global_batch};
  }
  const int64_t quantum = multiply(num_data_ranks, *request.micro_batch_size);
  const std::string factors =
      fmt::format("{} x {} {}", ranks_text(num_data_ranks), flags.micro_batch_size, *request.micro_batch_size);
  if (request.num_micro_batches && global_batch != multiply(quantum, *request.num_micro_batches))
    throw UsageError(fmt::format("plan: {}={} contradicts {} x {} {}", flags.global_batch, global_batch, factors,
                                 flags.num_micro_batches, *request.num_micro_batches),
                     fmt::format("leave out one of the three flags, or use {} {}", flags.global_batch,
                                 multiply(quantum, *request.num_micro_batches)));
  if (global_batch % quantum != 0)
    throw_misfit(global_batch, quantum, factors, flags,
                 fitting_micro_batch(num_data_ranks, global_batch, *request.micro_batch_size));
  const int64_t num_micro_batches = global_batch / quantum;
  return {num_data_ranks, *request.micro_batch_size, num_micro_batches, global_batch};
}

}  // namespace

BatchPlan make_batch_plan(int64_t num_data_ranks, const BatchRequest& request, const BatchFlags& flags) {
  LOCKSTEP_CHECK(num_data_ranks >= 1, "num_data_ranks={}", num_data_ranks);
  check_positive(request.micro_batch_size, flags.micro_batch_size);
  check_positive(request.num_micro_batches, flags.num_micro_batches);
  check_positive(request.global_batch, flags.global_batch);
  if (request.global_batch) return from_global(num_data_ranks, *request.global_batch, request, flags);
  if (!request.micro_batch_size)
    throw UsageError("plan: the batch size is not given",
                     fmt::format("set {} or {}", flags.micro_batch_size, flags.global_batch));
  const int64_t num_micro_batches = request.num_micro_batches.value_or(1);
  return {num_data_ranks, *request.micro_batch_size, num_micro_batches,
          multiply(multiply(*request.micro_batch_size, num_micro_batches), num_data_ranks)};
}

}  // namespace lockstep::plan
