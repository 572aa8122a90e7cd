// GPUs that are here and cannot be used are refused, by what the driver says of them; nobody trains on the CPU
// unawares.
#include "hw/gpus.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"

namespace lockstep::hw {
namespace {

namespace fs = std::filesystem;

/// Folders as the kernel shows them.
class SystemTree : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_.path() / file).parent_path());
    core::write_file_atomic(folder_.path() / file, text + "\n");
  }
  GpuPresence presence() const {
    return find_gpus({.dev = folder_.path() / "dev", .proc = folder_.path() / "proc", .sys = folder_.path() / "sys"});
  }
  core::TempDir folder_{"lockstep_gpus"};
};

TEST_F(SystemTree, GpusAreFoundOnTheBusByTheDriverAndByTheirFiles) {
  EXPECT_FALSE(presence().any());
  write("sys/bus/pci/devices/0000:0a:00.0/vendor", "0x10de"),
      write("sys/bus/pci/devices/0000:0a:00.0/class", "0x030200");
  write("sys/bus/pci/devices/0000:0b:00.0/vendor", "0x8086"),
      write("sys/bus/pci/devices/0000:0b:00.0/class", "0x030000");
  write("sys/bus/pci/devices/0000:0c:00.0/vendor", "0x10de"),
      write("sys/bus/pci/devices/0000:0c:00.0/class", "0x068000");
  EXPECT_EQ(presence().num_on_bus, 1) << "a processor's graphics and an NVSwitch are no GPUs";
  EXPECT_EQ(presence().driver_version, "");
  write(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  12.2.0");
  write("proc/driver/nvidia/gpus/0000:0a:00.0/information", "Model: NVIDIA H100 80GB HBM3");
  EXPECT_EQ(presence().driver_version, "535.104.05");
  EXPECT_EQ(presence().num_of_driver, 1);
  for (const char* file : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) write(std::string("dev/") + file, "");
  EXPECT_EQ(presence().num_device_files, 2);
  EXPECT_EQ(presence().most(), 2);
}

TEST_F(SystemTree, OpenKernelModulesNameTheirVersionElsewhere) {
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@host)");
  EXPECT_EQ(presence().driver_version, "580.65.06");
  fs::remove_all(folder_.path() / "proc");
  write("sys/module/nvidia/version", "570.86.10");
  EXPECT_EQ(presence().driver_version, "570.86.10");
}

const DriverAnswer::Gpu kGpu{.name = "NVIDIA H100 80GB HBM3", .uuid = "GPU-aaaa-0"};
const DriverAnswer::Gpu kOther{.name = "NVIDIA H100 80GB HBM3", .uuid = "GPU-bbbb-1"};

GpuMachine machine_with(std::vector<DriverAnswer::Gpu> gpus, const std::string& driver = "580.65.06",
                        int cuda = 13000) {
  const auto count = static_cast<int>(gpus.size());
  return {
      .presence = {.num_on_bus = count, .num_of_driver = count, .num_device_files = count, .driver_version = driver},
      .driver = {.driver_version = driver, .cuda_version = cuda, .gpus = std::move(gpus), .problem = {}}};
}

GpuMachine machine_without_gpu() { return {.presence = {}, .driver = {}}; }

/// The message and the hint of the refusal, which has exit code 6; "" where there is none.
std::string refusal(const GpuQuestion& question, const GpuMachine& machine) {
  try {
    choose_device(question, machine);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_NE(error.hint(), "");
    return error.text();
  }
}

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' in: " << text;
}

GpuQuestion asks(int num_usable, std::optional<std::string> visible = std::nullopt) {
  return {.num_usable = num_usable, .needed_cuda = 13000, .visible_devices = std::move(visible)};
}

TEST(ChosenDevice, IsAGpuWhereThereIsOneAndTheCpuWhereThereIsNone) {
  EXPECT_EQ(choose_device(asks(1), machine_with({kGpu})).kind, DeviceKind::kCuda);
  EXPECT_EQ(choose_device(asks(0), machine_without_gpu()).kind, DeviceKind::kCpu);
  auto question = asks(1);
  question.request = "cpu";
  EXPECT_EQ(choose_device(question, machine_with({kGpu})).kind, DeviceKind::kCpu);
  question.request = "cuda", question.num_usable = 0;
  expect_words(refusal(question, machine_without_gpu()),
               {"hw: --device cuda was asked for, and this machine shows no GPU", "use --device cpu"});
}

TEST(ChosenDevice, ABackendOfGpusAsksForOneToo) {
  auto question = asks(0);
  question.backend = "nccl";
  expect_words(refusal(question, machine_without_gpu()),
               {"hw: --dist-backend nccl was asked for, and this machine shows no GPU", "use --dist-backend gloo"});
  question.visible_devices = "";
  expect_words(refusal(question, machine_with({kGpu})),
               {"--dist-backend nccl, but CUDA_VISIBLE_DEVICES='' hides every GPU", "unset it"});
  question.request = "cpu";
  EXPECT_EQ(choose_device(question, machine_with({kGpu})).kind, DeviceKind::kCpu);
}

