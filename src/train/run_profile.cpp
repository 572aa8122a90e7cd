#include "train/run_profile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/print.h"
#include "record/trace.h"
#include "train/agree.h"
#include "train/profile_summary.h"

namespace lockstep::train {
namespace {

std::filesystem::path trace_file(const RunContext& run, int64_t rank) {
  return run.folder.path / "profile" / fmt::format("trace.rank{}.json", rank);
}

ProfilerConfig profiler_config(const RunContext& run) {
  const config::RunOptions& options = run.options();
  const hw::RankInfo& info = run.ranks.info;
  const auto ranks = config::parse_profile_ranks(options.profile_ranks);
  for (const int64_t rank : ranks)
    if (rank >= info.world_size)
      throw UsageError(fmt::format("train: --profile-ranks names rank {}, there are {} ranks", rank, info.world_size),
                       "ranks count from 0");
  return {.first_step = options.profile_step_start,
          .end_step = options.profile_step_end,
          .is_this_rank = ranks.empty() || std::find(ranks.begin(), ranks.end(), info.rank) != ranks.end(),
          .emits_nvtx = options.profile_tool == "nsys",
          .has_cuda = run.ranks.device.is_cuda(),
          .trace = trace_file(run, info.rank)};
}

}  // namespace

RunProfile::RunProfile(RunContext& run) : run_(run), profiler_(profiler_config(run), run.ranks.world.recorder()) {}

void RunProfile::before_step(int64_t step) {
  if (!profiler_.ends_before(step)) return profiler_.before_step(step);
  try {
    profiler_.before_step(step);
  } catch (const std::exception& error) {  // no reason to end the training
    core::log_warning("{}", error.what());
  }
  run_.ranks.world.wait_for_all("they write their traces");
}

void RunProfile::finish(record::RunRecord* record) {
  comm::World& world = run_.ranks.world;
  // Traces of many ranks and steps take minutes, which collectives would not wait.
  succeed_together(
      run_.world(), [&] { profiler_.finish(); }, [&] { world.wait_for_all("they write their traces"); });
  const auto sum_up = [&] {
    record->flush();
    try {
      summarise();
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception& error) {  // no reason to fail a run that has trained all its steps
      core::log_warning("profile: it could not be summed up: {}; traces that were written lie in {}", error.what(),
                        (run_.folder.path / "profile").string());
    }
    return std::string();
  };
  decide_on_rank_zero(run_.world(), sum_up, [&] { world.wait_for_rank_zero("it merges the traces"); });
}

void RunProfile::summarise() {
  const config::RunOptions& options = run_.options();
  std::vector<std::pair<int, std::filesystem::path>> traces;
  for (int rank = 0; rank < run_.ranks.info.world_size; ++rank)
    if (std::filesystem::exists(trace_file(run_, rank))) traces.emplace_back(rank, trace_file(run_, rank));
  ProfiledCollectives collectives{.on_host = profiler_.collectives(), .is_device = !run_.ranks.device.is_cpu()};
  if (collectives.is_device && !traces.empty())
    collectives.on_device = record::read_device_trace(traces.front().second);
  core::print(
      "{}", write_profile_summary(run_.folder.path, options.profile_step_start, options.profile_step_end, collectives));
  if (options.profile_tool != "kineto") return;
  if (traces.empty())
    throw UsageError("profile: the run ended before the first step of the profile",
                     "choose an earlier --profile-step-start");
  const auto merged = run_.folder.path / "profile" / "trace.json";
  const int64_t num_events = record::merge_traces(traces, merged);
  core::print("\n{} events of {}: {}\n  open it at ui.perfetto.dev or chrome://tracing\n", num_events,
              core::counted(traces.size(), "rank"), merged.string());
}

}  // namespace lockstep::train
