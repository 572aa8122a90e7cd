#include "train/same_start.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/env.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"

namespace lockstep::train {
namespace {

/// Variables that change what a rank computes, as options beside those of the command line.
constexpr std::array<std::pair<const char*, const char*>, 1> kVariables{{{"LOCKSTEP_GPU_KERNELS", "auto"}}};  // default

/// "--lr", "LOCKSTEP_GPU_KERNELS"
std::string shown_name(const std::string& name) {
  const bool is_variable =
      std::any_of(kVariables.begin(), kVariables.end(), [&](const auto& variable) { return variable.first == name; });
  return is_variable ? name : "--" + core::replace_all(name, "_", "-");
}

/// "--lr is 0.001 on rank 0 and 0.002 on rank 3, and 2 more differ"
std::string differences(const core::Json& first, const core::Json& other, size_t rank) {
  std::string text;
  size_t num_more = 0;
  for (const auto& [name, value] : first.items()) {
    const core::Json there = other.value(name, core::Json());
    if (there == value) continue;
    if (!text.empty()) {
      ++num_more;
      continue;
    }
    text = fmt::format("{} is {} on rank 0 and {} on rank {}", shown_name(name), value.dump(), there.dump(), rank);
  }
  if (text.empty()) text = fmt::format("rank 0 and rank {} know different options", rank);
  return num_more == 0 ? text : text + fmt::format(", and {} more differ", num_more);
}

}  // namespace

void require_same_start(comm::Comm& world, const core::OptionSet& set, const SoftwareVersions& versions) {
  core::Json options = set.values_json();
  for (const char* own : {"dist_rank", "dist_local_rank", "dist_url", "log_local", "debug", "threads", "workers"})
    options.erase(own);
  for (const auto& [name, default_value] : kVariables) options[name] = core::env(name).value_or(default_value);
  const auto starts = world.gather_strings(versions.lockstep + "\n" + core::xxh3_hex(options.dump()));
  const auto other = std::find_if(starts.begin(), starts.end(), [&](const auto& start) { return start != starts[0]; });
  if (other == starts.end()) return;
  const auto rank = static_cast<size_t>(other - starts.begin());
  const auto version_of = [](const std::string& start) { return core::split(start, "\n")[0]; };
  if (version_of(*other) != version_of(starts[0]))
    throw EnvironmentError(fmt::format("train: rank 0 runs lockstep {}, rank {} runs lockstep {}",
                                       version_of(starts[0]), rank, version_of(*other)),
                           "install the same build on every node; `lockstep --version` prints it, `lockstep doctor "
                           "--nodes` compares all ranks");
  const auto all = world.gather_strings(options.dump());
  throw UsageError(fmt::format("train: ranks were started with different options: {}",
                               differences(core::parse_json(all[0], "rank 0's options"),
                                           core::parse_json(all[rank], "another rank's options"), rank)),
                   "start every rank with the same command line and environment");
}

}  // namespace lockstep::train
