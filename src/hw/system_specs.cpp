#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "hw/device_specs.h"

namespace lockstep::hw {
namespace {

constexpr SystemSpec kSystems[] = {
    {.name = "LUMI-G", .site = "CSC, Finland", .aliases = "lumi", .num_nodes = 2978, .devices_per_node = 8, .device = "MI250X GCD", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "Slingshot-11, Dragonfly", .nodes_per_group = 124, .host = "1x EPYC 7A53, 512 GiB",
     .remark = "4 modules of 2 devices; each network card sits on a module"},
    {.name = "Leonardo Booster", .site = "CINECA, Italy", .aliases = "leonardo", .num_nodes = 3456, .devices_per_node = 4, .device = "A100 SXM 64GB",
     .num_nics = 2, .nic_gbits_per_s = 200, .injection_gbytes_per_s = 50, .fabric = "InfiniBand HDR, Dragonfly+", .nodes_per_group = 180,
     .host = "1x Xeon 8358, 512 GiB", .remark = "NCCL 2.22 to 2.29.1 needs NCCL_PXN_DISABLE=1"},
    {.name = "MareNostrum 5 ACC", .site = "BSC, Spain", .aliases = "marenostrum5 marenostrum mn5", .num_nodes = 1120, .devices_per_node = 4,
     .device = "H100 SXM 64GB", .num_nics = 4, .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "InfiniBand NDR200, fat tree of islands",
     .nodes_per_group = 160, .host = "2x Xeon 8460Y+, 512 GiB", .remark = "steadiest batch times of the EPICURE guide"},
    {.name = "MeluXina GPU", .site = "LuxProvide, Luxembourg", .aliases = "meluxina", .num_nodes = 200, .devices_per_node = 4, .device = "A100 SXM 40GB",
     .num_nics = 2, .nic_gbits_per_s = 200, .injection_gbytes_per_s = 50, .fabric = "InfiniBand HDR, Dragonfly+", .host = "2x EPYC 7452, 512 GiB"},
    {.name = "Karolina GPU", .site = "IT4I, Czechia", .aliases = "karolina", .num_nodes = 72, .devices_per_node = 8, .device = "A100 SXM 40GB", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "InfiniBand HDR, non-blocking fat tree", .host = "2x EPYC 7763, 1024 GiB",
     .remark = "64 nodes are nearly the whole partition"},
    {.name = "Discoverer+", .site = "Sofia, Bulgaria", .aliases = "discoverer discovererplus", .num_nodes = 4, .devices_per_node = 8, .device = "H200",
     .num_nics = 8, .nic_gbits_per_s = 400, .injection_gbytes_per_s = 400, .fabric = "InfiniBand NDR, Dragonfly+", .host = "2x Xeon 8480C, 1.96 TiB",
     .remark = "the large partition has no GPUs"},
    {.name = "Vega GPU", .site = "IZUM, Slovenia", .aliases = "vega", .num_nodes = 60, .devices_per_node = 4, .device = "A100 SXM 40GB", .num_nics = 2,
     .nic_gbits_per_s = 100, .injection_gbytes_per_s = 25, .fabric = "InfiniBand HDR100, Dragonfly+", .host = "2x EPYC 7H12, 512 GiB",
     .remark = "sources disagree on the network cards (HDR100 or dual-port HDR): measure"},
    {.name = "Deucalion GPU", .site = "FCT, Portugal", .aliases = "deucalion", .num_nodes = 33, .devices_per_node = 4, .device = "A100 SXM 40GB", .num_nics = 2,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 50, .fabric = "InfiniBand HDR, fat tree", .host = "2x EPYC 7742, 512 GiB",
     .remark = "17 nodes with 40 GB, 16 with 80 GB: look at each node"},
    {.name = "JUPITER Booster", .site = "JSC, Germany", .aliases = "jupiter", .num_nodes = 5884, .devices_per_node = 4, .device = "GH200 96GB", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "InfiniBand NDR200, Dragonfly+", .nodes_per_group = 240, .host = "4x Grace, 480 GiB",
     .remark = "680 W a module, processor included"},
    {.name = "JUWELS Booster", .site = "JSC, Germany", .aliases = "juwels", .num_nodes = 936, .devices_per_node = 4, .device = "A100 SXM 40GB", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "InfiniBand HDR, Dragonfly+", .nodes_per_group = 48, .host = "2x EPYC 7402, 512 GiB"},
    {.name = "HoreKa", .site = "KIT, Germany", .aliases = "horeka", .num_nodes = 167, .devices_per_node = 4, .device = "A100 SXM 40GB", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "InfiniBand HDR, non-blocking fat tree"},
    {.name = "Alps", .site = "CSCS, Switzerland", .aliases = "daint clariden", .num_nodes = 2688, .devices_per_node = 4, .device = "GH200 96GB", .num_nics = 4,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 100, .fabric = "Slingshot-11, Dragonfly", .host = "4x Grace"},
    {.name = "Perlmutter", .site = "NERSC, USA", .num_nodes = 1792, .devices_per_node = 4, .device = "A100 SXM 40GB", .num_nics = 4, .nic_gbits_per_s = 200,
     .injection_gbytes_per_s = 100, .fabric = "Slingshot-11, Dragonfly", .host = "1x EPYC 7763", .remark = "256 of the nodes have 80 GB"},
    {.name = "Frontier", .site = "ORNL, USA", .num_nodes = 9408, .devices_per_node = 8, .device = "MI250X GCD", .num_nics = 4, .nic_gbits_per_s = 200,
     .injection_gbytes_per_s = 100, .fabric = "Slingshot-11, Dragonfly", .nodes_per_group = 128, .host = "1x EPYC 7A53, 512 GiB"},
    {.name = "DGX A100 SuperPOD", .site = "NVIDIA", .aliases = "dgx-a100", .devices_per_node = 8, .device = "A100 SXM 80GB", .num_nics = 8,
     .nic_gbits_per_s = 200, .injection_gbytes_per_s = 200, .fabric = "InfiniBand HDR, rail-optimised fat tree", .nodes_per_group = 20, .host = "2x EPYC 7742"},
    {.name = "DGX H100 SuperPOD", .site = "NVIDIA", .aliases = "dgx-h100", .devices_per_node = 8, .device = "H100 SXM 80GB", .num_nics = 8,
     .nic_gbits_per_s = 400, .injection_gbytes_per_s = 400, .fabric = "InfiniBand NDR, rail-optimised fat tree", .nodes_per_group = 32, .host = "2x Xeon 8480C"},
    {.name = "DGX H200 SuperPOD", .site = "NVIDIA", .aliases = "dgx-h200", .devices_per_node = 8, .device = "H200", .num_nics = 8, .nic_gbits_per_s = 400,
     .injection_gbytes_per_s = 400, .fabric = "InfiniBand NDR, rail-optimised fat tree", .nodes_per_group = 32, .host = "2x Xeon 8480C"},
    {.name = "DGX GB200 NVL72", .site = "NVIDIA", .aliases = "dgx-gb200 nvl72", .devices_per_node = 4, .device = "GB200", .num_nics = 4, .nic_gbits_per_s = 400,
     .injection_gbytes_per_s = 200, .fabric = "rail-optimised fat tree", .nodes_per_group = 18, .host = "2x Grace a tray",
     .remark = "the NVLink domain of 72 devices is larger than a node"},
};

}  // namespace

std::span<const SystemSpec> system_specs() { return kSystems; }

const SystemSpec* find_system(std::string_view name) {
  const std::string wanted = core::to_lower_ascii(core::trim(name));
  if (wanted.empty()) return nullptr;
  for (const SystemSpec& system : kSystems) {
    if (core::to_lower_ascii(system.name) == wanted) return &system;
    for (const std::string& alias : core::split(system.aliases, " "))
      if (alias == wanted) return &system;
  }
  return nullptr;
}

const DeviceSpec& device_of(const SystemSpec& system) {
  const auto specs = device_specs();
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const DeviceSpec& spec) { return spec.name == system.device; });
  LOCKSTEP_CHECK(found != specs.end(), "system={} device={}", system.name, system.device);
  return *found;
}

}  // namespace lockstep::hw
