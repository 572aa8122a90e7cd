#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <optional>
#include <vector>

#include "core/error.h"
#include "core/units.h"
#include "nn/graph_capture_internal.h"
#include "nn/work_recorder.h"

namespace lockstep::nn {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class RecordedGraphs final : public RecordedWork {
 public:
  RecordedGraphs(std::shared_ptr<internal::GraphMemory> memory, std::vector<std::shared_ptr<CUgraphExec_st>> graphs)
      : memory_(std::move(memory)), graphs_(std::move(graphs)) {}
  size_t num_parts() const override { return graphs_.size(); }
  void replay(size_t part) override {
    const c10::cuda::CUDAGuard on_device(memory_->device());
    C10_CUDA_CHECK(cudaGraphLaunch(graphs_.at(part).get(), c10::cuda::getCurrentCUDAStream(memory_->device())));
  }

 private:
  std::shared_ptr<internal::GraphMemory> memory_;
  std::vector<std::shared_ptr<CUgraphExec_st>> graphs_;
};

/// Memory that a step takes beside what is there between steps, as far as the allocator has seen any.
int64_t bytes_of_step(c10::DeviceIndex device) {
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingDeviceAllocator::DeviceStats stats = allocator::getDeviceStats(device);
  const auto& bytes = stats.allocated_bytes[all];
  return bytes.peak - bytes.current;
}

void check_room(c10::DeviceIndex device) {
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const auto needed = 2 * static_cast<double>(bytes_of_step(device));  // one for the graphs, one for all else
  if (static_cast<double>(free) < needed)
    throw EnvironmentError(fmt::format("{} of memory are free, a step and what else runs may take {}",
                                       core::format_bytes(static_cast<double>(free)), core::format_bytes(needed)));
}

class CudaGraphRecorder final : public WorkRecorder {
 public:
  explicit CudaGraphRecorder(const at::Device& device) : device_(device) {}

  void rehearse(const std::function<void()>& work) override {
    const auto& place = this->place();
    internal::wait_before_capture();  // the streams take turns, each with memory of its own
    {
      const c10::cuda::CUDAStreamGuard on_side(place.stream);
      work();
    }
    c10::cuda::device_synchronize();  // sync: as above
  }

  std::unique_ptr<RecordedWork> record(const std::function<void(const EndPart&)>& work) override {
    const auto& place = this->place();
    internal::wait_before_capture();
    check_room(place.memory->device());
    std::vector<std::shared_ptr<CUgraphExec_st>> graphs;
    const c10::cuda::CUDAStreamGuard on_side(place.stream);
    const RecordingScope recording;
    std::optional<internal::StreamCapture> capture(std::in_place, *place.memory);
    work([&] {
      graphs.push_back(capture->finish());
      capture.emplace(*place.memory);
    });
    capture.reset();  // behind the last part nothing was launched
    return std::make_unique<RecordedGraphs>(place.memory, std::move(graphs));
  }

 private:
  /// Made by the first use: an allocator that has no private memory throws there.
  const internal::CapturePlace& place() {
    if (!place_) place_ = internal::make_capture_place(device_);
    return *place_;
  }

  at::Device device_;
  std::optional<internal::CapturePlace> place_;
};

}  // namespace

std::unique_ptr<WorkRecorder> make_cuda_work_recorder(const at::Device& device) {
  return std::make_unique<CudaGraphRecorder>(device);
}

}  // namespace lockstep::nn
