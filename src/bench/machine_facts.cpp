#include "bench/machine_facts.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <fstream>

#include "bench/device_peak.h"
#include "core/host_name.h"
#include "core/strings.h"
#include "hw/device.h"
#include "train/attempt_facts.h"

namespace lockstep::bench {
namespace {

/// Value of the first line of a "key : value" file that begins with `key`.
std::string field_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (core::starts_with(line, key))
      if (const auto colon = line.find(':'); colon != std::string::npos)
        return std::string(core::trim(std::string_view(line).substr(colon + 1)));
  return "";
}

core::Json rank_facts(const BenchContext& context) {
  return {{"rank", context.world.rank()},
          {"host", core::host_name()},
          {"pid", ::getpid()},
          {"device", context.device.str()},
          {"device_name", device_name(context.device)},
          {"threads", at::get_num_threads()}};
}

}  // namespace

core::Json machine_facts(const BenchContext& context) {
  core::Json ranks = core::Json::array();
  for (const auto& text : context.world.gather_strings(rank_facts(context).dump()))
    ranks.push_back(core::parse_json(text, "facts of a rank"));
  return {{"ranks", ranks},
          {"cpu", hw::cpu_name()},
          {"cpu_cores", hw::usable_cpu_cores()},
          {"memory", field_of("/proc/meminfo", "MemTotal")},
          {"environment", train::environment_facts()}};
}

}  // namespace lockstep::bench
