#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::predict {

/// What a text in English words tells of the batch of one step: "global batch size 1536", "batch of 4M tokens", "local
/// batch 2", "batch of 32 sequences a GPU", "GBS=512 MBS=1". Absent: not told, or told twice with different numbers.
struct ToldBatch {
  std::optional<double> global_samples{}, global_tokens{};  ///< Of all devices.
  std::optional<double> local_samples{}, local_tokens{};    ///< Of a device.
  std::optional<double> samples{}, tokens{};                ///< Of a device or of all: the text does not say.
  std::optional<double> micro_batch{};
};
ToldBatch told_batch(std::string_view text);

/// The number that belongs to a word of a parallel layout ("tensor", "pipeline", "virtual"): "tensor parallel size of
/// 8", "pipeline stages: 12", "8-way tensor parallelism", "12 pipeline stages".
std::optional<int64_t> told_degree(std::string_view text, std::string_view word);

/// What a text tells of a model's experts.
struct ToldExperts {
  std::optional<int64_t> num_experts{};       ///< "64 experts", "num_experts=8", the 8 of "8x7B"
  std::optional<int64_t> top_k{};             ///< "top-2", "top_k=8"
  std::optional<double> active_parameters{};  ///< "A22B", "22B active"
  std::optional<double> parameters{};         ///< Of "8x7B": eight experts beside what models of 7B would share.
};
ToldExperts told_experts(std::string_view text);

/// Tokens of a sequence: "sequence length 2048", "context of 8k", "seq_len=4096", "sequences of 2048 tokens".
std::optional<double> told_sequence(std::string_view text);

/// GB/s of a node into the network and per direction: "8x HDR InfiniBand", "4x NDR200", "25GbE", "400 Gbps". A kind of
/// InfiniBand without the number of its cards tells nothing.
std::optional<double> told_node_gbytes_per_s(std::string_view text);

/// Devices of a node: "4 GPUs a node", "16 K80 GPUs per node", "nodes with 8x Tesla V100", "V100-SXM2-16GB x 8",
/// "DGX-2".
std::optional<int64_t> told_devices_per_node(std::string_view text);

}  // namespace lockstep::predict
