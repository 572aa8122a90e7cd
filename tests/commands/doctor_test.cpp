// `lockstep doctor`: each fault is made, and must be found with what was measured and what to change.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "commands/faulty_files.h"
#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "support/listening.h"
#include "support/s3_servers.h"
#include "support/sanitizers.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using core::Json;

/// Variables of a surrounding job must not leak into the tests.
EnvChanges clean(EnvChanges changes = {}) {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK",
        "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_NTASKS", "TORCHELASTIC_USE_AGENT_STORE", "CUDA_VISIBLE_DEVICES",
        "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "OMP_NUM_THREADS", "SLURM_CLUSTER_NAME"})
    changes.emplace(name, std::nullopt);
  return changes;
}

struct Examined {
  int exit_code = 0;
  Json report;
  std::string text;

  /// The findings of a check with this severity, as "evidence -> advice" lines.
  std::string found(const std::string& severity, const std::string& check) const {
    std::string all;
    for (const Json& finding : report.at("findings"))
      if (finding.at("severity") == severity && finding.at("check") == check)
        all += finding.at("where").get<std::string>() + ": " + finding.at("evidence").get<std::string>() + " -> " +
               finding.at("advice").get<std::string>() + "\n";
    return all;
  }
};

Examined examine(const ProgramResult& result) {
  EXPECT_FALSE(result.timed_out);
  EXPECT_NE(result.out, "") << result.err;
  return {.exit_code = result.exit_code, .report = core::parse_json(result.out, "doctor"), .text = result.err};
}

Examined doctor(Args args, const EnvChanges& changes = {}) {
  args.insert(args.begin(), {"doctor", "--json"});
  return examine(run_lockstep(args, clean(changes)));
}

/// `lockstep doctor --json ARGS` from a shell that first runs `preparation`.
Examined doctor_after(const std::string& preparation, const std::string& args = "") {
  return examine(run_program(
      {"/bin/sh", "-c", preparation + "; exec '" + lockstep_program() + "' doctor --json " + args}, clean()));
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Doctor, NothingIsWrongHere) {
  const core::TempDir folder;
  const auto root = folder.path() / "machine";
  fs::create_directories(root / "dev/shm");
  fs::create_directories(root / "sys/class/net/eth0");
  core::write_file_atomic(root / "sys/class/net/eth0/operstate", "up\n");
  core::write_file_atomic(root / "sys/class/net/eth0/mtu", "1500\n");
  core::write_file_atomic(folder.path() / "shard.tar", "data");
  const Args args{"doctor", "--logs", folder.path().string(), "--train-data", (folder.path() / "shard.tar").string()};
  const EnvChanges changes = clean({{"LOCKSTEP_SYSTEM_ROOT", root.string()}});
  const ProgramResult result = run_lockstep(args, changes);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(holds(result.out, "0 errors")) << result.out;
  EXPECT_TRUE(holds(result.out, "eth0 (up, MTU 1500)")) << result.out;
  for (const std::string& line : core::split(result.out, "\n")) EXPECT_LE(line.size(), 80u) << line;
  const Examined json = doctor(Args(args.begin() + 1, args.end()), changes);
  EXPECT_EQ(json.report.at("errors"), 0);
  EXPECT_EQ(json.report.at("exit_code"), 0);
  EXPECT_GE(json.report.at("findings").size(), 14u);
}

TEST(Doctor, WrongMasterAddress) {
  const EnvChanges rank_one{{"RANK", "1"},       {"WORLD_SIZE", "2"},
                            {"LOCAL_RANK", "0"}, {"MASTER_PORT", "29400"},
                            {"GROUP_RANK", "1"}, {"LOCAL_WORLD_SIZE", "1"}};
  EnvChanges unknown = rank_one;
  unknown["MASTER_ADDR"] = "no-such-host.invalid";
  const Examined unresolved = doctor({}, unknown);
  EXPECT_EQ(unresolved.exit_code, 3) << unresolved.report.dump(1);
  EXPECT_TRUE(holds(unresolved.found("error", "master"), "'no-such-host.invalid' cannot be resolved"));
  EXPECT_TRUE(holds(unresolved.found("error", "master"), "-> set MASTER_ADDR"));
  EnvChanges elsewhere = rank_one;
  elsewhere["RANK"] = "0", elsewhere["MASTER_ADDR"] = "192.0.2.1";  // of no machine (RFC 5737)
  const Examined other = doctor({}, elsewhere);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_TRUE(holds(other.found("error", "master"), "192.0.2.1 (192.0.2.1) is not an address of"))
      << other.report.dump(1);
}

