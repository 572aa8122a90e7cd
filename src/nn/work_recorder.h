#pragma once
#include <ATen/core/TensorBody.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace lockstep::nn {

/// What a WorkRecorder recorded, in parts.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual size_t num_parts() const = 0;
  /// Does the part again, with the tensors that it read and wrote when it was recorded. On the current stream; waits
  /// for nothing. Parts are replayed in their order.
  virtual void replay(size_t part) = 0;
};

/// Records what a training step does on a device, backward passes included, so that it can be repeated without the
/// host's work for each kernel.
class WorkRecorder {
 public:
  /// Ends a part: what was launched since the end of the one before.
  using EndPart = std::function<void()>;

  virtual ~WorkRecorder() = default;
  /// Does the work once, in the way and place of record(), so that libraries are ready.
  virtual void rehearse(const std::function<void()>& work) = 0;
  /// Runs the host's side of the work: the device does none of it yet. What it launches belongs to parts that end where
  /// it says. Waits for the device. Throws where the work waits for the device, copies from or to the host, or draws
  /// random numbers (refuse_recording).
  virtual std::unique_ptr<RecordedWork> record(const std::function<void(const EndPart&)>& work) = 0;
};

/// By CUDA graphs; nullptr where --cuda-graphs {auto,off} says off, or for another kind of device. All that one
/// recorder recorded shares its memory: it is replayed by one thread, on one stream, one after the other, and what a
/// replay leaves behind is used before the next one of another recording. record() throws where less memory is free
/// than two steps took so far: the memory of recorded steps is never free for anything else.
std::unique_ptr<WorkRecorder> make_work_recorder(std::string_view cuda_graphs, const at::Device& device);
std::unique_ptr<WorkRecorder> make_cuda_work_recorder(const at::Device& device);

/// Throws where this thread is recording: `what` would be the same in each replay. For work whose numbers the host
/// chooses anew each time: random draws, features that were kept.
void refuse_recording(std::string_view what);

/// Changes whenever a recording begins or ends, on any thread. What was computed under another number may lie in memory
/// of a recording that came to nothing: whoever keeps results from call to call asks for it.
uint64_t recording_number();

/// While it lives this thread is recording. Of recorders.
class RecordingScope {
 public:
  RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
  ~RecordingScope();
};

}  // namespace lockstep::nn
