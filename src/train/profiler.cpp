#include "train/profiler.h"

#include <dlfcn.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"

namespace lockstep::train {
namespace {

namespace kineto = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

impl::ProfilerConfig kineto_config(impl::ProfilerState state) {
  impl::ExperimentalConfig experimental;
  experimental.profile_all_threads = true;
  return impl::ProfilerConfig(state, /*report_input_shapes=*/true, /*profile_memory=*/false, /*with_stack=*/false,
                              /*with_flops=*/false,
                              /*with_modules=*/false, experimental);
}

/// cudaProfilerStart or cudaProfilerStop of the CUDA runtime that this process has loaded: they open and close Nsight's
/// capture range.
void call_cuda_profiler(const char* function) {
  const auto call = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, function));
  if (call == nullptr || call() != 0)
    core::log_warning("profile: {} could not be called, so Nsight's capture range does not follow the steps", function);
}

/// Growth of each entry.
std::vector<comm::RecorderEntry> growth(const std::vector<comm::RecorderEntry>& before,
                                        std::vector<comm::RecorderEntry> after) {
  for (auto& entry : after)
    for (const auto& old : before)
      if (old.axis == entry.axis && old.kind == entry.kind && old.bytes == entry.bytes) {
        entry.count -= old.count;
        entry.num_waited -= old.num_waited;
        entry.total_ms -= old.total_ms;
        entry.blocked_ms -= old.blocked_ms;
      }
  std::erase_if(after, [](const comm::RecorderEntry& entry) { return entry.count == 0; });
  return after;
}

}  // namespace

StepProfiler::StepProfiler(const ProfilerConfig& config, const comm::Recorder& recorder)
    : config_(config), recorder_(recorder) {}

StepProfiler::~StepProfiler() {
  try {
    finish();
  } catch (const std::exception& error) {
    core::log_warning("profile: {}", error.what());
  }
}

void StepProfiler::before_step(int64_t step) {
  if (is_running_ && step >= config_.end_step) stop();
  if (!is_running_ && !is_done_ && step >= config_.first_step && step < config_.end_step) start();
}

void StepProfiler::finish() {
  if (is_running_) stop();
}

void StepProfiler::start() {
  is_running_ = true;
  before_ = recorder_.snapshot();
  if (!config_.is_this_rank) return;
  const auto config = kineto_config(config_.emits_nvtx ? impl::ProfilerState::NVTX : impl::ProfilerState::KINETO);
  std::set<impl::ActivityType> activities{impl::ActivityType::CPU};
  if (config_.has_cuda) activities.insert(impl::ActivityType::CUDA);
  if (config_.emits_nvtx && config_.has_cuda) call_cuda_profiler("cudaProfilerStart");
  if (!config_.emits_nvtx) kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities,
                         {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION});
}

void StepProfiler::stop() {
  is_running_ = false;
  is_done_ = true;
  collectives_ = growth(before_, recorder_.snapshot());
  if (!config_.is_this_rank) return;
  const auto result = kineto::disableProfiler();
  if (config_.emits_nvtx) {
    if (config_.has_cuda) call_cuda_profiler("cudaProfilerStop");
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(config_.trace.parent_path(), error);
  result->save(config_.trace.string());
  if (!std::filesystem::exists(config_.trace))
    throw EnvironmentError(fmt::format("profile: the trace '{}' could not be written", config_.trace.string()),
                           "is the file system full?");
}

}  // namespace lockstep::train
