// Facts of a run that programs print before their first step.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/files.h"
#include "core/strings.h"
#include "unit/logs/read_one.h"

namespace lockstep::logs {
namespace {

record::RunData read_text(const std::string& text) {
  const core::TempDir folder;
  const std::filesystem::path path = folder.path() / "run.log";
  std::ofstream(path, std::ios::binary) << text;
  return read_one(path);
}

TEST(LogFacts, TorchTitanTellsModelDevicePeakAndMesh) {
  const std::string start =
      "[rank0]:[titan] 2025-11-25 19:44:58,595 - root - INFO - Building device mesh with parallelism: pp=2, "
      "dp_replicate=2, dp_shard=8, cp=1, tp=4, ep=8, etp=1\n"
      "[rank0]:[titan] 2025-11-25 19:44:58,595 - root - INFO - CUDA capacity: NVIDIA H200 with 139.81GiB memory\n"
      "[rank0]:[titan] 2025-11-25 19:44:58,595 - root - INFO - Model llama3 8B size: 8,030,261,248 total parameters\n";
  const std::string peak =
      "[rank0]:[titan] 2025-11-25 19:44:58,837 - root - INFO - Peak FLOPS used for computing MFU: 9.890e+14\n";
  const std::string steps =
      "[rank0]:[titan] 2025-11-25 19:44:58,838 - root - INFO - Trainer is initialized with local batch size 8, global "
      "batch size 256, gradient_accumulation_steps: 2, sequence length 2048, total steps 10 (warmup 2)\n"
      "[rank0]:[titan] 2025-11-25 19:45:01,441 - root - INFO - step:  1  loss:  8.0277  grad_norm:  1.4604  memory:  "
      "1.21GiB(0.86%)  tps: 5,756  tflops: 0.41  mfu: 0.04%\n"
      "[rank0]:[titan] 2025-11-25 19:45:02,441 - root - INFO - validate step:  1  loss:  7.9000  memory:  "
      "1.21GiB(0.86%)  tps: 9,756\n"
      "[rank0]:[titan] 2025-11-25 19:45:04,441 - root - INFO - step:  2  loss:  7.0277  grad_norm:  1.4604  memory:  "
      "1.21GiB(0.86%)  tps: 5,756  tflops: 0.41  mfu: 0.04%\n";
  const record::RunData older = read_text(
      start + peak + core::replace_all(steps, "Trainer is initialized with", "Training starts at step 1, with"));
  EXPECT_EQ(older.setup.global_batch, 256);
  EXPECT_EQ(older.setup.sequence_length, 2048);
  const record::RunData run = read_text(start + peak + steps);
  EXPECT_TRUE(run.problems.empty()) << core::join(run.problems, "\n");
  EXPECT_EQ(run.setup.model, "llama3 8B");
  EXPECT_EQ(run.setup.device, "NVIDIA H200");
  EXPECT_EQ(run.setup.peak_tflops_per_device, 989);
  EXPECT_EQ(run.setup.devices, 128) << "experts share the devices of the other axes";
  EXPECT_EQ(run.setup.layout, "dp=16 tp=4 pp=2");
  EXPECT_EQ(run.setup.samples_per_device, 16);
  EXPECT_EQ(run.setup.accum, 2);
  EXPECT_EQ(run.setup.task, "gpt");
  ASSERT_EQ(run.steps.size(), 2u) << "validation is no step";
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].step, 1);
  EXPECT_EQ(run.results[0].metrics[0].second, 7.9);
  const std::string unknown =
      "[titan] 2025-11-25 19:44:58,837 - root - WARNING - Peak flops undefined for: X, fallback "
      "to A100\n";
  EXPECT_FALSE(read_text(start + unknown + peak + steps).setup.peak_tflops_per_device);
}