TEST(Doctor, BlockedPort) {
  const Listening taken;
  const std::string port = std::to_string(taken.port);
  EnvChanges rank{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  const Examined in_use = doctor({}, rank);
  EXPECT_EQ(in_use.exit_code, 3);
  EXPECT_TRUE(holds(in_use.found("error", "master"), "rank 0 cannot listen on port " + port + ": Address already"));
  // A full queue of connections drops packets, as a firewall does.
  std::vector<core::Fd> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(taken.port));
    (void)::connect(waiting.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  rank["RANK"] = "1", rank["LOCAL_RANK"] = "1";
  const Examined blocked = doctor({}, rank);
  EXPECT_EQ(blocked.exit_code, 3);
  EXPECT_TRUE(holds(blocked.found("error", "master"), "does not answer within 3 s: a firewall drops it"))
      << blocked.report.dump(1);
}

TEST(Doctor, RanksThatContradictThemselves) {
  const Examined result = doctor({}, {{"RANK", "4"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_TRUE(holds(result.found("error", "ranks"), "RANK=4 does not lie in [0, 2)")) << result.report.dump(1);
}

TEST(Doctor, InterfacesAndCards) {
  const core::TempDir folder;
  const fs::path net = folder.path() / "sys/class/net", cards = folder.path() / "sys/class/infiniband";
  for (const auto& [name, state] : {std::pair("eth0", "up"), std::pair("ib0", "down"), std::pair("lo", "unknown")}) {
    fs::create_directories(net / name);
    core::write_file_atomic(net / name / "operstate", std::string(state) + "\n");
    core::write_file_atomic(net / name / "mtu", "9000\n");
  }
  for (const auto& [number, state] : {std::pair("1", "4: ACTIVE"), std::pair("2", "1: DOWN")}) {
    fs::create_directories(cards / "mlx5_0/ports" / number);
    core::write_file_atomic(cards / "mlx5_0/ports" / number / "state", std::string(state) + "\n");
    core::write_file_atomic(cards / "mlx5_0/ports" / number / "rate", "200 Gb/sec (4X HDR)\n");
  }
  fs::create_directories(folder.path() / "dev/shm");
  const auto with = [&](EnvChanges changes) {
    changes["LOCKSTEP_SYSTEM_ROOT"] = folder.path().string();
    return doctor({}, changes);
  };
  const Examined absent = with({{"NCCL_SOCKET_IFNAME", "ib7"}});
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_TRUE(holds(absent.found("error", "interfaces"), "NCCL_SOCKET_IFNAME=ib7 chooses no interface"));
  EXPECT_TRUE(holds(with({{"GLOO_SOCKET_IFNAME", "ib0"}}).found("error", "interfaces"), "whose link is down: ib0"));
  EXPECT_EQ(with({{"NCCL_SOCKET_IFNAME", "^lo,ib"}}).found("error", "interfaces"), "");
  const Examined excluded = with({{"NCCL_SOCKET_IFNAME", "=eth"}});
  EXPECT_TRUE(holds(excluded.found("error", "interfaces"), "chooses no interface")) << "= asks for the whole name";
  EXPECT_TRUE(holds(absent.found("warning", "infiniband"), "1 of 2 InfiniBand ports are active"));
  EXPECT_TRUE(holds(with({{"NCCL_IB_HCA", "hfi1"}}).found("error", "infiniband"), "names no InfiniBand card"));
  EXPECT_TRUE(holds(with({{"NCCL_IB_DISABLE", "1"}}).found("warning", "infiniband"), "NCCL uses TCP"));
}

/// Containers often have none: NCCL then uses TCP without a word.
TEST(Doctor, InfiniBandWithoutItsLibrary) {
  const core::TempDir folder;
  const fs::path port = folder.path() / "sys/class/infiniband/mlx5_0/ports/1", library = folder.path() / "lib";
  fs::create_directories(port);
  fs::create_directories(folder.path() / "dev/shm");
  fs::create_directories(library);
  core::write_file_atomic(port / "state", "4: ACTIVE\n");
  core::write_file_atomic(library / "libibverbs.so.1", "no library");
  const auto found = [&](const std::string& disabled) {
    return doctor({}, {{"LOCKSTEP_SYSTEM_ROOT", folder.path().string()},
                       {"LD_LIBRARY_PATH", library.string()},
                       {"NCCL_IB_DISABLE", disabled}})
        .found("warning", "infiniband");
  };
  const std::string broken = found("0");
  EXPECT_TRUE(holds(broken, "InfiniBand is active, but its library cannot be loaded (")) << broken;
  EXPECT_TRUE(holds(broken, "-> install libibverbs1 and ibverbs-providers")) << broken;
  EXPECT_FALSE(holds(found("1"), "its library cannot be loaded")) << "NCCL does not ask for it";
  Dl_info standard_library{};  // any that loads will do
  ASSERT_NE(::dladdr(reinterpret_cast<const void*>(&::getpid), &standard_library), 0);
  fs::remove(library / "libibverbs.so.1");
  fs::create_symlink(fs::canonical(standard_library.dli_fname), library / "libibverbs.so.1");
  EXPECT_EQ(found("0"), "");
}

TEST(Doctor, GpusThatAVariableHides) {
  const core::TempDir folder;
  const fs::path gpu = folder.path() / "sys/bus/pci/devices/0000:0a:00.0";
  fs::create_directories(gpu);
  fs::create_directories(folder.path() / "dev/shm");
  core::write_file_atomic(gpu / "vendor", "0x10de\n");
  core::write_file_atomic(gpu / "class", "0x030200\n");
  for (const char* hidden : {"", "-1", "NoDevFiles"}) {
    const Examined result =
        doctor({}, {{"LOCKSTEP_SYSTEM_ROOT", folder.path().string()}, {"CUDA_VISIBLE_DEVICES", hidden}});
    const std::string found = result.found("warning", "gpus");
    EXPECT_TRUE(
        holds(found, "CUDA_VISIBLE_DEVICES='" + std::string(hidden) + "' hides every GPU of this machine, which has 1"))
        << found;
    EXPECT_TRUE(holds(found, "-> unset it, or ask the job for GPUs")) << found;
  }
}

/// The run ends with the same message and exit code (hw::choose_device).
TEST(Doctor, GpusThatTheCommandAsksForInVain) {
  const core::TempDir folder;
  const fs::path gpu = folder.path() / "sys/bus/pci/devices/0000:0a:00.0";
  fs::create_directories(gpu);
  fs::create_directories(folder.path() / "dev/shm");
  core::write_file_atomic(gpu / "vendor", "0x10de\n");
  core::write_file_atomic(gpu / "class", "0x030200\n");
  const auto asking = [&](const Args& flags, const EnvChanges& changes) {
    Args args{"--logs",    folder.path().string(), "--", "train",        "clip", "--dataset-type",
              "synthetic", "--train-num-samples",  "16", "--batch-size", "4"};
    args.insert(args.end(), flags.begin(), flags.end());
    return doctor(args, changes);
  };
  const EnvChanges hidden{{"LOCKSTEP_SYSTEM_ROOT", folder.path().string()}, {"CUDA_VISIBLE_DEVICES", ""}};
  for (const auto& [flag, value] : {std::pair("--device", "cuda"), std::pair("--dist-backend", "nccl")}) {
    const Examined result = asking({flag, value}, hidden);
    EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
    EXPECT_TRUE(holds(result.found("error", "gpus"),
                      fmt::format("{} {}, but CUDA_VISIBLE_DEVICES='' hides every GPU", flag, value)))
        << result.report.dump(1);
  }
  EXPECT_TRUE(holds(asking({}, hidden).found("warning", "gpus"), "hides every GPU"));
  EXPECT_EQ(asking({"--device", "cpu"}, hidden).found("warning", "gpus"), "");
  if (!holds(doctor({}).found("ok", "gpus"), "no GPU of NVIDIA is here")) GTEST_SKIP() << "the rest is for no GPU";
  for (const auto& [flag, value] : {std::pair("--device", "cuda"), std::pair("--dist-backend", "nccl")}) {
    const Examined result = asking({flag, value}, {});
    EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
    EXPECT_TRUE(holds(result.found("error", "gpus"),
                      fmt::format("{} {} was asked for, and this machine shows no GPU", flag, value)))
        << result.report.dump(1);
  }
}

TEST(Doctor, LibTorchThatTheEngineDoesNotFind) {
  const Examined result = doctor({}, {{"LOCKSTEP_TORCH_DIR", "/no/such/folder"}});
  const ProgramResult version = run_lockstep({"--version", "--json"});
  if (core::parse_json(version.out, "version").at("libtorch").is_null()) {
    EXPECT_EQ(result.exit_code, 0) << result.report.dump(1);
    EXPECT_TRUE(holds(result.found("note", "libtorch"), "built without the engine")) << result.report.dump(1);
    return;
  }
  EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "libtorch"), "LOCKSTEP_TORCH_DIR '/no/such/folder' holds neither"))
      << result.report.dump(1);
  const Examined found = doctor({}, {{"LOCKSTEP_TORCH_DIR", std::nullopt}});
  EXPECT_TRUE(holds(found.found("ok", "libtorch"), "LibTorch is in '")) << found.report.dump(1);
}

TEST(Doctor, VariablesThatAreKnownFaults) {
  const Examined known = doctor({"--strict"}, {{"TORCH_NCCL_BLOCKING_WAIT", "1"}, {"SLURM_CLUSTER_NAME", "leonardo"}});
  EXPECT_EQ(known.exit_code, 6) << "--strict counts warnings";
  EXPECT_TRUE(holds(known.found("warning", "variables"), "TORCH_NCCL_BLOCKING_WAIT=1"));
  EXPECT_TRUE(holds(known.found("warning", "variables"), "-> export NCCL_PXN_DISABLE=1"));
  const Examined set = doctor({"--system", "Leonardo Booster"}, {{"NCCL_PXN_DISABLE", "1"}});
  EXPECT_EQ(set.found("warning", "variables"), "");
}

TEST(Doctor, LimitsOfTheProcess) {
  const Examined result = doctor_after("ulimit -n 256");
  EXPECT_TRUE(holds(result.found("warning", "limits"), "ulimit -n (open files) is 256")) << result.report.dump(1);
  EXPECT_EQ(result.found("warning", "limits").find("-u ("), std::string::npos);
}

TEST(Doctor, TinySharedMemory) {
  const core::TempDir folder;
  fs::create_directories(folder.path() / "dev/shm");
  const std::string root = folder.path().string();
  const auto probe = run_program({"/usr/bin/unshare", "--mount", "true"});
  if (probe.exit_code != 0) GTEST_SKIP() << "mounting needs a name space: " << probe.err;
  const ProgramResult result = run_program(
      {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
       "mount -t tmpfs -o size=1m none '" + root + "/dev/shm' && exec '" + lockstep_program() + "' doctor --json"},
      clean({{"LOCKSTEP_SYSTEM_ROOT", root}}));
  const Examined examined = examine(result);
  EXPECT_EQ(examined.exit_code, 6);
  EXPECT_TRUE(holds(examined.found("error", "shm"), "/dev/shm has 1.00 MiB free of 1.00 MiB"))
      << examined.report.dump(1);
  EXPECT_TRUE(holds(examined.found("error", "shm"), "--shm-size")) << examined.report.dump(1);
}

TEST(Doctor, MissingDataAndFolders) {
  const core::TempDir folder;
  core::write_file_atomic(folder.path() / "train-000.tar", "x");
  core::write_file_atomic(folder.path() / "train-002.tar", "");
  const Examined result = doctor({"--train-data", (folder.path() / "train-{000..002}.tar").string()});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(holds(result.found("error", "data"), "train-001.tar' is not there, and 1 more of 3 looked at"))
      << result.report.dump(1);
  const Examined unwritable = doctor({"--logs", "/proc/runs"});
  EXPECT_EQ(unwritable.exit_code, 6);
  EXPECT_TRUE(holds(unwritable.found("error", "folder"), "'/proc' cannot be written")) << unwritable.report.dump(1);
}

TEST(Doctor, FileSystemWithoutLocks) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const core::TempDir folder;
  const FaultyFiles faulty;
  const auto runs = folder.path() / "runs";
  fs::create_directories(runs);
  EXPECT_EQ(doctor({"--logs", runs.string()}, faulty.environment(runs, "none 0")).found("error", "locks"), "");
  const Examined result = doctor({"--logs", runs.string()}, faulty.environment(runs, "nolock 0"));
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_TRUE(holds(result.found("error", "locks"), "flock does not work on '" + runs.string() + "'"))
      << result.report.dump(1);
}

