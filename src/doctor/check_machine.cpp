// GPUs, limits of the process, cores and memory.
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "doctor/checks.h"
#include "hw/device.h"
#include "hw/gpus.h"
#include "hw/machine_memory.h"

namespace lockstep::doctor {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

hw::RankInfo place_or_single(const Question& question) {
  try {
    return hw::discover_ranks({}, question.env);
  } catch (const Error&) {
    return {};
  }
}

/// How many GPUs LibTorch would count with the driver that answers.
int usable_gpus(const Question& question, const hw::GpuMachine& machine) {
  if (machine.driver.cuda_version / 1000 < question.needed_cuda / 1000) return 0;
  return hw::num_visible_gpus(question.visible_devices, machine.driver);
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value); }

struct Limit {
  int resource;
  const char* name;
  rlim_t least;
  const char* effect;
  const char* advice;
};

/// Warns of a soft limit below what a run with many ranks, readers or pinned buffers uses.
bool is_enough(const Limit& limit, Report& report, std::vector<std::string>& good) {
  rlimit values{};
  ::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &values);
  const bool is_fine = values.rlim_cur == RLIM_INFINITY || values.rlim_cur >= limit.least;
  if (is_fine)
    good.push_back(fmt::format("{} {}", limit.name, limit_text(values.rlim_cur)));
  else
    report.warning(
        fmt::format("ulimit {} is {} (at most {}), expected {} or more: {}", limit.name, limit_text(values.rlim_cur),
                    limit_text(values.rlim_max), limit_text(limit.least), limit.effect),
        limit.advice);
  return is_fine;
}

bool has_infiniband(const Question& question) {
  std::error_code failure;
  return !std::filesystem::is_empty(question.roots.sys / "class/infiniband", failure) && !failure;
}

}  // namespace

void check_libtorch(const Question& question, Report& report) {
  if (!question.find_libtorch)
    return report.note("this program was built without the engine, which loads LibTorch",
                       "where a run is to compute, use a build of both programs (./run makes it)");
  report.ok("LibTorch is in " + question.find_libtorch());  // throws what is wrong, with what to do
}

void check_gpus(const Question& question, Report& report) {
  if (question.device == "cpu") return report.ok("none is needed: the command computes on the CPU (--device cpu)");
  const hw::GpuMachine machine{.presence = hw::find_gpus(question.roots), .driver = hw::ask_driver()};
  const auto& visible = question.visible_devices;
  const bool is_hidden = hw::hides_all_gpus(visible), is_here = machine.presence.any() || !machine.driver.gpus.empty();
  const hw::RankInfo place = place_or_single(question);
  const hw::GpuQuestion gpus{.request = question.device,
                             .backend = question.backend,
                             .num_usable = usable_gpus(question, machine),
                             .needed_cuda = question.needed_cuda,
                             .visible_devices = visible,
                             .local_rank = place.local_rank,
                             .local_world_size = place.local_world_size,
                             .world_size = place.world_size};
  if (!is_here && visible && !is_hidden)
    return report.error(fmt::format("CUDA_VISIBLE_DEVICES={}, but no GPU is here", *visible),
                        "ask the job for GPUs (--gpus-per-node), or unset it to compute on the CPU");
  if (is_here && !is_hidden && question.needed_cuda == 0)
    return report.note(
        fmt::format("{} GPUs are here; this program was built without LibTorch's CUDA", machine.presence.most()),
        "run the doctor of a build with the engine");
  const hw::DeviceChoice choice = hw::choose_device(gpus, machine);  // throws what is wrong, with what to do
  if (!is_here) return report.ok("no GPU of NVIDIA is here: runs compute on the CPU");
  if (is_hidden)
    return report.warning(fmt::format("CUDA_VISIBLE_DEVICES='{}' hides every GPU of this machine, which has {}",
                                      *visible, machine.presence.most()),
                          "unset it, or ask the job for GPUs (--gpus-per-node), unless the CPU is meant");
  if (const std::string hidden = hw::hidden_peers(gpus, machine); !hidden.empty())
    report.warning(hidden.substr(0, hidden.find("; ")), hidden.substr(hidden.find("; ") + 2));
  const std::string name = machine.driver.gpus.empty() ? "GPU" : machine.driver.gpus.front().name;
  report.ok(fmt::format("{} x {}, driver {}, which serves CUDA {}.{} (LibTorch needs {}); this rank takes {}",
                        gpus.num_usable, name, machine.driver.driver_version, machine.driver.cuda_version / 1000,
                        machine.driver.cuda_version % 1000 / 10, question.needed_cuda / 1000, choice.index));
}

