#include "nn/work_recorder.h"

#include <atomic>

#include "core/error.h"

namespace lockstep::nn {
namespace {

thread_local int num_scopes = 0;
std::atomic<uint64_t> num_changes = 0;

}  // namespace

std::unique_ptr<WorkRecorder> make_work_recorder(std::string_view cuda_graphs, const at::Device& device) {
  return cuda_graphs == "off" || !device.is_cuda() ? nullptr : make_cuda_work_recorder(device);
}

void refuse_recording(std::string_view what) {
  if (num_scopes > 0) throw EnvironmentError(fmt::format("{} differs from step to step", what));
}

uint64_t recording_number() { return num_changes; }

RecordingScope::RecordingScope() {
  ++num_scopes;
  ++num_changes;
}

RecordingScope::~RecordingScope() {
  --num_scopes;
  ++num_changes;
}

}  // namespace lockstep::nn
