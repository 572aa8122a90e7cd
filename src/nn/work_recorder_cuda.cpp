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

c10::CachingDeviceAllocator::DeviceStats stats_of(c10::DeviceIndex device) { return allocator::getDeviceStats(device); }

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

class CudaGraphRecorder final : public WorkRecorder {
 public:
  explicit CudaGraphRecorder(const at::Device& device) : device_(device) {}

  void rehearse(const std::function<void()>& work) override {
    const auto& place = this->place();
    internal::wait_before_capture();  // the streams take turns, each with memory of its own
    check_room();
    {
      const c10::cuda::CUDAStreamGuard on_side(place.stream);
      work();
    }
    c10::cuda::device_synchronize();  // sync: as above
  }

  std::unique_ptr<RecordedWork> record(const std::function<void(const EndPart&)>& work) override {
    try {
      internal::wait_before_capture();
      check_room();
      const int64_t before = stats_of(place().memory->device()).reserved_bytes[kAll].current;
      auto recorded = std::make_unique<RecordedGraphs>(place().memory, capture_parts(work));
      held_bytes_ += stats_of(place().memory->device()).reserved_bytes[kAll].current - before;
      return recorded;
    } catch (...) {
      if (held_bytes_ == 0) place_.reset();  // its memory goes back: no recording lies in it
      throw;
    }
  }

 private:
  std::vector<std::shared_ptr<CUgraphExec_st>> capture_parts(const std::function<void(const EndPart&)>& work) {
    const auto& place = this->place();
    std::vector<std::shared_ptr<CUgraphExec_st>> graphs;
    const c10::cuda::CUDAStreamGuard on_side(place.stream);
    const RecordingScope recording;
    std::optional<internal::StreamCapture> capture(std::in_place, *place.memory);
    work([&] {
      graphs.push_back(capture->finish());
      capture.emplace(*place.memory);
    });
    const int64_t num_left = capture->discard();
    LOCKSTEP_CHECK(num_left == 0, "{} launches behind the last part", num_left);
    return graphs;
  }

  /// For a step in memory of its own and for all else that runs between steps, which may take as much. What a step
  /// takes beside the memory between steps is known as far as the allocator has seen any.
  void check_room() {
    const c10::DeviceIndex device = place().memory->device();
    const auto bytes = stats_of(device).allocated_bytes[kAll];
    const auto needed = 2 * static_cast<double>(bytes.peak - bytes.current) - static_cast<double>(held_bytes_);
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    if (static_cast<double>(free) < needed)
      throw EnvironmentError(fmt::format("{} of memory are free, a step and what else runs may take {}",
                                         core::format_bytes(static_cast<double>(free)), core::format_bytes(needed)));
  }

  /// Made by the first use: an allocator that has no private memory throws there.
  const internal::CapturePlace& place() {
    if (!place_) place_ = internal::make_capture_place(device_);
    return *place_;
  }

  at::Device device_;
  std::optional<internal::CapturePlace> place_;
  int64_t held_bytes_ = 0;  // by recordings so far, which share them
};

}  // namespace

std::unique_ptr<WorkRecorder> make_cuda_work_recorder(const at::Device& device) {
  return std::make_unique<CudaGraphRecorder>(device);
}

}  // namespace lockstep::nn
