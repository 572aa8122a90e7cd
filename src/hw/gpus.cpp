#include "hw/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/env.h"
#include "core/error.h"
#include "core/strings.h"
#include "hw/nvml.h"

namespace lockstep::hw {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    files.push_back(it->path());
  return files;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_number(std::string_view text) { return core::parse_int(text).value_or(-1) >= 0; }

/// Display controllers (class 0x03) of NVIDIA (vendor 0x10de).
int gpus_on_bus(const fs::path& sys) {
  int count = 0;
  for (const auto& device : files_of(sys / "bus/pci/devices"))
    count += core::trim(text_of(device / "vendor")) == "0x10de" && core::starts_with(text_of(device / "class"), "0x03");
  return count;
}

/// The first word of the kernel module's line that is a version:
/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023".
std::string module_version(const SystemRoots& roots) {
  for (const auto& text : {text_of(roots.proc / "driver/nvidia/version"), text_of(roots.sys / "module/nvidia/version")})
    for (const auto& line : core::split(text, "\n"))
      for (const auto& word : core::split(line, " ")) {
        const auto dot = word.find('.');
        if (dot >= 2 && dot != std::string::npos && is_number(word.substr(0, dot)) &&
            is_number(word.substr(dot + 1, 1)))
          return word;
      }
  return "";
}

std::string version_text(int cuda) { return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10); }

/// "580.65" before "580.105": by numbers.
bool is_older(const std::string& version, const std::string& than) {
  const auto parts = core::split(version, "."), others = core::split(than, ".");
  for (size_t i = 0; i < std::min(parts.size(), others.size()); ++i) {
    const int64_t part = core::parse_int(parts[i]).value_or(0), other = core::parse_int(others[i]).value_or(0);
    if (part != other) return part < other;
  }
  return false;
}

std::string driver_of(const GpuMachine& machine) {
  return machine.driver.driver_version.empty() ? machine.presence.driver_version : machine.driver.driver_version;
}

/// "2 GPUs (NVIDIA H100 80GB HBM3) are here"
std::string gpus_here(const GpuMachine& machine) {
  const int count = std::max(machine.presence.most(), static_cast<int>(machine.driver.gpus.size()));
  const std::string name = machine.driver.gpus.empty() ? "" : " (" + machine.driver.gpus.front().name + ")";
  return fmt::format("{} GPU{}{} {} here", count, count == 1 ? "" : "s", name, count == 1 ? "is" : "are");
}

constexpr const char* kOrCpu = ", or compute on the CPU with --device cpu";

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw EnvironmentError("hw: " + message, hint + kOrCpu);
}

bool is_too_old(const GpuQuestion& question, const GpuMachine& machine) {
  if (machine.driver.cuda_version > 0) return machine.driver.cuda_version / 1000 < question.needed_cuda / 1000;
  return is_older(driver_of(machine), oldest_driver(question.needed_cuda));
}

[[noreturn]] void refuse_old_driver(const GpuQuestion& question, const GpuMachine& machine) {
  const std::string serves = machine.driver.cuda_version > 0
                                 ? fmt::format(" serves CUDA up to {}", version_text(machine.driver.cuda_version))
                                 : " is installed";
  refuse(fmt::format("{}, but the driver is too old: driver {}{}; LibTorch was built for CUDA {}, which needs driver "
                     "{} or newer",
                     gpus_here(machine), driver_of(machine), serves, version_text(question.needed_cuda),
                     oldest_driver(question.needed_cuda)),
         "ask for a newer driver, on data centre GPUs put NVIDIA's package cuda-compat into LD_LIBRARY_PATH");
}

/// Of the GPUs that a version of CUDA has kernels for; 0: not known. Source: CUDA 13 release notes, removed features.
double least_capability(int cuda_version) { return cuda_version >= 13000 ? 7.5 : 0; }

