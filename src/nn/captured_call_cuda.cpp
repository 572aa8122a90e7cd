// Order of waits, side stream and memory as in torch.cuda.graph (torch/cuda/graphs.py). at::cuda::CUDAGraph is not
// used: when a capture fails, its capture_end() throws before it ends the redirection of allocations to the private
// memory.
#include "nn/captured_call.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"

namespace lockstep::nn {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Memory that only graphs of one recorder use, which outlive each other in any order.
class GraphMemory {
 public:
  explicit GraphMemory(c10::DeviceIndex device) : device_(device), id_(at::cuda::graph_pool_handle()) {
    allocator::createOrIncrefPool(device_, id_);
  }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory() { allocator::releasePool(device_, id_); }

  c10::DeviceIndex device() const { return device_; }
  /// What is allocated on the stream comes from here until end().
  void begin(cudaStream_t stream) {
    allocator::beginAllocateToPool(device_, id_, [stream](cudaStream_t other) { return other == stream; });
  }
  /// begin() counted one more user, which the constructor's count makes needless.
  void end() {
    allocator::endAllocateToPool(device_, id_);
    allocator::releasePool(device_, id_);
  }

 private:
  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
};

/// Captures what is launched on the current stream of this thread until finish().
class StreamCapture {
 public:
  /// Only this thread is kept from what a capture forbids: others read pictures into pinned memory.
  explicit StreamCapture(GraphMemory& memory)
      : memory_(memory), stream_(c10::cuda::getCurrentCUDAStream(memory.device())) {
    memory_.begin(stream_);
    const cudaError_t begun = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (begun == cudaSuccess) return;
    memory_.end();
    C10_CUDA_CHECK(begun);
  }
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  ~StreamCapture() {
    if (!is_under_way_) return;
    cudaGraph_t graph = nullptr;
    if (end(&graph) == cudaSuccess && graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();  // that of a forbidden call, which would else be taken for the next call's
  }
  cudaGraph_t finish() {
    cudaGraph_t graph = nullptr;
    C10_CUDA_CHECK(end(&graph));
    LOCKSTEP_CHECK(graph != nullptr, "a capture without a graph");
    return graph;
  }

 private:
  cudaError_t end(cudaGraph_t* graph) {
    is_under_way_ = false;
    const cudaError_t ended = cudaStreamEndCapture(stream_, graph);
    memory_.end();
    return ended;
  }

  GraphMemory& memory_;
  c10::cuda::CUDAStream stream_;
  bool is_under_way_ = true;
};

/// One recorded call: buffers that it reads, the graph, and the buffer that it writes.
class RecordedGraph {
 public:
  RecordedGraph(std::shared_ptr<GraphMemory> memory, c10::cuda::CUDAStream side_stream, const TensorCall& call,
                const std::vector<at::Tensor>& inputs)
      : memory_(std::move(memory)) {
    for (const at::Tensor& input : inputs) inputs_.push_back(input.clone());
    c10::cuda::device_synchronize();  // sync: the buffers are there, and nothing of before runs beside the capture
    const c10::cuda::CUDAStreamGuard on_side(side_stream);
    call(inputs_);                    // what libraries set up for a stream may wait, or allocate for good
    c10::cuda::device_synchronize();  // sync: as above
    allocator::emptyCache();          // blocks of ordinary memory cannot become private ones
    StreamCapture capture(*memory_);
    output_ = call(inputs_);
    const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> graph(capture.finish(), cudaGraphDestroy);
    LOCKSTEP_CHECK(output_.is_cuda(), "a recorded call gives a tensor on '{}'", output_.device().str());
    C10_CUDA_CHECK(cudaGraphInstantiate(&graph_, graph.get(), cudaGraphInstantiateFlagAutoFreeOnLaunch));
  }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  /// A launch that is under way goes on; CUDA frees the graph behind it.
  ~RecordedGraph() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  }

  at::Tensor replay(const std::vector<at::Tensor>& inputs) {
    const c10::cuda::CUDAGuard on_device(memory_->device());
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
    C10_CUDA_CHECK(cudaGraphLaunch(graph_, c10::cuda::getCurrentCUDAStream(memory_->device())));
    return output_.clone();  // the next replay writes there
  }

 private:
  std::shared_ptr<GraphMemory> memory_;  // before the tensors that lie in it
  std::vector<at::Tensor> inputs_;
  at::Tensor output_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

CallRecorder cuda_graph_recorder(const at::Device& device) {
  // Made by the first recording: an allocator that has no private pools throws there, where calls become plain ones.
  struct Place {
    std::shared_ptr<GraphMemory> memory;
    c10::cuda::CUDAStream side_stream;
  };
  const auto place = std::make_shared<std::optional<Place>>();
  return [place, device](const TensorCall& call, const std::vector<at::Tensor>& inputs) -> TensorCall {
    const c10::NoGradGuard no_grad;
    if (!*place) {
      at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
      const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
      *place =
          Place{std::make_shared<GraphMemory>(index), c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)};
    }
    const auto recorded = std::make_shared<RecordedGraph>((*place)->memory, (*place)->side_stream, call, inputs);
    return [recorded](const std::vector<at::Tensor>& others) {
      const c10::NoGradGuard no_grad_either;
      return recorded->replay(others);
    };
  };
}

}  // namespace lockstep::nn