TEST(LogFacts, NemoTellsProcessesAndConfiguration) {
  const std::string processes =
      "distributed_backend=nccl\nAll distributed processes registered. Starting with 16 processes\n";
  const std::string line =
      "Training epoch 0, iteration 9/99 | lr: 0.0003 | global_batch_size: 128 | global_step: 9 | reduced_train_loss: "
      "11.03 | train_step_timing in s: 4.51 | consumed_samples: 704\n"
      "Training epoch 0, iteration 19/99 | lr: 0.0003 | global_batch_size: 128 | global_step: 19 | reduced_train_loss: "
      "10.03 | train_step_timing in s: 4.50 | consumed_samples: 1984\n";
  const record::RunData run = read_text(processes + line);
  EXPECT_EQ(run.setup.devices, 16);
  EXPECT_EQ(run.setup.global_batch, 128);
  EXPECT_EQ(run.steps.num_steps, (std::vector<int32_t>{10, 10})) << "a line is a mean";
  EXPECT_TRUE(std::isnan(run.steps.samples_seen[0])) << "so is its consumed_samples";
  const record::RunData configured = read_text(
      "[NeMo I 2026-01-31 12:00:00 megatron_gpt_pretraining:37] \n    name: megatron_gpt\n    trainer:\n      devices: "
      "8\n"
      "      num_nodes: 2\n      precision: bf16-mixed\n    model:\n      micro_batch_size: 4\n      "
      "global_batch_size: "
      "128\n      tensor_model_parallel_size: 4\n      pipeline_model_parallel_size: 1\n      encoder_seq_length: "
      "4096\n" +
      processes + line);
  EXPECT_EQ(configured.setup.nodes, 2);
  EXPECT_EQ(configured.setup.devices, 16);
  EXPECT_EQ(configured.setup.precision, "bf16-mixed");
  EXPECT_EQ(configured.setup.layout, "dp=4 tp=4 pp=1");
  EXPECT_EQ(configured.setup.accum, 8);
  EXPECT_EQ(configured.setup.samples_per_device, 32);
  EXPECT_EQ(configured.setup.sequence_length, 4096);
  EXPECT_EQ(configured.setup.task, "gpt");
}

TEST(LogFacts, DeepSpeedTellsItsConfiguration) {
  const auto option = [](const std::string& text) {
    return "[2024-03-08 16:33:18,189] [INFO] [config.py:1000:print]   " + text + "\n";
  };
  const std::string sizes = option("train_batch_size ............. 256") + option("train_micro_batch_size_per_gpu  4") +
                            option("gradient_accumulation_steps .. 8") + option("world_size ................... 8") +
                            option("zero_optimization_stage ...... 2");
  const std::string json =
      "[2024-03-08 16:33:18,190] [INFO] [config.py:986:print_user_config]   json = {\n"
      "    \"train_micro_batch_size_per_gpu\": 4, \n    \"bf16\": {\n        \"enabled\": true\n    }\n}\n";
  const std::string line =
      "[2026-01-31 12:01:00,000] [INFO] [timer.py:264:stop] epoch=0/micro_step=80/global_step=10, "
      "RunningAvgSamplesPerSec=119.750000, CurrSamplesPerSec=121.000000, MemAllocated=1.25GB, MaxMemAllocated=3.5GB\n";
  const auto read = [&](const std::string& bf16, const std::string& fp16) {
    return read_text(option("bfloat16_enabled ............. " + bf16) +
                     option("fp16_enabled ................. " + fp16) + sizes + json + line);
  };
  const record::RunData run = read("True", "False");
  EXPECT_EQ(run.setup.global_batch, 256);
  EXPECT_EQ(run.setup.devices, 8);
  EXPECT_EQ(run.setup.accum, 8);
  EXPECT_EQ(run.setup.samples_per_device, 32);
  EXPECT_EQ(run.setup.precision, "bf16");
  EXPECT_EQ(run.setup.tags.at("zero_stage"), "2");
  EXPECT_EQ(read("False", "True").setup.precision, "fp16");
  EXPECT_EQ(read("False", "False").setup.precision, "fp32");
  EXPECT_EQ(read_text(sizes + line).setup.precision, "");
}

TEST(LogFacts, MegatronTellsMicroBatchesRowsOfTheVocabularyAndFp8) {
  const std::string log =
      " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n"
      "------------------------ arguments ------------------------\n"
      "  bf16 ............................................ True\n"
      "  fp8 ............................................. hybrid\n"
      "  global_batch_size ............................... 128\n"
      "  micro_batch_size ................................ 2\n"
      "  data_parallel_size .............................. 8\n"
      "  padded_vocab_size ............................... None\n"
      "-------------------- end of arguments ---------------------\n"
      " [2026-09-01 11:00:10] iteration       10/     500 | consumed samples:         1280 | elapsed time per "
      "iteration "
      "(ms): 8400.5 | global batch size:   128 | lm loss: 9.9E+00 | number of nan iterations:   0 |\n";
  const record::RunData run = read_text(log);
  EXPECT_EQ(run.setup.precision, "fp8");
  EXPECT_EQ(run.setup.accum, 8);
  EXPECT_EQ(run.options.at("padded_vocab_size"), "50304");
  EXPECT_EQ(read_text(core::replace_all(log, "hybrid", "None")).setup.precision, "bf16");
}

TEST(LogFacts, TheImageNetExampleTellsItsModel) {
  const record::RunData run = read_text(
      "=> creating model 'resnet50'\nEpoch: [0][  1/125]\tTime  6.200 ( 6.200)\tData  5.500 ( 5.500)\tLoss 6.8950e+00 "
      "(6.9500e+00)\tAcc@1   0.49 (  0.25)\tAcc@5   1.50 (  1.10)\n");
  EXPECT_EQ(run.setup.model, "resnet50");
}

}  // namespace
}  // namespace lockstep::logs