/// The driver's GPUs that CUDA_VISIBLE_DEVICES leaves: others of the node are nobody's business here.
std::vector<DriverAnswer::Gpu> visible_gpus(const GpuQuestion& question, const GpuMachine& machine) {
  const auto& all = machine.driver.gpus;
  if (!question.visible_devices) return all;
  std::vector<DriverAnswer::Gpu> visible;
  for (const std::string& each : core::split(*question.visible_devices, ",")) {
    const std::string name(core::trim(each));
    const auto index = core::parse_int(name);
    const auto named = std::find_if(
        all.begin(), all.end(), [&](const auto& gpu) { return !name.empty() && core::starts_with(gpu.uuid, name); });
    if (core::starts_with(name, "MIG-"))
      visible.push_back({.name = name, .uuid = name, .mig_parts = 1});
    else if (index && *index >= 0 && *index < std::ssize(all))
      visible.push_back(all[static_cast<size_t>(*index)]);
    else if (named != all.end())
      visible.push_back(*named);
  }
  return visible;
}

/// A GPU is here and CUDA counts none: why.
[[noreturn]] void refuse_unusable(const GpuQuestion& question, const GpuMachine& machine) {
  const std::string driver = driver_of(machine), here = gpus_here(machine);
  const std::string needed = oldest_driver(question.needed_cuda);
  if (question.needed_cuda == 0)
    refuse(fmt::format("{}, but this LibTorch was built without CUDA", here),
           "install the wheel of torch with CUDA (LOCKSTEP_TORCH_DIR names where) and build again");
  if (driver.empty())
    refuse(fmt::format("{}, but no driver of NVIDIA is loaded: driver=none, expected {} or newer", here, needed),
           "load or install the driver");
  if (!machine.driver.problem.empty())
    refuse(fmt::format("{}, but driver {} does not answer: {}; expected {} or newer", here, driver,
                       machine.driver.problem, needed),
           "run nvidia-smi, which should say the same; after an update of the driver restart the machine");
  if (is_too_old(question, machine)) refuse_old_driver(question, machine);
  if (machine.presence.num_device_files == 0)
    refuse(fmt::format("{} with driver {}, but this process has no device file /dev/nvidia0", here, driver),
           "ask the job for GPUs (--gpus-per-node), or start the container with them (--gpus all, --nv)");
  if (machine.driver.gpus.empty() && !machine.driver.driver_version.empty())
    refuse(fmt::format("{}, but driver {} shows this process none of them", here, driver),
           "ask the job for GPUs (--gpus-per-node): SLURM hides those of a node that a job was not given");
  const std::vector<DriverAnswer::Gpu> gpus = visible_gpus(question, machine);
  const auto all = [&](auto what) { return !gpus.empty() && std::all_of(gpus.begin(), gpus.end(), what); };
  if (all([](const auto& gpu) { return gpu.mig_parts == 0; }))
    refuse(fmt::format("{} in MIG mode with driver {}, but without a part to compute on", here, driver),
           "make parts (nvidia-smi mig -cgi 0 -C), or end MIG mode (nvidia-smi -mig 0)");
  if (all([](const auto& gpu) { return gpu.is_prohibited; }))
    refuse(fmt::format("{} with driver {}, but in compute mode Prohibited", here, driver),
           "nvidia-smi -c DEFAULT changes it");
  const std::string visible =
      question.visible_devices ? fmt::format(" and CUDA_VISIBLE_DEVICES={}", *question.visible_devices) : "";
  refuse(
      fmt::format("{} with driver {}{}, but CUDA finds none that it can use (needs driver {} or newer)", here, driver,
                  visible, needed),
      "run nvidia-smi and look at the kernel's messages (dmesg); on systems with NVSwitch the fabric manager must run");
}

