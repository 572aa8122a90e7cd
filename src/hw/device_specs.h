#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::hw {

/// Number format of the matrix products.
enum class ComputeType { kFp32, kTf32, kFp16, kBf16, kFp8 };
std::string_view compute_type_name(ComputeType type);
/// From the name of a precision option, ours or another program's ("amp_bf16", "bf16-mixed", "fp8", "amp"); "amp" is
/// fp16 on a GPU. Nothing for other names. fp32 means fp32, not tf32, unless `has_tf32`: name "tf32" where it was
/// switched on.
std::optional<ComputeType> compute_type_of_precision(std::string_view precision, bool has_tf32 = false);

/// Dense peak of one number format: never the one with structured sparsity.
struct Peak {
  ComputeType type = ComputeType::kBf16;
  double tflops = 0;
};

/// What one device can do. Absent numbers are not known.
struct DeviceSpec {
  std::string_view name{};   ///< "H100 SXM 80GB"
  std::string_view words{};  ///< Words that the printed name must hold, all of them; "|" between alternatives.
  double memory_gbytes = 0;  ///< As sold (GB).
  std::optional<double> memory_tbytes_per_s{};
  std::vector<Peak> peaks{};                  ///< Dense.
  std::optional<double> link_gbytes_per_s{};  ///< To the other devices of the node, per direction.
  std::optional<double> board_watts{};        ///< Power limit that the peaks belong to.
  std::string_view source{};
  std::string_view trap{};    ///< What goes wrong with this device's peak; may be empty.
  bool is_certain = true;     ///< False: published figures differ; calibrate with a matrix product.
  bool is_processor = false;  ///< The processors of a node, which has no other device.
};

std::span<const DeviceSpec> device_specs();

/// A device found by the name that NVML, the driver or torch prints, with what is doubtful about the match.
struct DeviceMatch {
  const DeviceSpec* spec = nullptr;
  std::string warning{};  ///< In words; empty: none.
};
/// `memory_gib` (as the driver tells) separates boards that share a name. nullptr: not in the table.
DeviceMatch find_device(std::string_view printed_name, std::optional<double> memory_gib = std::nullopt);

/// What programs can have of a board sold with so many GB: the driver shows about as many GiB, and keeps a part.
double usable_memory_bytes(double memory_gbytes);

/// Dense peak, or nothing where the device lacks the type or the figure is not known.
std::optional<double> peak_tflops(const DeviceSpec& spec, ComputeType type);

/// Why this peak does not fit the device: it is the sparse one, the one of the whole module, of another type, or just
/// another number. Empty when it is within 2 % of the table, or the table has none.
std::string explain_peak_mismatch(const DeviceSpec& spec, ComputeType type, double tflops);

/// A system whose nodes are known.
struct SystemSpec {
  std::string_view name{};  ///< "LUMI-G"
  std::string_view site{};
  std::string_view aliases{};  ///< Other names and host name stems, separated by spaces.
  std::optional<int64_t> num_nodes{};
  int devices_per_node = 0;
  std::string_view device{};  ///< Name of a DeviceSpec.
  int num_nics = 0;
  double nic_gbits_per_s = 0;
  double injection_gbytes_per_s = 0;  ///< Of a node, per direction.
  std::string_view fabric{};
  std::optional<int64_t> nodes_per_group{};  ///< Dragonfly group, island, rail unit.
  std::string_view host{};
  std::string_view remark{};
  std::string_view environment{};  ///< "NAME=VALUE" that a known fault of the system needs; the remark says why.
};

std::span<const SystemSpec> system_specs();
/// By name or alias, without regard to case; nullptr when unknown.
const SystemSpec* find_system(std::string_view name);
/// Power limit of a device at a system, where it is not that of the board.
std::optional<double> device_watts(const SystemSpec& system);
/// The device of a system.
const DeviceSpec& device_of(const SystemSpec& system);

}  // namespace lockstep::hw
