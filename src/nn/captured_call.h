#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace lockstep::nn {

/// A tensor from tensors of one device, there.
using TensorCall = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Records what `call` does with `inputs`; what it gives back does the same with other inputs of their form (sizes,
/// strides, types), on the stream that is current then, and keeps neither them nor its result. Waits for the device.
/// Throws where `call` cannot be recorded.
using CallRecorder = std::function<TensorCall(const TensorCall& call, const std::vector<at::Tensor>& inputs)>;

/// Records CUDA graphs on `device`: none where --cuda-graphs {auto,off} says off, or for another kind of device.
///
/// A replay is one launch instead of one for each kernel, with their bits. A call that waits for the device, draws
/// random numbers there or copies from pageable memory of the host cannot be recorded. It must not read other memory of
/// the host either, nor memory that is gone or means something else when it is replayed (weights stay where they are).
/// All recordings of one recorder share their memory: they are made and replayed by one thread, on one stream.
CallRecorder call_recorder(std::string_view cuda_graphs, const at::Device& device);

/// As call_recorder with "auto" for a CUDA device.
CallRecorder cuda_graph_recorder(const at::Device& device);

/// Which calls are recorded.
struct CaptureLimits {
  int64_t most_samples = 32;  ///< Rows of the first input; with more the kernels take longer than their launches.
  int64_t least_calls = 3;    ///< The so manieth call of a form records it.
  int64_t most_forms = 16;    ///< Recorded at a time.
  /// A recording makes way, the least recently used one first, when the last so many calls did not use it. Without that
  /// rule many forms in turn would be recorded again and again, and waiting for the device costs more than it gains.
  int64_t idle_calls = 1000;
};

/// A call that is recorded for each form of its inputs that comes often, and replayed from then on. Results belong to
/// the caller. Once something cannot be recorded, which is told in the log, all calls are plain ones.
/// For inference: no gradient passes through a replay.
class CapturedCall {
 public:
  CapturedCall() = default;
  /// Without a recorder every call is plain.
  CapturedCall(TensorCall call, CallRecorder recorder, const CaptureLimits& limits = {});

  at::Tensor operator()(const std::vector<at::Tensor>& inputs);
  /// Without a look at recordings.
  at::Tensor plain(const std::vector<at::Tensor>& inputs) const { return call_(inputs); }
  /// Forms that are replayed now.
  int64_t num_recorded() const;

 private:
  struct Form {
    int64_t num_calls = 0, last_call = 0;
    TensorCall replay;  // empty until it is recorded
  };
  using Forms = std::map<std::vector<int64_t>, Form>;

  Form& find_form(const std::vector<at::Tensor>& inputs);
  bool make_room();

  TensorCall call_;
  CallRecorder recorder_;
  CaptureLimits limits_;
  int64_t num_calls_ = 0;
  Forms forms_;
};

}  // namespace lockstep::nn