TEST(ChosenDevice, OldDriversAreRefusedWithBothVersions) {
  for (const char* request : {"auto", "cuda"}) {
    auto question = asks(0);
    question.request = request;
    expect_words(refusal(question, machine_with({kGpu}, "535.104.05", 12020)),
                 {"1 GPU (NVIDIA H100 80GB HBM3) is here", "driver 535.104.05 serves CUDA up to 12.2",
                  "built for CUDA 13.0", "driver 580 or newer", "cuda-compat", "--device cpu"});
  }
  auto silent = machine_with({}, "535.104.05", 0);  // only the kernel's files tell of it
  silent.presence.num_on_bus = 2;
  silent.driver.driver_version = "";
  expect_words(refusal(asks(0), silent), {"2 GPUs are here", "too old: driver 535.104.05 is installed", "driver 580"});
  EXPECT_EQ(oldest_driver(12040), "525");
}

TEST(ChosenDevice, GpusWithoutADriverAreRefused) {
  const GpuMachine machine{.presence = {.num_on_bus = 4, .driver_version = {}}, .driver = {}};
  expect_words(refusal(asks(0), machine),
               {"4 GPUs are here", "no driver of NVIDIA is loaded", "expected 580 or newer"});
  auto without_cuda = asks(0);
  without_cuda.needed_cuda = 0;
  expect_words(refusal(without_cuda, machine), {"this LibTorch was built without CUDA", "LOCKSTEP_TORCH_DIR"});
}

TEST(ChosenDevice, ADriverThatDoesNotAnswerIsQuoted) {
  auto machine = machine_with({}, "580.65.06");
  machine.presence.num_of_driver = 1;
  machine.driver = {.driver_version = {}, .gpus = {}, .problem = "Driver/library version mismatch"};
  expect_words(refusal(asks(0), machine),
               {"driver 580.65.06 does not answer: Driver/library version mismatch", "nvidia-smi"});
}

TEST(ChosenDevice, ContainersWithoutDeviceFilesAreRefused) {
  auto machine = machine_with({}, "580.65.06");
  machine.presence.num_on_bus = 8;
  expect_words(refusal(asks(0), machine), {"8 GPUs are here", "no device file /dev/nvidia0", "--gpus all"});
}

TEST(ChosenDevice, PartsOfGpusServeOneRank) {
  auto gpu = kGpu;
  gpu.mig_parts = 0;
  expect_words(refusal(asks(0), machine_with({gpu})),
               {"MIG mode", "without a part", "driver 580.65.06", "nvidia-smi mig"});
  gpu.mig_parts = 2;
  EXPECT_EQ(refusal(asks(1), machine_with({gpu})), "");
  auto several = asks(1);
  several.world_size = 4;
  expect_words(refusal(several, machine_with({gpu})), {"MIG mode", "4 ranks", "NCCL", "driver 580.65.06"});
}

TEST(ChosenDevice, GpusThatAreNotVisibleAreNobodysBusiness) {
  auto parted = kGpu, prohibited = kOther;
  parted.mig_parts = 2;
  const auto machine = machine_with({parted, kOther});
  auto several = asks(1);
  several.world_size = 4;
  for (const char* whole : {"1", "GPU-bbbb"}) {
    several.visible_devices = whole;
    EXPECT_EQ(refusal(several, machine), "") << whole;
  }
  for (const char* part : {"0", "0,1", "GPU-aaaa", "MIG-77"}) {
    several.visible_devices = part;
    expect_words(refusal(several, machine), {"MIG mode", "NCCL does not connect parts"});
  }
  prohibited.is_prohibited = true;
  EXPECT_EQ(refusal(asks(1, "0"), machine_with({kGpu, prohibited})), "");
  expect_words(refusal(asks(1, "1"), machine_with({kGpu, prohibited})), {"compute mode Prohibited"});
}

TEST(HiddenPeers, AreToldWhereRanksAreShownTheirOwnGpuAlone) {
  auto question = asks(1);
  question.local_world_size = question.world_size = 2;
  auto machine = machine_with({kGpu});
  machine.presence.num_on_bus = 2;
  EXPECT_EQ(refusal(question, machine), "");
  expect_words(hidden_peers(question, machine),
               {"2 ranks of this node are shown 1 of its GPUs each", "--gpu-bind=none"});
  EXPECT_EQ(hidden_peers(question, machine_with({kGpu, kOther})), "");
  EXPECT_EQ(hidden_peers(question, machine_without_gpu()), "");
  question.local_world_size = 1;
  EXPECT_EQ(hidden_peers(question, machine), "");
}

TEST(ChosenDevice, ProhibitedAndExclusiveGpusAreRefused) {
  auto gpu = kGpu;
  gpu.is_prohibited = true;
  for (const int num_usable : {0, 1})
    expect_words(refusal(asks(num_usable), machine_with({gpu})), {"compute mode Prohibited", "nvidia-smi -c DEFAULT"});
  gpu = kGpu;
  gpu.is_exclusive = true;
  EXPECT_EQ(refusal(asks(1), machine_with({gpu})), "");
  auto two = asks(1);
  two.local_world_size = two.world_size = 2;
  expect_words(refusal(two, machine_with({gpu})), {"2 local ranks, but only 1 GPU", "Exclusive_Process"});
}

