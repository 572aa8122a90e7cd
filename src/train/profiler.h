#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/recorder.h"

namespace lockstep::train {

struct ProfilerConfig {
  int64_t first_step = 20, end_step = 30;  ///< Steps [first_step, end_step) are profiled.
  bool is_this_rank = true;                ///< This rank writes a trace.
  bool emits_nvtx = false;  ///< NVTX ranges and CUDA's profiler start and stop for Nsight Systems, instead of a trace.
  bool has_cuda = false;    ///< Kernels are traced, too.
  std::filesystem::path trace;  ///< Chrome trace of this rank.
};

/// Traces some steps of a run. before_step(step) is called with each step, after the last with the number of steps.
class StepProfiler {
 public:
  StepProfiler(const ProfilerConfig& config, const comm::Recorder& recorder);
  ~StepProfiler();  ///< Writes a trace that was cut short by the end of the run.
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  void before_step(int64_t step);
  /// Is this the step before which the trace is written? The same on ranks that are traced and others.
  bool ends_before(int64_t step) const { return is_running_ && step >= config_.end_step; }
  /// Ends a profile that is still going on, at the end of the run.
  void finish();
  /// Collectives of the profiled steps on this rank.
  const std::vector<comm::RecorderEntry>& collectives() const { return collectives_; }

 private:
  void start();
  void stop();

  ProfilerConfig config_;
  const comm::Recorder& recorder_;
  bool is_running_ = false, is_done_ = false;
  std::vector<comm::RecorderEntry> before_, collectives_;
};

}  // namespace lockstep::train
