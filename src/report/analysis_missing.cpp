#include "report/analysis_missing.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "report/analysis_peak.h"

namespace lockstep::report {
namespace {
struct Fact {
  const char* name;
  const char* needed_for;
  const char* how;
  std::function<bool(const RunSummary&)> is_missing;
};
}  // namespace

std::vector<std::string> missing_facts_of(const Analysis& analysis) {
  const AnalysisOptions& options = analysis.options;
  const std::vector<Fact> facts = {
      {"number of nodes", "scaling, node-hours", "--nodes N for all, or --meta with (?<nodes>[0-9]+) on the path", [](const RunSummary& run) { return !run.setup.nodes; }},
      {"number of devices", "rates per device, MFU", "--devices N, --devices-per-node N, or --meta with (?<devices>[0-9]+)", [](const RunSummary& run) { return !run.setup.devices; }},
      {"batch", "rates in samples, weak or strong", "--global-batch N or --samples-per-device N, or --meta with a group of that name",
       [](const RunSummary& run) { return !run.setup.global_batch && !run.setup.samples_per_device && !std::isfinite(run.samples_per_step); }},
      {"model FLOPs", "TFLOP/s and MFU", "--fwd-gflops G (one forward pass of one sample)", [](const RunSummary& run) { return !run.setup.forward_gflops_per_sample; }},
      {"peak of the device", "MFU", "--peak-tflops T (dense, of the compute type)", [&](const RunSummary& run) { return !peak_of(run.setup, options); }},
      {"model name", "titles, and to keep models apart", "--model NAME, or --meta with (?<model>...)", [](const RunSummary& run) { return run.setup.model.empty(); }},
      {"whether the data are synthetic", "an honest caption", "--synthetic-data or --real-data", [](const RunSummary& run) { return !run.setup.is_synthetic; }},
  };
  std::vector<std::string> missing;
  for (const Fact& fact : facts) {
    size_t count = 0;
    for (const RunSummary& run : analysis.runs) count += run.series && fact.is_missing(run) ? 1 : 0;
    if (count > 0)
      missing.push_back(fmt::format("{}: {} of {} runs do not tell it; needed for {}; give it with {}", fact.name, count, analysis.runs.size(), fact.needed_for, fact.how));
  }
  return missing;
}

}  // namespace lockstep::report
