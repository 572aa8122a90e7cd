// Order of waits, side stream and memory as in torch.cuda.graph (torch/cuda/graphs.py). at::cuda::CUDAGraph is not
// used: when a capture fails, its capture_end() throws before it ends the redirection of allocations to the private
// memory.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include <vector>

#include "core/error.h"
#include "nn/graph_capture_internal.h"

namespace lockstep::nn::internal {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

using Graph = std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)>;

bool is_on_host(const void* address) {
  if (address == nullptr) return false;
  cudaPointerAttributes attributes{};
  C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
}

void refuse_host_copies(cudaGraph_t graph) {
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeHost) throw EnvironmentError("a function of the host is called");
    if (type != cudaGraphNodeTypeMemcpy) continue;
    cudaMemcpy3DParms copy{};
    C10_CUDA_CHECK(cudaGraphMemcpyNodeGetParams(node, &copy));
    if (is_on_host(copy.srcPtr.ptr) || is_on_host(copy.dstPtr.ptr))
      throw EnvironmentError(fmt::format("{} bytes are copied from or to memory of the host", copy.extent.width));
  }
}

}  // namespace

GraphMemory::GraphMemory(c10::DeviceIndex device) : device_(device), id_(at::cuda::graph_pool_handle()) {
  allocator::createOrIncrefPool(device_, id_);
}

GraphMemory::~GraphMemory() { allocator::releasePool(device_, id_); }

void GraphMemory::begin(cudaStream_t stream) {
  allocator::beginAllocateToPool(device_, id_, [stream](cudaStream_t other) { return other == stream; });
}

/// begin() counted one more user, which the constructor's count makes needless.
void GraphMemory::end() {
  allocator::endAllocateToPool(device_, id_);
  allocator::releasePool(device_, id_);
}

/// Only this thread is kept from what a capture forbids: others read pictures into pinned memory.
StreamCapture::StreamCapture(GraphMemory& memory)
    : memory_(memory), stream_(c10::cuda::getCurrentCUDAStream(memory.device())) {
  memory_.begin(stream_);
  const cudaError_t begun = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (begun == cudaSuccess) return;
  memory_.end();
  C10_CUDA_CHECK(begun);
}

StreamCapture::~StreamCapture() {
  if (!is_under_way_) return;
  cudaGraph_t graph = nullptr;
  if (end(&graph) == cudaSuccess && graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();  // that of a forbidden call, which would else be taken for the next call's
}

int64_t StreamCapture::discard() {
  cudaGraph_t captured = nullptr;
  C10_CUDA_CHECK(end(&captured));
  LOCKSTEP_CHECK(captured != nullptr, "a capture without a graph");
  const Graph graph(captured, cudaGraphDestroy);
  size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &count));
  return static_cast<int64_t>(count);
}

std::shared_ptr<CUgraphExec_st> StreamCapture::finish() {
  cudaGraph_t captured = nullptr;
  C10_CUDA_CHECK(end(&captured));
  LOCKSTEP_CHECK(captured != nullptr, "a capture without a graph");
  const Graph graph(captured, cudaGraphDestroy);
  refuse_host_copies(graph.get());
  cudaGraphExec_t executable = nullptr;
  C10_CUDA_CHECK(cudaGraphInstantiate(&executable, graph.get(), cudaGraphInstantiateFlagAutoFreeOnLaunch));
  // A launch that is under way goes on; CUDA frees the graph behind it.
  return {executable, [](cudaGraphExec_t done) { (void)cudaGraphExecDestroy(done); }};
}

cudaError_t StreamCapture::end(cudaGraph_t* graph) {
  is_under_way_ = false;
  const cudaError_t ended = cudaStreamEndCapture(stream_, graph);
  memory_.end();
  return ended;
}

CapturePlace make_capture_place(const c10::Device& device) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
  return {std::make_shared<GraphMemory>(index), c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)};
}

void wait_before_capture() {
  c10::cuda::device_synchronize();  // sync: nothing of before runs beside the capture
  allocator::emptyCache();          // blocks of ordinary memory cannot become private ones
}

}  // namespace lockstep::nn::internal
