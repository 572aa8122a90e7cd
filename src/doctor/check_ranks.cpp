// Who this process is, and where the ranks meet.
#include <optional>

#include "core/env.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/strings.h"
#include "doctor/checks.h"
#include "doctor/sockets.h"

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{3000};

/// The place among the ranks, or nothing where check_ranks has said why.
std::optional<hw::RankInfo> known_place(const Question& question) {
  try {
    return hw::discover_ranks({}, question.env);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Rank 0 opens the port, the launcher of torchrun has opened it: of each the port must be as it expects.
void check_port_of_rank_zero(const hw::RankInfo& place, Report& report) {
  const auto port = static_cast<uint16_t>(place.master_port);
  const std::string name = fmt::format("port {}", port);
  if (place.store_is_hosted_by_launcher) {
    const Connection store = connect_to(place.master_addr, port, kConnectTimeout);
    if (store.reach == Reach::kOpen) return report.ok(fmt::format("torchrun's store answers on {}", name));
    return report.error(
        fmt::format("torchrun's store does not answer on {}:{}: {}", place.master_addr, port, store.reason),
        "look at torchrun's own output; its --rdzv-endpoint must name this node");
  }
  const bool is_one_node = place.local_world_size == place.world_size;
  const Listener listener = listen_on(port, is_one_node ? Interfaces::kLoopback : Interfaces::kAll);
  if (listener.socket.valid()) return report.ok(fmt::format("rank 0 can listen on {}", name));
  report.error(fmt::format("rank 0 cannot listen on {}: {}", name, listener.reason),
               listener.is_in_use ? "end the program that has it, perhaps left over from an earlier run "
                                    "(ss -ltnp), or choose another with MASTER_PORT or --master-port"
                                  : "choose another with MASTER_PORT or --master-port");
}

/// What a rank beside rank 0 can see of its port before rank 0 has come.
void check_way_to_master(const hw::RankInfo& place, Report& report) {
  const std::string target = fmt::format("{}:{}", place.master_addr, place.master_port);
  const Connection way = connect_to(place.master_addr, static_cast<uint16_t>(place.master_port), kConnectTimeout);
  if (way.reach == Reach::kOpen)
    return report.ok(fmt::format("{} answers in {:.1f} ms, from {} here", target, way.connect_ms, way.own_address));
  if (way.reach == Reach::kRefused)
    return report.ok(fmt::format("{} can be reached; nobody listens there yet", target));
  if (way.reach == Reach::kNoAnswer)
    return report.error(fmt::format("{} does not answer within {} s: a firewall drops it, or the host is down", target,
                                    kConnectTimeout.count() / 1000),
                        "open the port between the nodes (firewall-cmd --add-port), choose one that is open with "
                        "MASTER_PORT, or set MASTER_ADDR to the host's name on the cluster's network");
  report.error(fmt::format("{} cannot be reached: {}", target, way.reason),
               "set MASTER_ADDR to the host name of rank 0 as the other nodes know it");
}

}  // namespace

void check_ranks(const Question& question, Report& report) {
  const hw::RankInfo place = hw::discover_ranks({}, question.env);
  report.ok(fmt::format("rank {} of {}, {} of {} on {} ({})", place.rank, place.world_size, place.local_rank,
                        place.local_world_size, core::host_name(), place.source));
  for (const std::string& warning : place.warnings)
    report.warning(warning, "start the ranks with `lockstep launch`, torchrun or srun, which set it");
}

void check_master(const Question& question, Report& report) {
  auto place = known_place(question);
  if (!place) return report.note("not looked at: the ranks are not known");
  const auto address = question.env("MASTER_ADDR");
  if (place->world_size == 1) {
    if (!address || address->empty()) return report.ok("one rank meets nobody");
    place->master_addr = *address;
  }
  std::string reason;
  const auto addresses = resolve(place->master_addr, reason);
  if (addresses.empty())
    return report.error(fmt::format("the master address '{}' cannot be resolved: {}", place->master_addr, reason),
                        "set MASTER_ADDR to the host name of rank 0, in jobs of SLURM: "
                        "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)");
  if (place->world_size == 1)
    return report.ok(fmt::format("the master address {} is {}", place->master_addr, addresses.front()));
  if (place->rank != 0) return check_way_to_master(*place, report);
  if (!are_own(addresses))
    return report.error(fmt::format("the master address {} ({}) is not an address of {}, where rank 0 runs",
                                    place->master_addr, addresses.front(), core::host_name()),
                        "set MASTER_ADDR to the name of the host of rank 0: the other ranks wait elsewhere");
  check_port_of_rank_zero(*place, report);
}

}  // namespace lockstep::doctor
