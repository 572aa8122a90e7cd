#include "predict/told_text.h"

#include <gtest/gtest.h>

namespace lockstep::predict {
namespace {

using Number = std::optional<double>;
const Number kNone;

TEST(ToldText, BatchesOfAllDevices) {
  for (const char* text : {"global batch size 1536", "Global batch: 1,536", "total batch size of 1536", "GBS=1536",
                           "gbs 1536, mbs 1", "an effective batch of 1536 sequences", "1536-sequence global batch",
                           "batch size (global) 1536", "global_batch_size = 1536", "global batch fixed at 1536"})
    EXPECT_EQ(told_batch(text).global_samples, 1536) << text;
  EXPECT_EQ(told_batch("global batch of 4M tokens").global_tokens, 4e6);
  EXPECT_EQ(told_batch("global batch size 4 million tokens").global_tokens, 4e6);
  EXPECT_EQ(told_batch("a 4M-token global batch").global_tokens, 4e6);
  EXPECT_EQ(told_batch("global batch 32k").global_samples, 32000);
  EXPECT_EQ(told_batch("global batch 16 K80").global_samples, 16) << "a device's name is no thousand";
}

TEST(ToldText, BatchesOfADevice) {
  for (const char* text : {"batch 64 per GPU", "batch size 64/GPU", "local batch size 64", "LBS=64", "per-GPU batch 64",
                           "batch size per device: 64", "batch of 64 images a GPU", "batch size of 64 on each GPU"})
    EXPECT_EQ(told_batch(text).local_samples, 64) << text;
  EXPECT_EQ(told_batch("batch of 16384 tokens per GPU").local_tokens, 16384);
}

TEST(ToldText, WhatBelongsToNoDevice) {
  EXPECT_EQ(told_batch("batch size 512").samples, 512);
  EXPECT_EQ(told_batch("a batch of 4M tokens").tokens, 4e6);
  const ToldBatch of_node = told_batch("batch 256 per node");
  EXPECT_EQ(of_node.samples, kNone);
  EXPECT_EQ(of_node.local_samples, kNone);
  EXPECT_EQ(of_node.global_samples, kNone);
}

TEST(ToldText, MicroBatches) {
  for (const char* text : {"MBS=2", "micro-batch 2", "micro batch size of 2", "microbatch size: 2"})
    EXPECT_EQ(told_batch(text).micro_batch, 2) << text;
  EXPECT_EQ(told_batch("micro-batch 2, global batch 64").global_samples, 64);
}

TEST(ToldText, NumbersThatDisagreeTellNothing) {
  EXPECT_EQ(told_batch("global batch 512 at first, then global batch 1024").global_samples, kNone);
  EXPECT_EQ(told_batch("global batch 512; global batch size 512").global_samples, 512);
}

TEST(ToldText, OtherNumbersAreNoBatches) {
  for (const char* text : {"batch times of 50 steps", "batch job 1234", "no batch, 64 GPUs", "batch norm 5",
                           "64 batches", "the batch system SLURM 23"}) {
    const ToldBatch told = told_batch(text);
    EXPECT_EQ(told.samples, kNone) << text;
    EXPECT_EQ(told.global_samples, kNone) << text;
    EXPECT_EQ(told.local_samples, kNone) << text;
  }
}

TEST(ToldText, Degrees) {
  for (const char* text : {"tensor parallel 8", "tensor-parallel size of 8", "8-way tensor parallelism",
                           "tensor model parallel size: 8", "8 tensor ranks, 512 GPUs"})
    EXPECT_EQ(told_degree(text, "tensor"), 8) << text;
  EXPECT_EQ(told_degree("12 pipeline stages", "pipeline"), 12);
  EXPECT_EQ(told_degree("virtual pipeline size 3, pipeline parallel 8", "pipeline"), 8);
  EXPECT_EQ(told_degree("virtual pipeline size 3, pipeline parallel 8", "virtual"), 3);
  for (const char* text : {"A100 tensor cores", "312 tensor cores", "tensor parallel on 8 GPUs",
                           "tensor parallel 8 GPUs", "H100 tensor parallelism", "with tensor parallelism, 512 GPUs"})
    EXPECT_EQ(told_degree(text, "tensor"), std::nullopt) << text;
}

TEST(ToldText, Experts) {
  for (const char* text : {"64 experts", "64 routed experts, EP=8", "num_experts=64", "experts: 64, 512 GPUs"})
    EXPECT_EQ(told_experts(text).num_experts, 64) << text;
  for (const char* text : {"8-way expert parallelism", "EP=8", "expert parallel size 8", "all experts", "8x A100 80GB"})
    EXPECT_FALSE(told_experts(text).num_experts) << text;
  for (const char* text : {"top-2", "top_k=2", "topk 2", "MoE with top-2 routing"})
    EXPECT_EQ(told_experts(text).top_k, 2) << text;
  EXPECT_FALSE(told_experts("trained to 76.1 % top-1 accuracy").top_k);
  for (const char* text : {"Qwen3-235B-A22B", "235B parameters, 22B active", "22B activated"})
    EXPECT_EQ(told_experts(text).active_parameters, 22e9) << text;
  EXPECT_FALSE(told_experts("A100 40GB, 22B").active_parameters);
  const ToldExperts mixtral = told_experts("Mixtral 8x7B on 8xH100");
  EXPECT_EQ(mixtral.num_experts, 8);
  EXPECT_NEAR(mixtral.parameters.value_or(0), 46.7e9, 0.1 * 46.7e9) << "as published";
  EXPECT_FALSE(told_experts("8x80GB").parameters);
}

TEST(ToldText, Sequences) {
  for (const char* text : {"sequence length 2048", "seq_len=2048", "sequences of 2048 tokens", "context length: 2,048"})
    EXPECT_EQ(told_sequence(text), 2048) << text;
  EXPECT_EQ(told_sequence("8 sequences"), kNone);
  EXPECT_EQ(told_sequence("sequence length 2048, later sequence length 4096"), kNone);
}

TEST(ToldText, Networks) {
  for (const char* text : {"8x HDR InfiniBand", "8xHDR", "8 x HDR200"})
    EXPECT_EQ(told_node_gbytes_per_s(text), 200) << text;
  EXPECT_EQ(told_node_gbytes_per_s("4x NDR200"), 100);
  EXPECT_EQ(told_node_gbytes_per_s("2x EDR"), 25);
  EXPECT_EQ(told_node_gbytes_per_s("25GbE RoCE"), 3.125);
  EXPECT_EQ(told_node_gbytes_per_s("400 Gbps EFA"), 50);
  // Lanes of one card, not four cards.
  for (const char* text : {"InfiniBand 100 Gb/sec (4X EDR)", "100 Gb/s", "100 Gbit/s", "100Gb RoCE", "100 Gbps"})
    EXPECT_EQ(told_node_gbytes_per_s(text), 12.5) << text;
  for (const char* text : {"4 * 100Gb RoCE", "4x 100 Gbps", "4 x 100 Gb/s"})
    EXPECT_EQ(told_node_gbytes_per_s(text), 50) << text;
  for (const char* text : {"InfiniBand HDR", "NDR400", "64 GPUs", "V100 16Gb", "400 Gb/s per GPU", "4X EDR"})
    EXPECT_EQ(told_node_gbytes_per_s(text), kNone) << text;
}

TEST(ToldText, DevicesOfANode) {
  for (const char* text :
       {"8 GPUs a node", "8 V100 GPUs per node", "8 GPUs/node", "4 nodes with 8x Tesla V100-SXM2-16GB",
        "4 servers with 8 Pascal GPUs each", "Tesla V100-SXM2-16GB x 8", "NVIDIA DGX A100", "DGX-1", "HGX H100",
        "NVIDIA DGX A100 (8x A100 80GB)", "GPT 1.3B on 8 GCDs per node", "4 nodes of 8 GPUs per server"})
    EXPECT_EQ(told_devices_per_node(text), 8) << text;
  EXPECT_EQ(told_devices_per_node("DGX-2H"), 16);
  EXPECT_EQ(told_devices_per_node("MXNet (16 K80 GPUs per node)"), 16);
  EXPECT_EQ(told_devices_per_node("2 K20X GPUs per node"), 2);
  for (const char* text : {"4 M40 GPUs per node", "4x M40 nodes", "nodes with 4 x K80"})
    EXPECT_EQ(told_devices_per_node(text), 4) << text;
  EXPECT_EQ(told_devices_per_node("DGX-2 (16x V100 32GB)"), 16);
  for (const char* text : {"64 A100 GPUs", "512x H100", "8x HDR InfiniBand", "V100", "4 nodes", "8 experts per GPU",
                           "4 GPUs a node, later 8 GPUs a node"})
    EXPECT_EQ(told_devices_per_node(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lockstep::predict