/// The machine of the tests, with these rates.
std::string system_file(const core::TempDir& folder, double memory_tbytes_per_s, double node_gbytes_per_s) {
  const fs::path file = folder.path() / "site.toml";
  core::write_file_atomic(file, fmt::format("devices-per-node = 1\ndevices-at-a-time = 2\npeak-fp32-tflops = 1\n"
                                            "memory-gbytes = 8\nmemory-tbytes-per-s = {}\nnode-gbytes-per-s = {}\n",
                                            memory_tbytes_per_s, node_gbytes_per_s));
  return file.string();
}

TEST(Doctor, MemorySlowerThanTheSystemSays) {
  const core::TempDir folder;
  const Examined slow = doctor({"--system", system_file(folder, 900, 1)});
  const std::string found = slow.found("warning", "memory-rate");
  EXPECT_TRUE(holds(found, "site.toml says 9e+05: expected 5.4e+05 GB/s or more -> end what else runs")) << found;
  const Examined fine = doctor({"--system", system_file(folder, 1e-6, 1)});
  EXPECT_TRUE(holds(fine.found("ok", "memory-rate"), "GB/s of memory (triad over 192 MiB), ")) << fine.report.dump(1);
  EXPECT_EQ(fine.found("warning", "variables"), "");
  const Examined table = doctor({"--system", "LUMI-G"});
  EXPECT_TRUE(holds(table.found("ok", "memory-rate"), "says nothing of processors")) << table.report.dump(1);
  const ProgramResult none = run_lockstep({"doctor", "--system", "/no/such/site.toml"}, clean());
  EXPECT_NE(none.exit_code, 0);
  EXPECT_TRUE(holds(none.err, "/no/such/site.toml")) << none.err;
}