void check_limits(const Question& question, Report& report) {
  constexpr rlim_t kFewFiles = 4096, kFewProcesses = 4096;
  std::vector<std::string> good;
  is_enough({RLIMIT_NOFILE, "-n (open files)", kFewFiles, "many ranks, shards and reader threads need one each",
             "ulimit -n 65536 in the job script; for services LimitNOFILE="},
            report, good);
  is_enough({RLIMIT_NPROC, "-u (processes and threads)", kFewProcesses, "all threads of all ranks of a user count",
             "ulimit -u 65536 in the job script"},
            report, good);
  if (has_infiniband(question))
    is_enough({RLIMIT_MEMLOCK, "-l (locked memory)", RLIM_INFINITY, "InfiniBand registers its buffers as locked memory",
               "ulimit -l unlimited; under SLURM: PropagateResourceLimitsExcept=MEMLOCK and LimitMEMLOCK=infinity of "
               "slurmd; in containers --ulimit memlock=-1"},
              report, good);
  if (!good.empty()) report.ok(core::join(good, ", "));
}

void check_shared_memory(const Question& question, Report& report) {
  const std::filesystem::path folder = question.roots.dev / "shm";
  struct statvfs room {};
  const char* advice = "in containers --shm-size=8g or --ipc=host; elsewhere mount -o remount,size=50% /dev/shm";
  if (::statvfs(folder.c_str(), &room) != 0)
    return report.warning(fmt::format("{}: {}", folder.string(), std::strerror(errno)), advice);
  const double total = static_cast<double>(room.f_blocks) * static_cast<double>(room.f_frsize);
  const double left = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  const std::string seen =
      fmt::format("{} has {} free of {}", folder.string(), core::format_bytes(left), core::format_bytes(total));
  // NCCL keeps about 10 MiB there for each pair of neighbours of a node; containers are given 64 MiB.
  constexpr double kTooSmall = 64 * kMiB, kSmall = 1 * kGiB;
  if (left < kTooSmall)
    return report.error(fmt::format("{}, expected 1 GiB or more: NCCL's ranks of a node exchange through it and end "
                                    "with 'unhandled system error'",
                                    seen),
                        advice);
  if (left < kSmall) return report.warning(fmt::format("{}, expected 1 GiB or more", seen), advice);
  report.ok(seen);
}

void check_cores(const Question& question, Report& report) {
  const hw::RankInfo place = place_or_single(question);
  const int usable = hw::usable_cpu_cores(), num_local = std::max(1, place.local_world_size);
  const auto threads = question.env("OMP_NUM_THREADS");
  const std::string seen = fmt::format("{} cores ({}) for {} on this node", usable, hw::cpu_mask_text(),
                                       num_local == 1 ? "1 rank" : fmt::format("{} ranks", num_local));
  const auto cores_of_machine = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  if (usable == 1 && cores_of_machine >= 4)
    return report.warning(
        fmt::format("this process may use 1 of {} cores: reading data and computing share it", cores_of_machine),
        "ask for cores (--cpus-per-task, and srun --cpus-per-task again since SLURM 22.05), or let "
        "the launcher bind to more (--cpu-bind=none, mpirun --bind-to none)");
  const auto number = threads ? core::parse_int(core::trim(*threads)) : std::nullopt;
  if (number && *number > usable)
    return report.warning(fmt::format("OMP_NUM_THREADS={}, but there are {}", *threads, seen),
                          "unset it: lockstep shares out the cores, or use --threads");
  report.ok(seen + (threads ? fmt::format(", OMP_NUM_THREADS={}", *threads) : ""));
}

void check_memory(const Question& question, Report& report) {
  const double left = static_cast<double>(hw::available_memory_bytes());
  const auto limit = hw::left_in_control_groups("/proc/self/cgroup", "/sys/fs/cgroup");
  const std::string seen =
      fmt::format("{} of memory can be had{}", core::format_bytes(left),
                  limit && static_cast<double>(*limit) <= left
                      ? fmt::format(" (the control group leaves {})", core::format_bytes(static_cast<double>(*limit)))
                      : "");
  const double planned = question.memory_planned_bytes, here = question.memory_here_bytes;
  const std::string plan = fmt::format("the plan of `{}` needs {} for the fullest rank, of {}", question.command,
                                       core::format_bytes(planned), core::format_bytes(here));
  if (planned > 0 && here > 0 && planned > here)
    return report.error(plan,
                        "a smaller --batch-size or --micro-batch-size, --grad-checkpointing, more --accum-freq, "
                        "--local-loss with --gather-with-grad, or more ranks; --dry-run shows what takes it");
  constexpr double kLittle = 2 * kGiB;
  if (left < kLittle)
    return report.warning(seen + ", expected 2 GiB or more", "ask for more memory (--mem), or end other programs");
  report.ok(planned > 0 && here > 0 ? seen + "; " + plan : seen);
}

