#include "report/analysis_missing.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "report/analysis_peak.h"

namespace lockstep::report {

std::vector<std::string> missing_facts_of(const Analysis& analysis) {
  struct Asked {
    size_t count = 0;
    std::string needed_for, how;
  };
  std::map<std::string, Asked> facts;
  for (const RunSummary& run : analysis.runs) {
    record::RunSetup known = run.setup;
    complete_batches(known, run.has_step_time ? run.samples_per_step : NAN);
    for (const record::MissingFact& fact : run.missing) {
      const bool is_given = (fact.name == "samples_per_device" && known.samples_per_device) ||
                            (fact.name == "forward_gflops" && run.setup.forward_gflops_per_sample) ||
                            (fact.name == "peak_tflops" && peak_of(run.setup, analysis.options));
      if (is_given) continue;
      Asked& asked = facts[fact.name];
      ++asked.count;
      asked.needed_for = fact.needed_for;
      asked.how = fact.how;
    }
  }
  std::vector<std::string> missing;
  for (const auto& [name, asked] : facts)
    missing.push_back(fmt::format("{} ({} of {} runs do not tell it; needed for {}): {}", name, asked.count, analysis.runs.size(),
                                  asked.needed_for, asked.how));
  return missing;
}

}  // namespace lockstep::report
