// What a machine with a GPU must show first: every task computes on it what it computes on the CPU. Skipped elsewhere.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accelerator/divisions.h"
#include "comm/backend_nccl.h"
#include "gpu/gpu_fixture.h"
#include "hw/counters.h"

namespace lockstep::tests {
namespace {

class Gpu : public GpuFixture {
 protected:
  static ProgramResult on_gpu(std::vector<std::string> args) {
    if (is_trial()) return run(std::move(args), 1);
    args.insert(args.begin(), LOCKSTEP_BUILD_DIR "/lockstep-engine");
    return run_program(std::move(args), {});
  }
  /// `args(name)`: a command line with --device auto.
  template <typename Args> void expect_parity(const Args& args, double relative) const {
    const auto device = on_gpu(args("gpu"));
    ASSERT_EQ(device.exit_code, 0) << device.err;
    EXPECT_NE(device.err.find(is_trial() ? "simulated:0" : "cuda:0"), std::string::npos) << device.err;
    const auto cpu = run(args("cpu"), 0);
    ASSERT_EQ(cpu.exit_code, 0) << cpu.err;
    expect_close_runs("gpu", "cpu", relative);
  }
  template <typename Args> void expect_parity_in_fp32(const Args& args) const {
    expect_parity([&](const std::string& name) { return in_full_fp32(args(name)); }, kFp32);
  }
};

/// Each activation is rounded to 8 bits, and summed in another order before. On an H200 losses were 2e-3 apart, and
/// norms of ResNet-18's gradients 0.1.
constexpr double kBf16 = 1e-2, kBf16OfSmallBatches = 2e-2;

TEST_F(Gpu, ClipIsAsOnTheCpuInFp32) {
  expect_parity_in_fp32([&](const std::string& name) { return on_any_device(train_args(name, {"--max-steps", "6"})); });
}

TEST_F(Gpu, ClipIsAsOnTheCpuInBf16) {
  expect_parity(
      [&](const std::string& name) {
        return on_any_device(train_args(name, {"--max-steps", "6", "--precision", "amp_bf16"}));
      },
      kBf16);
}

TEST_F(Gpu, ClapIsAsOnTheCpuInFp32) {
  expect_parity_in_fp32([&](const std::string& name) { return clap_args(name, {}); });
}

TEST_F(Gpu, ClapIsAsOnTheCpuInBf16) {
  expect_parity([&](const std::string& name) { return clap_args(name, {"--precision", "amp_bf16"}); }, kBf16);
}

TEST_F(Gpu, GptIsAsOnTheCpuInFp32) {
  expect_parity_in_fp32([&](const std::string& name) { return gpt_args(name, {}); });
}

TEST_F(Gpu, GptIsAsOnTheCpuInBf16) {
  expect_parity([&](const std::string& name) { return gpt_args(name, {"--bf16"}); }, kNarrowGpt);
}

TEST_F(Gpu, ImagenetIsAsOnTheCpuInFp32) {
  constexpr double kNormsOfSmallBatches = 5e-3;
  expect_parity([&](const std::string& name) { return in_full_fp32(imagenet_args(name, {})); }, kNormsOfSmallBatches);
}

TEST_F(Gpu, ImagenetIsAsOnTheCpuInBf16) {
  expect_parity(
      [&](const std::string& name) {
        return imagenet_args(name, {"--precision", "amp_bf16"});
      },
      kBf16OfSmallBatches);
}

/// On devices from 8.9 on by at::_scaled_mm, on the CPU emulated.
TEST_F(Gpu, Fp8IsAsOnTheCpu) {
  expect_parity(
      [&](const std::string& name) {
        return gpt_args(name, {"--bf16", "--fp8-format", "hybrid"});
      },
      kNarrowGpt);
}

TEST_F(Gpu, ResumeIsBitForBit) {
  ASSERT_EQ(on_gpu(gpt_args("whole", {"--deterministic"})).exit_code, 0);
  ASSERT_EQ(on_gpu(gpt_args("parts", {"--deterministic", "--exit-interval", "3"})).exit_code, 0);
  const auto resumed = on_gpu(gpt_args("parts", {"--deterministic", "--resume", "latest"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(losses("whole"), losses("parts"));
  expect_same_files("parts", "whole");
}

TEST_F(Gpu, ProfileShowsTheDevicesKernels) {
  auto args = gpt_args("profiled", {"--profile-step-start", "2", "--profile-step-end", "4"});
  args.insert(args.begin(), "profile");
  const auto profiled = on_gpu(args);
  ASSERT_EQ(profiled.exit_code, 0) << profiled.err;
  std::string traces;
  for (const auto& file : fs::recursive_directory_iterator(logs_.path() / "profiled"))
    if (file.path().extension() == ".json" && file.path().string().find("trace") != std::string::npos)
      traces += core::read_file(file.path());
  EXPECT_NE(traces.find("traceEvents"), std::string::npos);
  if (!is_trial()) {
    EXPECT_NE(traces.find("\"cat\": \"kernel\""), std::string::npos) << "Kineto saw no kernel";
  }
  args = gpt_args("ranges", {"--profile-step-start", "2", "--profile-step-end", "4", "--profile-tool", "nsys"});
  args.insert(args.begin(), "profile");
  const auto ranges = on_gpu(args);
  EXPECT_EQ(ranges.exit_code, 0) << ranges.err;
}

TEST_F(Gpu, NcclWithOneRank) {
  if (is_trial()) GTEST_SKIP() << "NCCL itself is not simulated";
  const comm::Store store = comm::Store::in_process();
  const auto backend = comm::make_nccl_backend(store, 0, 1, {.group_name = "alone"});
  const auto x = at::arange(1000, at::Device(at::kCUDA, 0)).to(at::kFloat);
  for (const auto kind : {comm::OpKind::kAllReduce, comm::OpKind::kBroadcast})
    backend->start({.kind = kind, .tensor = x, .peer = 0})();
  const auto gathered = at::zeros_like(x), scattered = at::zeros_like(x);
  backend->start({.kind = comm::OpKind::kAllGather, .tensor = gathered, .input = x})();
  backend->start({.kind = comm::OpKind::kReduceScatter, .tensor = scattered, .input = x})();
  const auto want = at::arange(1000).to(at::kFloat);
  for (const auto& tensor : {x, gathered, scattered}) EXPECT_TRUE(tensor.cpu().equal(want));
}

TEST_F(Gpu, AModelBeyondTheMemoryIsRefused) {
  if (is_trial()) GTEST_SKIP() << "the simulation has other cases of this";
  const auto ended =
      on_gpu(gpt_args("large", {"--hidden-size", "2048", "--seq-length", "2048", "--max-position-embeddings", "2048",
                                "--micro-batch-size", "4096", "--global-batch-size", "4096"}));
  EXPECT_EQ(ended.exit_code, 6) << ended.err;
  for (const char* part : {"takes 2.13 TiB of memory", "device 'cuda:0'", "--micro-batch-size"})
    EXPECT_NE(ended.err.find(part), std::string::npos) << part << " in " << ended.err;
}

TEST_F(Gpu, RanksAndNamesBeyondTheDevicesAreRefused) {
  if (is_trial()) GTEST_SKIP() << "the simulation has no driver";
  const auto num_gpus = hw::ask_driver().gpus.size();
  std::vector<std::string> args = gpt_args("crowd", {"--device", "cuda"});
  args.insert(args.begin(), {"launch", "--nproc-per-node", std::to_string(num_gpus + 1), "--"});
  const auto crowd = run_lockstep(args, {{"CUDA_VISIBLE_DEVICES", std::nullopt}});
  EXPECT_EQ(crowd.exit_code, 6) << crowd.err;
  EXPECT_NE(crowd.err.find(std::to_string(num_gpus + 1) + " local ranks"), std::string::npos) << crowd.err;

  args = gpt_args("absent", {"--device", "cuda"});
  args.insert(args.begin(), LOCKSTEP_BUILD_DIR "/lockstep-engine");
  const auto absent = run_program(args, {{"CUDA_VISIBLE_DEVICES", "99"}});
  EXPECT_EQ(absent.exit_code, 6) << absent.err;
  EXPECT_NE(absent.err.find("names device '99'"), std::string::npos) << absent.err;
}

TEST_F(Gpu, EnergyIsCounted) {
  if (is_trial()) GTEST_SKIP() << "the simulation draws no power";
  const hw::CounterReader reader;
  const auto before = reader.read();
  const auto x = at::rand({4096, 4096}, at::Device(at::kCUDA, 0));
  for (int i = 0; i < 200; ++i) at::mm(x, x);
  x.sum().item<float>();
  const auto growth = reader.growth(before, reader.read());
  ASSERT_TRUE(growth.energy_j.contains("nvml-0"));
  EXPECT_GT(growth.energy_j.at("nvml-0"), 0.0);
}

}  // namespace
}  // namespace lockstep::tests
