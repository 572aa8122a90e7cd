#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hw/device.h"

namespace lockstep::hw {

/// Where the system shows its devices.
struct SystemRoots {
  std::filesystem::path dev = "/dev", proc = "/proc", sys = "/sys";
  /// Of this machine; of the folder LOCKSTEP_SYSTEM_ROOT, where tests set that.
  static SystemRoots here();
};

/// NVIDIA's GPUs as the kernel shows them, whether or not they can be used.
struct GpuPresence {
  int num_on_bus = 0;          ///< PCI display controllers of that vendor; containers see those of their host, too.
  int num_of_driver = 0;       ///< /proc/driver/nvidia/gpus
  int num_device_files = 0;    ///< /dev/nvidia0, ...; /dev/dxg, of WSL, is one.
  std::string driver_version;  ///< Of the kernel's module: "535.104.05"; "": none is loaded.
  bool any() const { return num_on_bus + num_of_driver + num_device_files > 0; }
  int most() const { return std::max({num_on_bus, num_of_driver, num_device_files}); }
};
GpuPresence find_gpus(const SystemRoots& roots = SystemRoots::here());

/// What the driver says of its GPUs.
struct DriverAnswer {
  struct Gpu {
    std::string name, uuid;
    double capability = 0;           ///< Compute capability, 9.0 of an H100; 0: not known.
    bool is_prohibited = false;      ///< Compute mode "Prohibited".
    bool is_exclusive = false;       ///< One process at a time.
    std::optional<int> mig_parts{};  ///< Of a GPU that is cut into parts: how many there are.
  };
  std::string driver_version;
  int cuda_version = 0;  ///< The newest that it serves: 12020 is 12.2; 0: not known.
  std::vector<Gpu> gpus;
  std::string problem;  ///< Why it does not answer.
};
DriverAnswer ask_driver();

/// A machine with its driver, for tests another one than this.
struct GpuMachine {
  GpuPresence presence = find_gpus();
  DriverAnswer driver = ask_driver();
};

/// What a rank asks for, and how far it gets.
struct GpuQuestion {
  std::string request = "auto";                  ///< --device: "auto", "cuda" or "cpu"
  std::string asked_by{};                        ///< Flag and value behind "cuda", where that is not --device cuda.
  std::string backend = "auto";                  ///< --dist-backend: "nccl" asks for a GPU as "cuda" does.
  int num_usable = 0;                            ///< GPUs that LibTorch counts.
  int needed_cuda = 0;                           ///< That LibTorch was built for: 13000; 0: without CUDA.
  std::optional<std::string> visible_devices{};  ///< CUDA_VISIBLE_DEVICES
  int local_rank = 0, local_world_size = 1, world_size = 1;
};

/// The device of a rank. "auto" is a GPU where there is one, and the CPU only where there is none, or where
/// CUDA_VISIBLE_DEVICES hides all. EnvironmentError where a GPU is asked for and none is here, for a GPU that is here
/// and cannot be used (driver missing, too old or prohibiting; too old itself; parts of a GPU that NCCL cannot
/// connect), for visible devices that are not here, and for more local ranks than GPUs: with the driver's version, the
/// one that is needed, and what to do.
DeviceChoice choose_device(const GpuQuestion& question, const GpuMachine& machine);

/// Why NCCL may be slow between ranks of this node, or fail: the job shows each of them its own GPU alone, as srun's
/// --gpus-per-task does where it separates devices (NVIDIA/nccl issue 1066). Empty: it does not, or that is not known.
std::string hidden_peers(const GpuQuestion& question, const GpuMachine& machine);

/// CUDA_VISIBLE_DEVICES of this process, also where it is empty, which hides every GPU.
std::optional<std::string> visible_devices();

/// Whether CUDA_VISIBLE_DEVICES hides every GPU: "", "-1" and what SLURM sets where a job asked for none.
bool hides_all_gpus(const std::optional<std::string>& visible_devices);

/// How many of the driver's GPUs CUDA_VISIBLE_DEVICES leaves.
int num_visible_gpus(const std::optional<std::string>& visible_devices, const DriverAnswer& driver);

/// The oldest branch of drivers for a version of CUDA (13000): "580". Source: CUDA Toolkit release notes, minimum
/// driver for minor version compatibility.
std::string oldest_driver(int cuda_version);

/// The same text for two ranks of a host only if they would compute on the same GPU; "" where that is not known.
std::string gpu_key(int index, const std::optional<std::string>& visible_devices, const DriverAnswer& driver);

}  // namespace lockstep::hw
