#include "analysis/missing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/group.h"
#include "analysis/path_pattern.h"
#include "analysis/peak.h"

namespace lockstep::analysis {
namespace {

/// A fact that runs lack, with these runs.
struct Asked {
  std::vector<const RunSummary*> runs{};
  std::string needed_for{}, flag{}, how{};
};
using AskedFacts = std::map<std::string, Asked>;

AskedFacts facts_asked_for(const Analysis& analysis) {
  AskedFacts facts;
  for (const RunSummary& run : analysis.runs) {
    record::RunSetup known = run.setup;
    complete_batches(known, run.has_step_time ? run.samples_per_step : NAN);
    for (const record::MissingFact& fact : run.missing) {
      const bool is_given = (fact.name == "samples_per_device" && known.samples_per_device) ||
                            (fact.name == "forward_gflops" && run.setup.forward_gflops_per_sample) ||
                            (fact.name == "peak_tflops" && peak_of(run.setup, analysis.options));
      if (is_given) continue;
      Asked& asked = facts[fact.name];
      asked.runs.push_back(&run);
      asked.needed_for = fact.needed_for;
      asked.flag = fact.flag;
      asked.how = fact.how;
    }
  }
  return facts;
}

std::optional<PathPattern> pattern_of(const std::string& fact, const Asked& asked) {
  std::vector<std::filesystem::path> paths;
  for (const RunSummary* run : asked.runs) paths.push_back(run->source);
  return pattern_of_paths(fact, paths);
}

/// Devices of a node where the paths tell one count of each run and its log the other; "N" where they do not, or
/// differ.
std::string devices_per_node_of(const std::string& fact, const Asked& asked) {
  const std::string unknown = "N";
  const auto pattern = pattern_of(fact, asked);
  if (!pattern || pattern->of_paths.size() != asked.runs.size()) return unknown;
  std::optional<int64_t> common;
  for (size_t i = 0; i < asked.runs.size(); ++i) {
    const record::RunSetup& setup = asked.runs[i]->setup;
    const int64_t told = pattern->of_paths[i], known = (fact == "nodes" ? setup.devices : setup.nodes).value_or(0);
    const int64_t devices = fact == "nodes" ? known : told, nodes = fact == "nodes" ? told : known;
    if (nodes < 1 || devices < 1 || devices % nodes != 0 || common.value_or(devices / nodes) != devices / nodes)
      return unknown;
    common = devices / nodes;
  }
  return common ? std::to_string(*common) : unknown;
}

/// "--meta 'clip_n(?<nodes>[0-9]+)/' takes them from the paths (1, 2, 4)"
std::string path_advice(const std::string& fact, const Asked& asked) {
  const auto pattern = pattern_of(fact, asked);
  if (!pattern) return fmt::format("a group (?<{}>[0-9]+) of --meta takes them from paths that tell them", fact);
  constexpr size_t kMaxShown = 6;
  const size_t num_shown = std::min(pattern->values.size(), kMaxShown);
  const std::vector<int64_t> shown(pattern->values.begin(),
                                   pattern->values.begin() + static_cast<ptrdiff_t>(num_shown));
  return fmt::format("--meta '{}' takes them from the paths ({}{})", pattern->expression, fmt::join(shown, ", "),
                     num_shown < pattern->values.size() ? ", ..." : "");
}

bool all_know(const Asked& asked, std::optional<int64_t> record::RunSetup::*count) {
  return std::all_of(asked.runs.begin(), asked.runs.end(),
                     [&](const RunSummary* run) { return (run->setup.*count).has_value(); });
}

/// How several runs get a fact that follows their size: one value for all of them would make every size the same, or
/// weak scaling strong.
std::string advice_for_sizes(const std::string& fact, const Asked& asked) {
  const std::string from_paths = path_advice(fact, asked);
  if (fact == "nodes") {
    const std::string only = "; --nodes only where all of them ran on as many";
    if (!all_know(asked, &record::RunSetup::devices)) return from_paths + only;
    return fmt::format("--devices-per-node {}, the same at every size, gives each run's from its devices; or {}{}",
                       devices_per_node_of(fact, asked), from_paths, only);
  }
  if (fact == "devices")
    return fmt::format(
        "--devices-per-node {}, the same at every size, gives them with the nodes; or {}; --devices only where "
        "all of them ran on as many",
        devices_per_node_of(fact, asked), from_paths);
  if (fact == "samples_per_device")
    return fmt::format(
        "it follows from the global batch and the devices; --samples-per-device 256 (say) where it is the same at "
        "every size; or {}",
        from_paths);
  return fmt::format(
      "--samples-per-device 256 (say) where the batch of a device is the same at every size (weak scaling), "
      "--global-batch 4096 only where that of all devices is (strong scaling); or {}",
      from_paths);
}

bool follows_size(const std::string& fact) {
  return fact == "nodes" || fact == "devices" || fact == "global_batch" || fact == "samples_per_device";
}

/// Programs that print their TFLOP/s leave nothing unknown but our own count.
void say_what_logs_tell(AskedFacts& facts) {
  const auto asked = facts.find("forward_gflops");
  if (asked == facts.end()) return;
  const auto& runs = asked->second.runs;
  const auto num_logged = std::count_if(
      runs.begin(), runs.end(), [](const RunSummary* run) { return std::isfinite(run->logged_tflops_per_device); });
  if (num_logged == 0) return;
  asked->second.needed_for = "MFU by a count that is the same for all programs";
  const bool is_some = num_logged < static_cast<ptrdiff_t>(runs.size());
  asked->second.flag.clear();
  asked->second.how = fmt::format(
      "the TFLOP/s per device that the program itself printed{}, and their share of the peak, stand in the table of "
      "rates; --fwd-gflops {} (say) adds those that follow from the step times",
      is_some ? fmt::format(" in {} of them", num_logged) : "",
      record::example_facts(runs.front()->setup, runs.front()->format).forward_gflops);
}

/// The batch of a device gives the global one: where runs lack both, one question is enough.
void join_batches(AskedFacts& facts) {
  const auto local = facts.find("samples_per_device"), global = facts.find("global_batch");
  if (local == facts.end() || global == facts.end() || local->second.runs != global->second.runs ||
      global->second.runs.size() < 2)
    return;
  global->second.needed_for += " and " + local->second.needed_for;
  facts.erase(local);
}

}  // namespace

std::vector<std::string> missing_facts_of(const Analysis& analysis) {
  AskedFacts facts = facts_asked_for(analysis);
  join_batches(facts);
  say_what_logs_tell(facts);
  std::vector<std::string> missing;
  std::string fact_with_ways;  // the first, which names them all
  const auto advice = [&](const std::string& name, const Asked& asked) {
    if (asked.runs.size() > 1 && follows_size(name)) return advice_for_sizes(name, asked);
    if (asked.flag.empty()) return asked.how;
    if (!fact_with_ways.empty())
      return fmt::format("{}, or --meta or --meta-file as for {}", asked.flag, fact_with_ways);
    fact_with_ways = name;
    return asked.how;
  };
  for (const auto& [name, asked] : facts)
    missing.push_back(fmt::format("{} ({} of {} runs do not tell it; needed for {}): {}", name, asked.runs.size(),
                                  analysis.runs.size(), asked.needed_for, advice(name, asked)));
  return missing;
}

}  // namespace lockstep::analysis
