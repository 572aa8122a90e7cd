#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/run.h"

namespace lockstep::analysis {

/// What runs must share, beside size and batch, to be repeats of one configuration.
struct Configuration {
  std::map<std::string, std::string> settings{};  ///< What every source may tell, "precision"; and tags.
  std::map<std::string, std::string> options{};   ///< Recorded options that change the work of a step, by flag name.
  bool has_options = false;  ///< Otherwise the source does not hold them: never equal to a run whose options are known.

  bool operator==(const Configuration&) const = default;
};

/// Options that say how training proceeds and not what a step has to do, by flag name: they may follow the size ("lr").
/// They part runs only where they differ at one size.
std::map<std::string, std::string> schedule_options(const RunSummary& run);

/// Versions and variables of the environment that may change what a run measures: all that it recorded but what tells
/// which job it was and how large.
std::map<std::string, std::string> software_facts(const RunSummary& run);

/// Values of each software fact over some runs, "unset" for one that lacks it; runs that recorded no facts say nothing.
std::map<std::string, std::set<std::string>> software_values(const std::vector<RunSummary>& runs,
                                                             const std::vector<size_t>& members);

/// Names of facts on the compute threads of processor runs.
inline constexpr const char *kThreadsPerRank = "threads per rank", *kThreadsPerNode = "threads per node";

/// Compute threads of a rank, or of all ranks of a node; "" where they are not known or an accelerator computed.
std::string compute_threads(const RunSummary& run, const std::string& fact);

/// `parting` names the schedule options, software facts and facts on threads that count too.
Configuration configuration_of(const RunSummary& run, bool is_by_devices, const std::set<std::string>& parting);

/// As the record tells it, else by the name of the device.
bool is_on_cpu(const record::RunSetup& setup);

/// The layout without its data-parallel part, which grows with the size by itself.
std::string model_parallel_layout(const std::string& layout);

/// What differs between them, in words: "precision (bf16, fp32)".
std::vector<std::string> differences(const std::vector<const Configuration*>& all);

/// "precision bf16", "local-loss true": what tells `one` from the others; what most of them have is not told.
std::vector<std::string> distinction(const Configuration& one, const std::vector<const Configuration*>& all);

/// A setting as people read it: a number of more than six significant digits with six, all else as it is.
std::string setting_text(const std::string& value);

}  // namespace lockstep::analysis