TEST(ChosenDevice, VisibleDevicesMustBeHere) {
  const auto two = machine_with({kGpu, kOther});
  for (const char* fine : {"0", "1,0", "GPU-bbbb", "0,1,", "0,-1"}) EXPECT_EQ(refusal(asks(1, fine), two), "") << fine;
  expect_words(refusal(asks(1, "1,7"), two), {"CUDA_VISIBLE_DEVICES=1,7", "device '7'", "2 GPUs", "numbered 0 to 1",
                                              "driver 580.65.06", "nvidia-smi -L"});
  expect_words(refusal(asks(0, "GPU-cccc"), two), {"device 'GPU-cccc', which is not here"});
  expect_words(refusal(asks(1, "0,foo"), two), {"device 'foo', which is not here"});
  expect_words(refusal(asks(1, "0,0"), two), {"names device '0' twice", "name each device once"});
  expect_words(refusal(asks(1, "0, 0"), two), {"names device '0' twice"});
  expect_words(refusal(asks(1, "MIG-77"), two), {"device 'MIG-77', which is not here"});
  auto parted = kGpu;
  parted.mig_parts = 2;
  EXPECT_EQ(refusal(asks(1, "MIG-77"), machine_with({parted})), "");
  expect_words(refusal(asks(0, "0"), machine_without_gpu()), {"device '0'", "0 GPUs are here", "driver none"});
}

/// `doctor` counts GPUs by the driver, which shows more than CUDA can use.
TEST(ChosenDevice, GpusThatTheDriverShowsAndCudaCannotUseAreRefused) {
  auto whole = kGpu;
  whole.mig_parts = 0;
  expect_words(refusal(asks(1), machine_with({whole})), {"in MIG mode", "without a part to compute on"});
  auto old = kGpu;
  old.name = "Tesla V100-SXM2-16GB", old.capability = 7.0;
  EXPECT_EQ(refusal(asks(2), machine_with({kGpu, old})), "") << "CUDA's first device is the faster one";
  expect_words(refusal(asks(1), machine_with({old})),
               {"Tesla V100-SXM2-16GB has compute capability 7.0", "CUDA 13.0", "begins with 7.5"});
  auto hidden = machine_with({kGpu});
  hidden.driver.gpus.clear();  // by the job's cgroup
  expect_words(refusal(asks(0), hidden), {"shows this process none of them", "--gpus-per-node"});
}

TEST(ChosenDevice, HiddenGpusAreNotUsed) {
  for (const char* hidden : {"", "-1", "NoDevFiles"}) {
    EXPECT_EQ(choose_device(asks(0, hidden), machine_with({kGpu})).kind, DeviceKind::kCpu) << hidden;
    auto question = asks(0, hidden);
    question.request = "cuda";
    expect_words(refusal(question, machine_with({kGpu})), {"hides every GPU", "unset it"});
  }
}

TEST(ChosenDevice, MoreLocalRanksThanGpusAreRefused) {
  auto question = asks(2);
  question.local_world_size = question.world_size = 3;
  expect_words(refusal(question, machine_with({kGpu, kOther})), {"3 local ranks, but only 2 GPUs", "--nproc-per-node"});
  question = asks(1);  // each rank is shown one of several
  question.local_world_size = question.world_size = 2;
  EXPECT_EQ(refusal(question, machine_with({kGpu, kOther})), "");
}

TEST(VisibleGpus, AreThoseOfTheDriverThatTheVariableLeaves) {
  const DriverAnswer both = machine_with({kGpu, kOther}).driver;
  EXPECT_EQ(num_visible_gpus(std::nullopt, both), 2);
  EXPECT_EQ(num_visible_gpus("1", both), 1);
  EXPECT_EQ(num_visible_gpus("0,1", both), 2);
  EXPECT_EQ(num_visible_gpus("", both), 0);
  EXPECT_EQ(num_visible_gpus("-1", both), 0);
  EXPECT_EQ(num_visible_gpus(std::nullopt, {}), 0);
}

TEST(GpuKey, IsTheSameForTheSameGpuOnly) {
  const DriverAnswer both = machine_with({kGpu, kOther}).driver, first = machine_with({kGpu}).driver;
  EXPECT_NE(gpu_key(0, std::nullopt, both), gpu_key(1, std::nullopt, both));
  EXPECT_EQ(gpu_key(0, "1", both), gpu_key(0, " 1", both));
  EXPECT_NE(gpu_key(0, "0", both), gpu_key(0, "1", both));
  EXPECT_NE(gpu_key(0, "0", first), gpu_key(0, "0", machine_with({kOther}).driver))
      << "each job step sees its own as 0";
  EXPECT_EQ(gpu_key(0, std::nullopt, {}), "");
}

}  // namespace
}  // namespace lockstep::hw