/// CUDA takes what stands before the first device that is not here, without a word.
void check_visible(const GpuQuestion& question, const GpuMachine& machine) {
  const auto names = core::split(*question.visible_devices, ",");
  const int num_here = std::max(machine.presence.most(), static_cast<int>(machine.driver.gpus.size()));
  for (const auto& each : names) {
    const std::string name(core::trim(each));
    if (name == "-1" || (name.empty() && &each == &names.back())) break;  // what stands before it is what CUDA shows
    bool is_absent = false;
    const auto none_is = [&](auto what) {
      return std::none_of(machine.driver.gpus.begin(), machine.driver.gpus.end(), what);
    };
    const std::string driver = driver_of(machine);
    if (std::count_if(names.begin(), names.end(), [&](const auto& other) { return core::trim(other) == name; }) > 1)
      refuse(fmt::format("CUDA_VISIBLE_DEVICES={} names device '{}' twice, and CUDA then shows none",
                         *question.visible_devices, name),
             "name each device once");
    if (const auto index = core::parse_int(name))
      is_absent = *index < 0 || *index >= num_here;
    else if (machine.driver.gpus.empty())
      is_absent = false;  // not known
    else if (core::starts_with(name, "MIG-"))
      is_absent = none_is([](const auto& gpu) { return gpu.mig_parts.value_or(0) > 0; });
    else  // "GPU-..."; CUDA knows no other names
      is_absent = none_is([&](const auto& gpu) { return !name.empty() && core::starts_with(gpu.uuid, name); });
    if (!is_absent) continue;
    refuse(fmt::format("CUDA_VISIBLE_DEVICES={} names device '{}', which is not here: {}{}, driver {}",
                       *question.visible_devices, name, gpus_here(machine),
                       num_here > 1 ? fmt::format(", numbered 0 to {}", num_here - 1) : "",
                       driver.empty() ? "none" : driver),
           "unset it, or name devices that nvidia-smi -L lists");
  }
}

/// GPUs that CUDA counts and that a rank still cannot work with.
void check_usable(const GpuQuestion& question, const GpuMachine& machine) {
  const std::vector<DriverAnswer::Gpu> gpus = visible_gpus(question, machine);
  const auto any = [&](auto what) { return std::any_of(gpus.begin(), gpus.end(), what); };
  if (question.world_size > 1 && any([](const auto& gpu) { return gpu.mig_parts.has_value(); }))
    refuse(fmt::format("a GPU here is in MIG mode (driver {}), and {} ranks are started: NCCL does not connect parts "
                       "of GPUs",
                       driver_of(machine), question.world_size),
           "start one rank, or end MIG mode (nvidia-smi -mig 0)");
  const auto all = [&](auto what) { return !gpus.empty() && std::all_of(gpus.begin(), gpus.end(), what); };
  if (all([](const auto& gpu) { return gpu.is_prohibited; }) || all([](const auto& gpu) { return gpu.mig_parts == 0; }))
    refuse_unusable(question, machine);
  const double least = least_capability(question.needed_cuda);
  if (all([&](const auto& gpu) { return gpu.capability > 0 && gpu.capability < least; }))
    refuse(fmt::format("{} has compute capability {:.1f}; CUDA {}, which LibTorch was built for, begins with {:.1f}",
                       gpus.front().name, gpus.front().capability, version_text(question.needed_cuda), least),
           "take a newer GPU, or build with a LibTorch for an older CUDA");
  const auto& here = machine.driver.gpus;
  if (here.size() == 1 && machine.presence.most() <= 1 && question.local_world_size > 1)
    refuse(fmt::format("{} local ranks, but only 1 GPU is here{}", question.local_world_size,
                       here.front().is_exclusive ? ", for one process at a time (Exclusive_Process)" : ""),
           "start 1 rank on each node (--nproc-per-node, --ntasks-per-node)");
}

}  // namespace

SystemRoots SystemRoots::here() {
  const auto root = core::env("LOCKSTEP_SYSTEM_ROOT");
  if (!root) return {};
  return {.dev = *root + "/dev", .proc = *root + "/proc", .sys = *root + "/sys"};
}

GpuPresence find_gpus(const SystemRoots& roots) {
  GpuPresence presence{.num_on_bus = gpus_on_bus(roots.sys),
                       .num_of_driver = static_cast<int>(files_of(roots.proc / "driver/nvidia/gpus").size()),
                       .driver_version = module_version(roots)};
  for (const auto& file : files_of(roots.dev)) {
    const std::string name = file.filename();
    constexpr std::string_view kNvidia = "nvidia";
    presence.num_device_files +=
        name == "dxg" || (core::starts_with(name, kNvidia) && is_number(name.substr(kNvidia.size())));
  }
  return presence;
}

