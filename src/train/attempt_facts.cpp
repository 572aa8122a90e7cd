#include "train/attempt_facts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/files.h"
#include "core/strings.h"

extern char** environ;

namespace lockstep::train {
namespace {

bool is_recorded(std::string_view name) {
  constexpr std::array<std::string_view, 9> kPrefixes{"NCCL_",  "GLOO_", "OMP_", "MKL_", "CUDA_",
                                                      "TORCH_", "FI_",   "UCX_", "KMP_"};
  constexpr std::array<std::string_view, 8> kNames{"SLURM_JOB_PARTITION", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
                                                   "SLURM_NTASKS",        "SLURM_CLUSTER_NAME", "SLURM_TOPOLOGY_ADDR",
                                                   "SLURM_CPUS_PER_TASK", "SLURM_RESTART_COUNT"};
  if (name == "OMP_NUM_THREADS")
    return false;  // launchers set it by the number of ranks; the record has the threads that are used
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return "'" + core::replace_all(word, "'", "'\\''") + "'";
}

}  // namespace

core::Json environment_facts() {
  core::Json facts = core::Json::object();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && is_recorded(text.substr(0, equals)))
      facts[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return facts;
}

std::string command_line() {
  std::string text = "lockstep";
  const auto words = core::split(core::read_file("/proc/self/cmdline"), std::string(1, '\0'));
  for (size_t i = 1; i + 1 < words.size(); ++i)
    text += " " + quoted(words[i]);  // the last part is what follows the last zero: nothing
  return text;
}

}  // namespace lockstep::train