TEST(Doctor, TheCommandThatIsToRun) {
  const Examined result = doctor({"--", "train", "clip", "--model", "ViT-B-32", "--train-data", "/no/such/shard.tar",
                                  "--train-num-samples", "10000000", "--batch-size", "1000000", "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "memory"), "the plan of `train clip` needs ")) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "data"), "'/no/such/shard.tar' is not there"));
  const ProgramResult other = run_lockstep({"doctor", "--", "launch"}, clean());
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(holds(other.err, "is no command of training")) << other.err;
}

/// `train imagenet DIR` names its data by DIR alone.
TEST(Doctor, TheDataFolderOfImagenetIsLookedAt) {
  const core::TempDir folder;
  const fs::path root = folder.path() / "imagenet";
  const auto imagenet = [&](Args flags) {
    flags.insert(flags.begin(),
                 {"--logs", folder.path().string(), "--", "train", "imagenet", "-b", "4", root.string()});
    return doctor(flags);
  };
  const Examined absent = imagenet({});
  EXPECT_EQ(absent.exit_code, 4) << absent.report.dump(1);
  EXPECT_TRUE(holds(absent.found("error", "data"),
                    "'" + (root / "train").string() + "' is not there, and 1 more of 2 looked at"))
      << absent.report.dump(1);
  for (const char* picture : {"train/ant/a.jpg", "val/ant/a.jpg"}) {
    fs::create_directories((root / picture).parent_path());
    core::write_file_atomic(root / picture, "data");
  }
  EXPECT_TRUE(holds(imagenet({}).found("ok", "data"), "2 ")) << imagenet({}).report.dump(1);
  fs::remove_all(root / "val");
  const Examined untested = imagenet({"--val-frequency", "0"});
  EXPECT_EQ(untested.found("error", "data"), "") << "nothing is evaluated: " << untested.report.dump(1);
}

/// What rank 0 of a launch says; `script` runs on each rank, with $RANK, and $DOCTOR is the command.
Examined doctor_of_ranks(int num_ranks, const std::string& script, EnvChanges changes = {}) {
  changes["DOCTOR"] = lockstep_program() + " doctor --json --nodes";
  return examine(run_lockstep(
      {"launch", "--nproc-per-node", std::to_string(num_ranks), "--program", "/bin/sh", "--", "-c", script},
      clean(changes)));
}

const std::string kTraining = " -- train clip --model " + std::string(LOCKSTEP_SOURCE_DIR) +
                              "/examples/demo/model.json --dataset-type synthetic --train-num-samples 64 " +
                              "--batch-size 2 --device cpu";

TEST(DoctorOfRanks, AllIsWellOnTwoNodes) {
  const core::TempDir folder;
  const std::string system = " --system " + system_file(folder, 1e-6, 1e-6);
  const Listening reserved;  // its port is free again below
  const std::string port = std::to_string(reserved.port - 1);
  // Two launchers on this machine, as two nodes.
  const std::string launch = "'" + lockstep_program() + "' launch --nnodes 2 --nproc-per-node 2 --rdzv-endpoint " +
                             "127.0.0.1:" + port + " --node-rank ";
  const ProgramResult result =
      run_program({"/bin/sh", "-c",
                   launch + "1 -- doctor --nodes" + kTraining + " & " + launch + "0 -- doctor --json --nodes" + system +
                       kTraining + "; code=$?; wait $! && exit $code"},
                  clean());
  const Examined examined = examine(result);
  EXPECT_EQ(examined.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(holds(examined.found("ok", "meeting"), "all 4 ranks on 1 hosts met")) << examined.report.dump(1);
  EXPECT_TRUE(holds(examined.found("ok", "pairs"), "all 2 pairs of nodes reach each other"));
  EXPECT_TRUE(holds(examined.found("ok", "network-rate"), "each node sends to the next ")) << examined.report.dump(1);
  EXPECT_TRUE(holds(examined.found("ok", "network-rate"), "says 1e-06 GB/s of a node"));
  EXPECT_TRUE(holds(examined.found("ok", "options"), "every rank has the same options of `train clip`"));
  EXPECT_TRUE(holds(examined.found("ok", "clocks"), "wall clocks differ by at most"));
  EXPECT_TRUE(holds(examined.found("ok", "version"), "every rank runs lockstep "));
}

TEST(DoctorOfRanks, ARankWithOtherOptions) {
  const Examined result = doctor_of_ranks(
      3, "lr=0.001; [ $RANK = 2 ] && lr=0.002; exec $DOCTOR" + kTraining + " --threads $((RANK + 1)) --lr $lr");
  EXPECT_EQ(result.exit_code, 2) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "options"), "rank 2 on ")) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "options"), "--lr is 0.002, on rank 0 0.001 -> start every rank with"));
}

