#include "cli/front/dry_run_memory.h"

#include <fmt/format.h>

#include "config/bench_options.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "hw/device_specs.h"
#include "hw/machine_memory.h"
#include "plan/memory_plan.h"

namespace lockstep::cli {
namespace {

constexpr double kRoomForTheRest = 0.1;  // of the device: kernels, allocator, libraries
constexpr double kLeastBytes = 1 << 20;

std::optional<RankMemory> memory_of_gpu(const std::string& name) {
  const hw::DeviceSpec* spec = hw::find_device(name).spec;
  if (spec == nullptr) return std::nullopt;
  return RankMemory{.bytes = spec->memory_gbytes * 1e9, .source = std::string(spec->name), .is_gpu = true};
}

RankMemory asked_memory(const config::TrainOptions& options) {
  const std::string& asked = options.device_memory;
  if (core::parse_double(asked.substr(0, asked.find_first_not_of("0123456789.")))) {
    const auto bytes = static_cast<double>(config::parse_bench_bytes(asked, "--device-memory"));
    if (bytes < kLeastBytes)
      throw UsageError(fmt::format("options: --device-memory '{}' is too small for any device", asked),
                       "give the unit, too: 64G");
    return {.bytes = bytes, .source = "--device-memory", .is_gpu = options.device != "cpu"};
  }
  if (const auto memory = memory_of_gpu(asked)) return *memory;
  std::vector<std::string> names;
  for (const hw::DeviceSpec& spec : hw::device_specs()) names.emplace_back(spec.name);
  throw UsageError(fmt::format("options: --device-memory '{}' is neither a size nor a device of the table", asked),
                   fmt::format("give a size (64G), or one of: {}", core::join(names, ", ")));
}

std::string verdict(double total, const RankMemory& memory) {
  const double share = total / memory.bytes;
  const std::string of =
      fmt::format("{:.0f} % of {} ({})", 100 * share, core::format_bytes(memory.bytes), memory.source);
  if (share > 1) return "does not fit: " + of;
  if (share > 1 - kRoomForTheRest) return "doubtful, kernels and libraries need room, too: " + of;
  return "fits: " + of;
}
}  // namespace

std::optional<RankMemory> rank_memory(const config::TrainOptions& options, const WorldGuess& world) {
  if (!options.device_memory.empty()) return asked_memory(options);
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

std::vector<DryRunFact> memory_facts(const config::TrainOptions& options, const config::ContrastiveShape& shape,
                                     const plan::BatchPlan& batch, int64_t num_ranks,
                                     const std::optional<RankMemory>& memory) {
  const bool is_gpu = memory ? memory->is_gpu : options.device != "cpu";
  const bool is_zero1 = config::grad_sync_kind(options, num_ranks) == config::GradSyncKind::kZero1;
  const plan::MemoryPlan plan = plan::plan_contrastive_memory(shape, {.precision = options.precision,
                                                                      .optimizer_shards = is_zero1 ? num_ranks : 1,
                                                                      .has_fp32_gradients = options.fp32_gradients,
                                                                      .samples_per_micro = batch.samples_per_micro,
                                                                      .global_batch = batch.global_batch,
                                                                      .grad_checkpointing = options.grad_checkpointing,
                                                                      .keeps_attention = !is_gpu});
  const std::pair<const char*, double> parts[] = {
      {"parameters", plan.parameters}, {"gradients", plan.gradients},     {"optimizer", plan.optimizer},
      {"masters", plan.masters},       {"activations", plan.activations}, {"batch", plan.batch},
      {"logits", plan.logits}};
  core::Json bytes = core::Json::object();
  std::vector<DryRunFact> facts;
  for (const auto& [name, value] : parts) {
    bytes[name] = static_cast<int64_t>(value);
    if (value == 0) continue;  // masters of fp32 parameters
    facts.push_back({"", fmt::format("  {}", name), nullptr, core::format_bytes(value)});
  }
  bytes["total"] = static_cast<int64_t>(plan.total());
  facts.insert(facts.begin(),
               {"memory_per_rank_bytes", "memory of a rank", bytes,
                fmt::format("{}, planned from shapes; measure with `bench step`", core::format_bytes(plan.total()))});
  core::Json device = nullptr;
  if (memory)
    device = {{"bytes", static_cast<int64_t>(memory->bytes)},
              {"source", memory->source},
              {"fits", plan.total() <= memory->bytes},
              {"is_doubtful", plan.total() <= memory->bytes && plan.total() > (1 - kRoomForTheRest) * memory->bytes}};
  facts.push_back(
      {"device_memory", "memory of a device", device,
       memory ? verdict(plan.total(), *memory) : "not known; --device-memory SIZE|NAME asks whether it fits"});
  return facts;
}

}  // namespace lockstep::cli
