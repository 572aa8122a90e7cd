#include "train/joined_ranks.h"

#include <ATen/Context.h>

#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/strings.h"
#include "train/device.h"

namespace lockstep::train {
namespace {

/// --dist-url: "env://" (the default way), or tcp://HOST:PORT.
void apply_dist_url(const std::string& url, hw::RankFlags& flags) {
  if (url.empty() || url == "env://") return;
  const auto colon = url.rfind(':');
  const auto port = core::parse_int(url.substr(colon + 1));
  if (!core::starts_with(url, "tcp://") || colon <= 6 || !port || *port < 1 || *port > 65535)
    throw UsageError(fmt::format("train: --dist-url '{}' is not understood", url),
                     "expected tcp://HOST:PORT, or env://");
  flags.master_addr = url.substr(6, colon - 6);
  flags.master_port = static_cast<int>(*port);
}

hw::RankInfo find_rank(const config::RunOptions& options) {
  const auto as_int = [](const std::optional<int64_t>& value) {
    return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  };
  hw::RankFlags flags{.rank = as_int(options.dist_rank),
                      .world_size = as_int(options.dist_world_size),
                      .local_rank = as_int(options.dist_local_rank)};
  apply_dist_url(options.dist_url, flags);
  return hw::discover_ranks(flags, hw::process_env());
}

at::Device set_up_device(const config::RunOptions& options, const hw::RankInfo& info) {
  const at::Device device = pick_device(options.device, options.gpu_math, info, options.dist_backend);
  if (options.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  return device;
}

}  // namespace

JoinedRanks join_ranks(const config::RunOptions& options) {
  const hw::RankInfo info = find_rank(options);
  core::configure_log({.level = options.debug ? core::LogLevel::kDebug : core::LogLevel::kInfo,
                       .host = options.log_local ? core::host_name() : "",
                       .rank = options.log_local ? info.local_rank : info.rank});
  for (const auto& warning : info.warnings) core::log_warning("{}", warning);
  const at::Device device = set_up_device(options, info);
  const std::string backend = choose_backend(options.dist_backend, device, info.world_size);
  const auto ms = [](double seconds) { return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)); };
  JoinedRanks ranks{.info = info,
                    .device = device,
                    .world = comm::World::join(info, {.backend = backend,
                                                      .device = device,
                                                      .device_key = gpu_key(device),
                                                      .timeout = ms(options.dist_timeout_s),
                                                      .join_timeout = ms(options.join_timeout_s)})};
  set_compute_threads(ranks.world.comm(), options.threads, info.local_world_size);
  return ranks;
}

void agree_on(comm::Comm& world, const std::string& what, const std::string& hint) {
  const auto all = world.gather_strings(what);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw UsageError(fmt::format("train: rank 0 has {}, rank {} has {}", all[0], rank, all[rank]), hint);
}

}  // namespace lockstep::train