TEST(DoctorOfRanks, ARankWithAnotherProgram) {
  const core::TempDir folder;
  const std::string commit = Json::parse(run_lockstep({"--version", "--json"}).out).at("commit");
  std::string program = core::read_file(lockstep_program());
  const std::string other_commit(commit.size(), 'x');
  ASSERT_FALSE(commit.empty());
  ASSERT_NE(program.find(commit), std::string::npos);
  program = core::replace_all(program, commit, other_commit);
  const fs::path copy = folder.path() / "lockstep", engine = LOCKSTEP_BUILD_DIR "/lockstep-engine";
  if (fs::exists(engine)) fs::create_symlink(engine, folder.path() / "lockstep-engine");
  core::write_file_atomic(copy, program);
  fs::permissions(copy, fs::perms::owner_all);
  const Examined result =
      doctor_of_ranks(2, "[ $RANK = 1 ] && exec '" + copy.string() + "' doctor --nodes; exec $DOCTOR");
  EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "version"), other_commit + ", rank 0 runs lockstep"))
      << result.report.dump(1);
  program += '\0';  // a build that differs in nothing that it says
  core::write_file_atomic(copy, core::replace_all(program, other_commit, commit));
  fs::permissions(copy, fs::perms::owner_all);
  const Examined rebuilt =
      doctor_of_ranks(2, "[ $RANK = 1 ] && exec '" + copy.string() + "' doctor --nodes; exec $DOCTOR");
  EXPECT_EQ(rebuilt.exit_code, 0) << rebuilt.report.dump(1);
  EXPECT_TRUE(holds(rebuilt.found("warning", "version"), "runs another build of lockstep")) << rebuilt.report.dump(1);
}

