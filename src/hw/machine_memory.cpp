#include "hw/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "core/strings.h"

namespace lockstep::hw {
namespace {

namespace fs = std::filesystem;

/// The number in the first line of a file; nothing for "max" and for no file.
std::optional<int64_t> bytes_in(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return core::parse_int(core::trim(line));
}

}  // namespace

int64_t kilobyte_field(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (core::starts_with(line, key + ":")) {
      const auto words = core::split(core::trim(std::string_view(line).substr(key.size() + 1)), " ");
      return core::parse_int(words[0]).value_or(0) * 1024;
    }
  return 0;
}

std::optional<int64_t> left_in_control_groups(const fs::path& membership, const fs::path& mount) {
  std::optional<int64_t> least;
  const auto take = [&](const fs::path& folder, const char* limit, const char* usage) {
    const auto most = bytes_in(folder / limit), used = bytes_in(folder / usage);
    if (most && used) least = std::min(least.value_or(std::numeric_limits<int64_t>::max()), *most - *used);
  };
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // "0::/GROUP" of version 2, "4:cpu,memory:/GROUP" of version 1
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = core::split(line.substr(first + 1, second - first - 1), ",");
    const bool is_v1 = std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
    if (!is_v1 && first + 1 != second) continue;  // another hierarchy of version 1
    // Where the group is not to be seen (a container's own mount), one of the folders above it is the limit we live
    // under.
    for (fs::path group = fs::path("/" + line.substr(second + 1)).lexically_normal();; group = group.parent_path()) {
      const fs::path folder = (is_v1 ? mount / "memory" : mount) / group.relative_path();
      if (is_v1)
        take(folder, "memory.limit_in_bytes", "memory.usage_in_bytes");
      else
        take(folder, "memory.max", "memory.current");
      if (group == group.parent_path()) break;
    }
  }
  return least;
}

int64_t available_memory_bytes() {
  const int64_t bytes = kilobyte_field("/proc/meminfo", "MemAvailable");
  return std::max<int64_t>(
      std::min(bytes, left_in_control_groups("/proc/self/cgroup", "/sys/fs/cgroup").value_or(bytes)), 0);
}

std::vector<std::string> gpu_names(const fs::path& driver) {
  constexpr std::string_view kModel = "Model:";
  std::vector<std::string> names;
  std::error_code failure;
  for (const fs::directory_entry& gpu : fs::directory_iterator(driver, failure)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);)
      if (core::starts_with(line, kModel)) names.emplace_back(core::trim(std::string_view(line).substr(kModel.size())));
  }
  return names;
}

}  // namespace lockstep::hw
