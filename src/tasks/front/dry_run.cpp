#include "tasks/front/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/print.h"
#include "core/strings.h"
#include "hw/device_specs.h"
#include "hw/machine_memory.h"

namespace lockstep::tasks {
namespace {
constexpr size_t kPageWidth = 80, kLeastTextWidth = 20;
constexpr double kShareOfTheRest = 0.1;  // of the device: kernels, allocator, libraries
}  // namespace

DeviceRoom room_on(double planned_bytes, double device_bytes) {
  if (planned_bytes > device_bytes) return DeviceRoom::kTooSmall;
  return planned_bytes > (1 - kShareOfTheRest) * device_bytes ? DeviceRoom::kDoubtful : DeviceRoom::kFits;
}

void look_for_input(const std::string& flag, const std::string& path, std::vector<std::string>& missing) {
  std::error_code ignored;
  if (path.empty() || path.find("://") != std::string::npos || std::filesystem::exists(path, ignored)) return;
  missing.push_back(fmt::format("{} '{}' is not here", flag, path));
}

void look_for_checkpoint(const config::RunOptions& options, std::vector<std::string>& missing) {
  if (options.resume && *options.resume != "latest") look_for_input("--resume", *options.resume, missing);
}

DryRunFact command_fact(const core::OptionSet& set) { return {"command", "command", set.command(), set.command()}; }

DryRunFact world_fact(const WorldSize& world) {
  return {"world_size", "ranks", world.num_ranks, fmt::format("{} (from {})", world.num_ranks, world.source)};
}

std::string dry_run_entry(const std::string& label, const std::string& text) {
  std::string entry;
  for (const std::string& line :
       core::wrap_text(core::printable_line(text), kPageWidth - std::min(label.size(), kPageWidth - kLeastTextWidth)))
    entry += (entry.empty() ? label : std::string(label.size(), ' ')) + line + "\n";
  return entry;
}

std::optional<RankMemory> memory_of_gpu(const std::string& name) {
  const hw::SystemSpec* system = hw::find_system(name);
  const hw::DeviceSpec* spec = system != nullptr ? &hw::device_of(*system) : hw::find_device(name).spec;
  if (spec == nullptr) return std::nullopt;
  return RankMemory{
      .bytes = hw::usable_memory_bytes(spec->memory_gbytes), .source = std::string(spec->name), .is_gpu = true};
}

std::optional<RankMemory> rank_memory(const config::RunOptions& options, const WorldSize& world) {
  if (world.num_local_ranks == 0) return std::nullopt;
  const std::vector<std::string> gpus = options.device == "cpu" ? std::vector<std::string>() : hw::gpu_names();
  if (!gpus.empty()) return memory_of_gpu(gpus.front());
  if (options.device == "cuda") return std::nullopt;
  return RankMemory{
      .bytes = static_cast<double>(hw::available_memory_bytes()) / static_cast<double>(world.num_local_ranks),
      .source = world.num_local_ranks > 1
                    ? fmt::format("what this machine has left for each of {} ranks", world.num_local_ranks)
                    : "what this machine has left"};
}

}  // namespace lockstep::tasks