TEST(DoctorOfRanks, ClockSkew) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const FaultyFiles faulty;
  const EnvChanges off = faulty.environment("", "clock 100");
  const Examined result = doctor_of_ranks(2, "[ $RANK = 1 ] && export LD_PRELOAD=" + *off.at("LD_PRELOAD") +
                                                 " FAULTY_TRIGGER=" + *off.at("FAULTY_TRIGGER") + "; exec $DOCTOR");
  EXPECT_EQ(result.exit_code, 6) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "clocks"), "rank 1 on ")) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "clocks"), "its clock is 100.0 s ahead of rank 0's"))
      << result.report.dump(1);
}

TEST(DoctorOfRanks, DataThatOneNodeLacks) {
  const core::TempDir folder;
  const fs::path data = folder.path() / "data";
  fs::create_directories(data);
  core::write_file_atomic(data / "train.tar", "data");
  if (run_program({"/usr/bin/unshare", "--mount", "true"}).exit_code != 0)
    GTEST_SKIP() << "needs a name space to mount";
  const std::string hidden = "[ $RANK = 1 ] && exec unshare --mount sh -c 'mount -t tmpfs none " + data.string() +
                             " && $PREPARE && exec $DOCTOR --train-data " + (data / "train.tar").string() +
                             "'; exec $DOCTOR --train-data " + (data / "train.tar").string();
  const Examined missing = doctor_of_ranks(2, hidden, {{"PREPARE", "true"}});
  EXPECT_EQ(missing.exit_code, 4) << missing.report.dump(1);
  EXPECT_TRUE(holds(missing.found("error", "data"), "rank 1 on ")) << missing.report.dump(1);
  EXPECT_TRUE(holds(missing.found("error", "data"), "train.tar' is not there"));
  const Examined shorter =
      doctor_of_ranks(2, hidden, {{"PREPARE", "cp /etc/hostname " + (data / "train.tar").string()}});
  EXPECT_EQ(shorter.exit_code, 4) << shorter.report.dump(1);
  EXPECT_TRUE(holds(shorter.found("error", "same-data"), "on rank 0 4 -> copy it again")) << shorter.report.dump(1);
}

