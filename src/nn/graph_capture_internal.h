#pragma once
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace lockstep::nn::internal {

/// Memory that only the graphs of one recorder use, which outlive each other in any order.
class GraphMemory {
 public:
  explicit GraphMemory(c10::DeviceIndex device);
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();

  c10::DeviceIndex device() const { return device_; }
  /// What is allocated on the stream comes from here until end().
  void begin(cudaStream_t stream);
  void end();

 private:
  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
};

/// Captures what is launched on the current stream of this thread until finish().
class StreamCapture {
 public:
  explicit StreamCapture(GraphMemory& memory);
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  ~StreamCapture();  ///< Throws away what was captured.

  int64_t discard();  ///< The same: of so many kernels, copies and the like.

  /// Throws where something reads or writes memory of the host: it would mean something else when it is replayed.
  std::shared_ptr<CUgraphExec_st> finish();

 private:
  cudaError_t end(cudaGraph_t* graph);

  GraphMemory& memory_;
  c10::cuda::CUDAStream stream_;
  bool is_under_way_ = true;
};

/// A recorder's memory and the stream on which it captures.
struct CapturePlace {
  std::shared_ptr<GraphMemory> memory;
  c10::cuda::CUDAStream stream;
};
/// Throws with an allocator that has no private memory.
CapturePlace make_capture_place(const c10::Device& device);

/// Between two of them nothing of before runs beside what follows, and what the allocator holds in reserve is free.
void wait_before_capture();

}  // namespace lockstep::nn::internal