DriverAnswer ask_driver() {
  DriverAnswer answer;
  const auto nvml = Nvml::open(&answer.problem);
  if (!nvml) return answer;
  answer.driver_version = nvml->driver_version();
  answer.cuda_version = std::max(0, nvml->cuda_version());
  for (size_t i = 0; i < nvml->num_devices(); ++i) {
    constexpr int kProhibited = 2, kExclusive = 3;
    const int parts = nvml->num_mig_parts(i);
    answer.gpus.push_back({.name = nvml->name(i),
                           .uuid = nvml->uuid(i),
                           .capability = nvml->compute_capability(i),
                           .is_prohibited = nvml->compute_mode(i) == kProhibited,
                           .is_exclusive = nvml->compute_mode(i) == kExclusive,
                           .mig_parts = parts < 0 ? std::nullopt : std::optional(parts)});
  }
  return answer;
}

std::string hidden_peers(const GpuQuestion& question, const GpuMachine& machine) {
  const auto num_shown = static_cast<int>(machine.driver.gpus.size());
  if (num_shown == 0 || num_shown >= question.local_world_size || question.request == "cpu") return "";
  return fmt::format(
      "{} ranks of this node are shown {} of its GPUs each: NCCL then goes through the host's memory or fails, and the "
      "energy of GPUs is not counted; ask for GPUs by node, with --gpus-per-node and --gpu-bind=none instead of "
      "--gpus-per-task",
      question.local_world_size, num_shown);
}

std::optional<std::string> visible_devices() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

bool hides_all_gpus(const std::optional<std::string>& visible_devices) {
  if (!visible_devices) return false;
  const auto text = core::trim(*visible_devices);
  return text.empty() || text == "-1" || text == "NoDevFiles" || text == "void";
}

int num_visible_gpus(const std::optional<std::string>& visible_devices, const DriverAnswer& driver) {
  if (hides_all_gpus(visible_devices)) return 0;
  const int num_gpus = static_cast<int>(driver.gpus.size());
  return visible_devices ? std::min(num_gpus, static_cast<int>(core::split(*visible_devices, ",").size())) : num_gpus;
}

std::string oldest_driver(int cuda_version) {
  constexpr int kMajor = 1000;
  switch (cuda_version / kMajor) {
    case 11: return "450";
    case 12: return "525";
    default: return "580";
  }
}

DeviceChoice choose_device(const GpuQuestion& question, const GpuMachine& machine) {
  const bool is_hidden = hides_all_gpus(question.visible_devices);
  const bool is_here = machine.presence.any() || !machine.driver.gpus.empty();
  if (question.request == "cpu") return {};
  if (question.visible_devices && !is_hidden && question.needed_cuda > 0) check_visible(question, machine);
  if (question.num_usable == 0) {
    if (is_here && !is_hidden) refuse_unusable(question, machine);
    const bool is_asked = question.request == "cuda";
    if (!is_asked && question.backend != "nccl") return {};
    const std::string flag = !question.asked_by.empty() ? question.asked_by
                             : is_asked                 ? "--device cuda"
                                                        : "--dist-backend nccl";
    if (is_here)
      refuse(fmt::format("{}, but CUDA_VISIBLE_DEVICES='{}' hides every GPU: {}", flag, *question.visible_devices,
                         gpus_here(machine)),
             "unset it, or ask the job for GPUs");
    throw without_gpu(flag, is_asked ? "--device cpu" : "--dist-backend gloo");
  }
  check_usable(question, machine);
  return choose_device(DeviceKind::kCuda, question.num_usable, question.local_rank, question.local_world_size);
}

std::string gpu_key(int index, const std::optional<std::string>& visible_devices, const DriverAnswer& driver) {
  if (driver.gpus.empty()) return "";
  std::string key;
  for (const auto& gpu : driver.gpus) key += gpu.uuid + " ";
  if (!visible_devices) return key + std::to_string(index);
  const auto names = core::split(*visible_devices, ",");
  return static_cast<size_t>(index) < names.size() ? key + std::string(core::trim(names[static_cast<size_t>(index)]))
                                                   : "";
}

}  // namespace lockstep::hw
