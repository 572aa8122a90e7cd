#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "nn/captured_call.h"
#include "nn/graph_capture_internal.h"

namespace lockstep::nn {
namespace {

/// One recorded call: buffers that it reads, the graph, and the buffer that it writes.
class RecordedGraph {
 public:
  RecordedGraph(const internal::CapturePlace& place, const TensorCall& call, const std::vector<at::Tensor>& inputs)
      : memory_(place.memory) {
    for (const at::Tensor& input : inputs) inputs_.push_back(input.clone());
    c10::cuda::device_synchronize();  // sync: the buffers are there
    const c10::cuda::CUDAStreamGuard on_side(place.stream);
    call(inputs_);  // what libraries set up for a stream may wait, or allocate for good
    internal::wait_before_capture();
    internal::StreamCapture capture(*memory_);
    output_ = call(inputs_);
    graph_ = capture.finish();
    LOCKSTEP_CHECK(output_.is_cuda(), "a recorded call gives a tensor on '{}'", output_.device().str());
  }

  at::Tensor replay(const std::vector<at::Tensor>& inputs) {
    const c10::cuda::CUDAGuard on_device(memory_->device());
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
    C10_CUDA_CHECK(cudaGraphLaunch(graph_.get(), c10::cuda::getCurrentCUDAStream(memory_->device())));
    return output_.clone();  // the next replay writes there
  }

 private:
  std::shared_ptr<internal::GraphMemory> memory_;  // before the tensors that lie in it
  std::vector<at::Tensor> inputs_;
  at::Tensor output_;
  std::shared_ptr<CUgraphExec_st> graph_;
};

}  // namespace

CallRecorder cuda_graph_recorder(const at::Device& device) {
  // Made by the first recording: an allocator that has no private pools throws there, where calls become plain ones.
  const auto place = std::make_shared<std::optional<internal::CapturePlace>>();
  return [place, device](const TensorCall& call, const std::vector<at::Tensor>& inputs) -> TensorCall {
    const c10::NoGradGuard no_grad;
    if (!*place) *place = internal::make_capture_place(device);
    const auto recorded = std::make_shared<RecordedGraph>(**place, call, inputs);
    return [recorded](const std::vector<at::Tensor>& others) {
      const c10::NoGradGuard no_grad_either;
      return recorded->replay(others);
    };
  };
}

}  // namespace lockstep::nn