/// Ends when a rank has greeted at the port that rank 0 will listen on: it lives, however slow this machine is.
const std::string kAwaitAnotherRank =
    "python3 -c 'import os, socket\n"
    "port = socket.create_server((\"127.0.0.1\", int(os.environ[\"MASTER_PORT\"])))\n"
    "while not port.accept()[0].recv(1): pass'; ";

TEST(DoctorOfRanks, ADeadRankIsNamed) {
  const Examined result =
      doctor_of_ranks(4, "[ $RANK -ge 2 ] && exit 0; [ $RANK = 1 ] && exec $DOCTOR --timeout 600; " +
                             kAwaitAnotherRank + "exec $DOCTOR --timeout 10");
  EXPECT_EQ(result.exit_code, 3) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "meeting"), "ranks 2-3 of 4 did not come within 10 s"))
      << result.report.dump(1);
}

TEST(DoctorOfRanks, ARankThatCannotReachRankZeroSaysSo) {
  const ProgramResult result =
      run_lockstep({"doctor", "--json", "--nodes", "--timeout", "2"}, clean({{"RANK", "1"},
                                                                             {"WORLD_SIZE", "2"},
                                                                             {"LOCAL_RANK", "1"},
                                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                                             {"MASTER_PORT", "1"}}));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  const Examined examined{.exit_code = 3, .report = core::parse_json(result.err, "doctor"), .text = ""};
  EXPECT_TRUE(holds(examined.found("error", "meeting"), "rank 1 cannot reach rank 0 at 127.0.0.1:1 within 2 s"))
      << result.err;
}

TEST(DoctorOfRanks, OnlyRankZeroWritesToStandardOutput) {
  // Rank 0 is the later one: launch ends it when rank 1 has failed, and it reports all the same: one JSON, or none.
  const Examined result =
      doctor_of_ranks(2, "[ $RANK = 0 ] && sleep 3; [ $RANK = 1 ] && export MASTER_PORT=1; exec $DOCTOR --timeout 2");
  EXPECT_EQ(result.exit_code, 3) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "meeting"), "rank 1 of 2 did not come within 2 s")) << result.report.dump(1);
  EXPECT_TRUE(holds(result.text, "rank 1 cannot reach rank 0 at")) << result.text;
}

class DoctorOfStorage : public S3Test {
 protected:
  static EnvChanges keys(const std::string& key_id = "test") {
    EnvChanges changes;
    for (const auto& [name, value] : servers_->variables(key_id)) changes[name] = value;
    return changes;
  }
  static void put(const std::string& key, const std::string& content) {
    remote::S3Client("runs", servers_->config()).send({.method = "PUT", .key = key, .body = content});
  }
  static size_t num_stored(const std::string& prefix) {
    return remote::S3Client("runs", servers_->config()).list(prefix).size();
  }
};

