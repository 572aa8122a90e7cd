#include "train/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

namespace lockstep::train {
namespace {

/// LibTorch's own words, without its stack and its advice, which names variables that few know.
std::string first_sentence(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  return text.substr(0, std::min(text.find('\n'), text.find(" If reserved")));
}

/// What the front plans for this run; "" where it cannot say.
std::string plan_text(const TrainRequest& request, int64_t num_ranks) {
  try {
    return request.planned_memory ? request.planned_memory(num_ranks) : "";
  } catch (const std::exception&) {
    return "";  // the failed allocation is what users must hear of
  }
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
      dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return true;
  // Of the CPU's allocator; of CUDA itself, which pinned memory and graphs ask; of cuBLAS and cuDNN.
  constexpr std::array<std::string_view, 4> kSigns{"DefaultCPUAllocator: ", "CUDA error: out of memory",
                                                   "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"};
  const std::string_view text = error.what();
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return text.find(sign) != std::string_view::npos; });
}

EnvironmentError explain_out_of_memory(const std::exception& error, const TrainRequest& request, int64_t num_ranks) {
  const std::string plan = plan_text(request, num_ranks);
  return EnvironmentError(
      fmt::format("train: out of memory: {}{}", first_sentence(error), plan.empty() ? "" : "; planned: " + plan),
      fmt::format(
          "use fewer samples at a time (--batch-size, --micro-batch-size) with more micro-batches, "
          "recomputation, or more ranks that share the state{}; the same command with --dry-run shows the memory "
          "by part",
          request.options.cuda_graphs == "off" ? "" : ", on a GPU also --cuda-graphs off"));
}

}  // namespace lockstep::train
