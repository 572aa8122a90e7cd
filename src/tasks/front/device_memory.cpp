#include "tasks/front/device_memory.h"

#include <fmt/format.h>

#include <vector>

#include "config/option_checks.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "hw/device_specs.h"

namespace lockstep::tasks {
namespace {

constexpr double kLeastBytes = 1 << 20;

bool is_size(const std::string& asked) {
  return core::parse_double(asked.substr(0, asked.find_first_not_of("0123456789."))).has_value();
}

RankMemory memory_of(const std::string& asked, bool is_gpu) {
  if (is_size(asked)) {
    const auto bytes = static_cast<double>(config::parse_bytes(asked, "--device-memory"));
    if (bytes < kLeastBytes)
      throw UsageError(fmt::format("options: --device-memory '{}' is too small for any device", asked),
                       "give the unit, too: 64G");
    return {.bytes = bytes, .source = "--device-memory", .is_gpu = is_gpu};
  }
  if (const auto memory = memory_of_gpu(asked)) return *memory;
  std::vector<std::string> names;
  for (const hw::DeviceSpec& spec : hw::device_specs()) names.emplace_back(spec.name);
  for (const hw::SystemSpec& spec : hw::system_specs()) names.emplace_back(spec.name);
  const auto nearest = core::nearest_name(asked, names);
  throw UsageError(fmt::format("options: --device-memory '{}' is neither a size nor a known device or system", asked),
                   nearest ? fmt::format("did you mean '{}'?", *nearest)
                           : fmt::format("give a size (64G), or one of: {}", core::join(names, ", ")));
}

}  // namespace

void declare_device_memory_option(core::OptionSet& set, std::string* asked, const std::string& other_name) {
  set.add("device-memory", asked,
          {.role = core::OptionRole::kNoInfluence,
           .help = "With --dry-run: say whether the run fits a device of this memory (64G), of this name (H100 80GB, "
                   "A100 64GB, MI250X), or of this system (LUMI-G).",
           .metavar = "SIZE|NAME",
           .unset_text = "this machine's, where the run is of its size",
           .aliases = other_name.empty() ? std::vector<std::string>() : std::vector<std::string>{other_name}});
}

void check_device_memory_option(const std::string& asked, bool is_dry_run) {
  config::refuse_if(!asked.empty() && !is_dry_run,
                    "--device-memory only asks --dry-run about a device that is not here", "add --dry-run");
}

std::optional<RankMemory> asked_or_rank_memory(const std::string& asked, const config::RunOptions& options,
                                               const WorldSize& world) {
  return asked.empty() ? rank_memory(options, world) : memory_of(asked, options.device != "cpu");
}

std::string room_text(double planned_bytes, const RankMemory& memory) {
  const auto verdict = [&] {
    switch (room_on(planned_bytes, memory.bytes)) {
      case DeviceRoom::kFits: return "fits";
      case DeviceRoom::kDoubtful: return "doubtful, kernels and libraries need room, too";
      case DeviceRoom::kTooSmall: break;
    }
    return "does not fit";
  };
  return fmt::format("{}: {:.0f} % of {} ({})", verdict(), 100 * planned_bytes / memory.bytes,
                     core::format_bytes(memory.bytes), memory.source);
}

DryRunFact device_memory_fact(double planned_bytes, const std::optional<RankMemory>& memory,
                              const std::string& text_if_unknown) {
  if (!memory) return {"device_memory", "memory of a device", nullptr, text_if_unknown};
  const DeviceRoom room = room_on(planned_bytes, memory->bytes);
  return {"device_memory", "memory of a device",
          core::Json{{"bytes", static_cast<int64_t>(memory->bytes)},
                     {"source", memory->source},
                     {"fits", room != DeviceRoom::kTooSmall},
                     {"is_doubtful", room == DeviceRoom::kDoubtful}},
          room_text(planned_bytes, *memory)};
}

}  // namespace lockstep::tasks