TEST_F(DoctorOfStorage, RemoteDataAreAskedFor) {
  put("data/000.tar", "first");
  put("data/001.tar", "second");
  put("data/empty.tar", "");
  const Examined good = doctor({"--train-data", "s3://runs/data/{000..001}.tar"}, keys());
  EXPECT_EQ(good.exit_code, 0) << good.report.dump(1);
  EXPECT_TRUE(holds(good.found("ok", "remote-data"), "2 of 2 shards elsewhere can be read")) << good.report.dump(1);
  EXPECT_EQ(good.found("note", "data"), "");
  const Examined beyond = doctor({"--train-data", "s3://runs/data/{000..009}.tar"}, keys());
  EXPECT_EQ(beyond.exit_code, 4);
  EXPECT_TRUE(holds(beyond.found("error", "remote-data"), "GET s3://runs/data/009.tar failed: status=404 (NoSuchKey"));
  EXPECT_TRUE(holds(beyond.found("error", "remote-data"), "-> check the address, and the range in the braces"));
  const Examined empty = doctor({"--train-data", "s3://runs/data/empty.tar::pipe:cat x"}, keys());
  EXPECT_EQ(empty.exit_code, 4);
  EXPECT_TRUE(holds(empty.found("error", "remote-data"), "empty.tar is empty")) << empty.report.dump(1);
  EXPECT_TRUE(holds(empty.found("note", "data"), "not looked at: data of 1 command, the first 'pipe:cat x'"));
  const Examined mixed = doctor({"--train-data", "/no/a.tar::s3://runs/data/000.tar"}, keys());
  EXPECT_EQ(mixed.exit_code, 4);
  EXPECT_TRUE(holds(mixed.found("error", "data"), "'/no/a.tar' is not there")) << mixed.report.dump(1);
  EXPECT_TRUE(holds(mixed.found("ok", "remote-data"), "1 of 1 shards")) << mixed.report.dump(1);
}

TEST_F(DoctorOfStorage, ASilentStorageEndsTheLook) {
  servers_->order({{"hang", true}});
  const Examined silent = doctor({"--timeout", "2", "--train-data", "s3://runs/data/000.tar"}, keys());
  servers_->order({{"hang", false}});
  EXPECT_EQ(silent.exit_code, 4);
  EXPECT_TRUE(holds(silent.found("error", "remote-data"), "did not answer within 1 s")) << silent.report.dump(1);
}

TEST_F(DoctorOfStorage, RemoteDataAreAskedForFromEveryNode) {
  put("data/000.tar", "first");
  const Examined result =
      doctor_of_ranks(2,
                      "[ $RANK = 1 ] && export LOCAL_RANK=0 AWS_ACCESS_KEY_ID=nobody; "  // of another node
                      "exec $DOCTOR --train-data s3://runs/data/000.tar",
                      keys());
  EXPECT_EQ(result.exit_code, 4) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "remote-data"), "rank 1 on ")) << result.report.dump(1);
  EXPECT_TRUE(holds(result.found("error", "remote-data"), "status=403 (InvalidAccessKeyId"));
}

TEST_F(DoctorOfStorage, TheStorageOfCopiesIsWrittenTo) {
  const auto sync = [](const std::string& where, const std::string& key_id = "test") {
    Args args = core::split(kTraining.substr(1), " ");
    args.insert(args.end(), {"--remote-sync", where, "--name", "run"});
    return doctor(args, keys(key_id));
  };
  const Examined good = sync("s3://runs/copies");
  EXPECT_EQ(good.exit_code, 0) << good.report.dump(1);
  EXPECT_TRUE(holds(good.found("ok", "remote-sync"), "s3://runs/copies/run takes a file")) << good.report.dump(1);
  EXPECT_EQ(servers_->num_requests("PUT", "/runs/copies/run/.write_test"), 1);
  EXPECT_EQ(num_stored("copies/"), 0u);
  const Examined refused = sync("s3://runs/copies", "nobody");
  EXPECT_EQ(refused.exit_code, 6);
  EXPECT_TRUE(holds(refused.found("error", "remote-sync"), "status=403 (InvalidAccessKeyId")) << refused.report.dump(1);
  EXPECT_TRUE(holds(refused.found("error", "remote-sync"), "-> keys are from the environment: do they allow it?"));
  const Examined folder = sync("/proc/copies");
  EXPECT_EQ(folder.exit_code, 6);
  EXPECT_TRUE(holds(folder.found("error", "remote-sync"), "'/proc' cannot be written")) << folder.report.dump(1);
}

}  // namespace
}  // namespace lockstep::tests
