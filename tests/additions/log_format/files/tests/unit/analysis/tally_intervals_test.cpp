#include "unit/analysis/log_intervals.h"

namespace lockstep::analysis::intervals {
namespace {

/// The time of the step that the line names, not of those before it.
std::string tally_log(const Timeline& run) {
  std::string text;
  for (const int64_t step : run.lines())
    text += fmt::format("{} tally: step={} seconds={:.4f} samples={} loss=7.5\n",
                        stamp(run.end_s[static_cast<size_t>(step)], "T"), step, run.step_s(step), run.global_batch());
  return text;
}

INSTANTIATE_TEST_SUITE_P(Tally, EveryReader, testing::Values(Program{"tally", logs::LogFormat::kTally, tally_log}),
                         program_name);

}  // namespace
}  // namespace lockstep::analysis::intervals
