#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_options.h"
#include "core/error.h"
#include "core/json.h"
#include "core/options.h"

namespace lockstep::tasks {

/// One line of a dry run: key in the JSON, words for people, value for both.
struct DryRunFact {
  std::string key, label;  ///< No key: not in the JSON; no label: not in the text.
  core::Json value;
  std::string text;  ///< The value as people read it.
};

/// How what is planned for a rank stands to the memory of its device.
enum class DeviceRoom { kFits, kDoubtful, kTooSmall };

/// Doubtful where less than a tenth of the device is left: kernels, the allocator and libraries need room, too.
DeviceRoom room_on(double planned_bytes, double device_bytes);

/// What a training command would do, as far as it is known without tensors, data and devices.
struct DryRunPage {
  std::vector<DryRunFact> facts{};
  std::string tables{};  ///< Below the facts.
  core::Json extra = core::Json::object();
  std::vector<std::string> warnings{};
  std::vector<std::string> missing{};    ///< Inputs that the command line names and that are not here.
  std::optional<Error> failure{};        ///< With which the run would end here, since it cannot use its data.
  double memory_bytes = 0;               ///< Planned for the fullest rank.
  std::optional<double> device_bytes{};  ///< What its device gives it, where that is known.
  int64_t nodes_of_tensor_group = 1;     ///< On how many nodes the tensor ranks of one group lie.

  /// It goes into the device, but hardly.
  bool is_doubtful() const { return device_bytes && room_on(memory_bytes, *device_bytes) == DeviceRoom::kDoubtful; }
};

/// How many ranks a run would have, and who says so.
struct WorldSize {
  int64_t num_ranks = 1;
  std::string source;
  int64_t num_local_ranks = 0;  ///< Of them on this machine; 0: not known.
  int64_t ranks_per_node = 0;   ///< Where the run will be; 0: as on this machine.
  bool asks_for_inputs = true;  ///< Look for the shards and weights that the command line names.
};

/// What one rank may fill, and where that number is from.
struct RankMemory {
  double bytes = 0;
  std::string source{};  ///< "H100 SXM 80GB", "this machine, 2 ranks".
  bool is_gpu = false;
};

/// Adds "--load '/a' is not here" to `missing` where the command line names such a file or folder and it is not here;
/// nothing for "" and for addresses.
void look_for_input(const std::string& flag, const std::string& path, std::vector<std::string>& missing);
/// Of --resume PATH likewise.
void look_for_checkpoint(const config::RunOptions& options, std::vector<std::string>& missing);

DryRunFact command_fact(const core::OptionSet& set);
DryRunFact world_fact(const WorldSize& world);

/// `label` and beside it `text`, broken so that lines end at column 80.
std::string dry_run_entry(const std::string& label, const std::string& text);

/// The memory of a GPU of the table of devices, or of the device of a known system; nothing for other names.
std::optional<RankMemory> memory_of_gpu(const std::string& name);

/// The memory of a rank's device: the GPU that the driver of this machine names, or the share of a CPU rank in what
/// this machine has left. Nothing where that is unknown.
std::optional<RankMemory> rank_memory(const config::RunOptions& options, const WorldSize& world);

}  // namespace lockstep::tasks
