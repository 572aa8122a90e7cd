#include "train/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/env.h"
#include "core/error.h"
#include "core/heap.h"
#include "core/host_name.h"
#include "core/log.h"
#include "hw/device.h"
#include "hw/gpus.h"

namespace lockstep::train {
namespace {

/// OMP_NUM_THREADS, unless it is the 1 that torchrun itself sets for several ranks: nobody asked for that.
std::optional<std::string> asked_by_environment() {
  const auto variable = core::env("OMP_NUM_THREADS");
  const bool is_of_torchrun = variable == "1" && core::env("TORCHELASTIC_RUN_ID").has_value();
  return is_of_torchrun ? std::nullopt : variable;
}

/// 13000; 0: it was built without CUDA.
int cuda_of_libtorch() {
  const auto& hooks = at::detail::getCUDAHooks();
  return hooks.hasCUDART() ? static_cast<int>(hooks.versionCUDART()) : 0;
}

/// The first use makes the device's context, which fails where another process holds the device.
void touch(at::Device device, const hw::DriverAnswer& driver) {
  try {
    at::zeros({1}, device);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const bool is_too_old = text.find("no kernel image") != std::string::npos;
    throw EnvironmentError(
        fmt::format("train: {} is here and cannot be used, driver {}: {}", device.str(),
                    driver.driver_version.empty() ? "not known" : driver.driver_version, text),
        is_too_old
            ? "this LibTorch has no kernels for a GPU of that age (docs/install.md); --device cpu computes without"
            : "does another process hold it (nvidia-smi)? In compute mode Exclusive_Process it serves one at a "
              "time");
  }
}

void compute_by(const config::GpuMath& math) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(math.tf32);
  context.setAllowTF32CuDNN(math.cudnn_tf32);
  context.setBenchmarkCuDNN(math.cudnn_benchmark);
}

}  // namespace

at::Device pick_device(const std::string& request, const config::GpuMath& math, const hw::RankInfo& rank,
                       const std::string& backend) {
  const auto accelerator = at::accelerator::getAccelerator();
  const hw::GpuMachine machine;
  const hw::GpuQuestion question{.request = request,
                                 .backend = backend,
                                 .num_usable = accelerator ? static_cast<int>(at::accelerator::deviceCount()) : 0,
                                 .needed_cuda = cuda_of_libtorch(),
                                 .visible_devices = hw::visible_devices(),
                                 .local_rank = rank.local_rank,
                                 .local_world_size = rank.local_world_size,
                                 .world_size = rank.world_size};
  const hw::DeviceChoice choice = hw::choose_device(question, machine);
  if (choice.kind != hw::DeviceKind::kCuda) {
    if (request == "auto" && machine.presence.any())
      core::log_warning("computing on the CPU: CUDA_VISIBLE_DEVICES hides the GPUs that are here");
    core::keep_freed_memory();
    return at::Device(at::kCPU);
  }
  if (const std::string warning = hw::hidden_peers(question, machine); !warning.empty() && rank.local_rank == 0)
    core::log_warning("{}", warning);
  const auto index = static_cast<at::DeviceIndex>(choice.index);
  at::accelerator::setDeviceIndex(index);  // before the first allocation, event or pinned byte of this rank
  const at::Device device(*accelerator, index);
  touch(device, machine.driver);
  compute_by(math);
  return device;
}

std::string choose_backend(const std::string& asked, at::Device device, int num_ranks) {
  if (asked == "auto") return device.is_cpu() ? "gloo" : "nccl";
  if (asked == "gloo" && !device.is_cpu() && num_ranks > 1)
    throw UsageError(
        fmt::format("train: --dist-backend gloo connects ranks on the CPU, and these {} compute on GPUs ({})",
                    num_ranks, device.str()),
        "leave it out, so that NCCL connects them, or compute on the CPU with --device cpu");
  return asked;
}

std::string gpu_key(at::Device device) {
  return device.is_cpu() ? "" : hw::gpu_key(device.index(), hw::visible_devices(), hw::ask_driver());
}

void set_up_lone_cpu(int64_t asked) {
  const hw::ThreadChoice choice = hw::choose_threads(asked, asked_by_environment(), hw::cpu_cores_of_rank(1, 1),
                                                     /*num_sharing=*/1, hw::usable_cpu_cores());
  for (const auto& warning : choice.warnings) core::log_warning("train: {}", warning);
  at::set_num_threads(choice.count);
  core::keep_freed_memory();
}

void set_compute_threads(comm::Comm& world, int64_t asked, int local_world_size) {
  const std::string mine = core::host_name() + " " + hw::cpu_mask_text();
  const std::vector<std::string> all = world.gather_strings(mine);
  const auto num_sharing = static_cast<int>(std::count(all.begin(), all.end(), mine));
  const hw::ThreadChoice choice =
      hw::choose_threads(asked, asked_by_environment(), hw::cpu_cores_of_rank(num_sharing, local_world_size),
                         num_sharing, hw::usable_cpu_cores());
  if (world.rank() == 0)  // others are told alike
    for (const auto& warning : choice.warnings) core::log_warning("train: {}", warning);
  at::set_num_threads(choice.count);
  core::log_info("compute threads of this rank: {} ({})", choice.count, choice.reason);
}

}  // namespace lockstep::train