void check_copies(const Question& question, Report& report) {
  if (!question.measures) return report.note("not measured here: one rank of the node does");
  constexpr size_t kBytes = 64 << 20;
  constexpr int kRounds = 5;
  const auto from = std::make_unique<char[]>(kBytes), to = std::make_unique<char[]>(kBytes);
  double best_ms = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    from[static_cast<size_t>(round)] = 1;
    const auto begin = core::Clock::now();
    std::memcpy(to.get(), from.get(), kBytes);
    best_ms = std::min(best_ms, core::ms_since(begin));
  }
  const double gbytes_per_s = 2 * static_cast<double>(kBytes) / best_ms / 1e6;  // read and written
  const std::string seen =
      fmt::format("one thread copies {:.1f} GB/s (read and written), best of {}", gbytes_per_s, kRounds);
  constexpr double kSlow = 4;
  if (gbytes_per_s < kSlow)
    return report.warning(seen + ", expected 4 GB/s or more", "is another job on this node, or its clock throttled?");
  report.ok(seen);
}

namespace {

/// GB/s of a[i] = b[i] + s c[i] by so many threads, read and written; the best of some rounds.
double triad_gbytes_per_s(int num_threads) {
  constexpr size_t kValues = 16 << 20;  // floats of one array: 64 MiB
  constexpr int kRounds = 5;
  const auto num_parts = static_cast<size_t>(num_threads);
  const auto a = std::make_unique_for_overwrite<float[]>(kValues), b = std::make_unique_for_overwrite<float[]>(kValues),
             c = std::make_unique_for_overwrite<float[]>(kValues);
  double best_ms = 1e30;
  for (int round = 0; round <= kRounds; ++round) {  // the first one makes the pages, where they are used
    const auto begin = core::Clock::now();
    {
      std::vector<std::jthread> threads;
      for (size_t part = 0; part < num_parts; ++part)
        threads.emplace_back([&, part] {
          const size_t from = kValues * part / num_parts, to = kValues * (part + 1) / num_parts;
          const auto factor = static_cast<float>(round);
          if (round == 0) std::fill(b.get() + from, b.get() + to, 1.0F), std::fill(c.get() + from, c.get() + to, 2.0F);
          for (size_t i = from; i < to; ++i) a[i] = b[i] + factor * c[i];
        });
    }
    if (round > 0) best_ms = std::min(best_ms, core::ms_since(begin));
  }
  LOCKSTEP_CHECK(a[kValues - 1] == 1.0F + 2.0F * kRounds, "{}", a[kValues - 1]);
  return 3.0 * sizeof(float) * kValues / best_ms / 1e6;
}

}  // namespace

void check_memory_rate(const Question& question, Report& report) {
  if (!question.measures) return report.note("not measured here: one rank of the node does");
  const ExpectedRates& expected = question.expected;
  const int cores = hw::usable_cpu_cores();
  const int threads = expected.threads_of_rank > 0 ? std::min(expected.threads_of_rank, cores) : cores;
  const double rate = triad_gbytes_per_s(threads);
  const std::string seen = fmt::format("{} thread{} reach{} {:.1f} GB/s of memory (triad over 192 MiB)", threads,
                                       threads == 1 ? "" : "s", threads == 1 ? "es" : "", rate);
  if (expected.memory_gbytes_per_s <= 0)
    return report.ok(seen + (expected.source.empty() ? "" : "; " + expected.source + " says nothing of processors"));
  const std::string told = fmt::format("{}, {} says {:.4g}", seen, expected.source, expected.memory_gbytes_per_s);
  constexpr double kShare = 0.6;  // of a figure that was measured over a longer time, with nothing beside it
  if (rate < kShare * expected.memory_gbytes_per_s)
    return report.warning(fmt::format("{}: expected {:.4g} GB/s or more", told, kShare * expected.memory_gbytes_per_s),
                          "end what else runs on the node; ask for whole nodes (--exclusive) and bind ranks to the "
                          "memory beside their cores; are all memory channels filled, is the clock throttled?");
  report.ok(told);
}

}  // namespace lockstep::doctor
