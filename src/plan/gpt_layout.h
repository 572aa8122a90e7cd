#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "config/gpt_params.h"
#include "plan/batch_plan.h"
#include "plan/mesh_layout.h"
#include "plan/pipe_schedule.h"
#include "plan/pipe_split.h"

namespace lockstep::plan {

/// What the user asked for. Numbers are at least 1.
struct GptLayoutRequest {
  int64_t world_size = 1;
  int64_t tp = 1, pp = 1;
  MeshOrder order = MeshOrder::kPpDpTp;
  bool is_sequence_parallel = false;
  bool is_optimizer_sharded = false;  ///< ZeRO-1.
  bool is_gpipe = false;
  SplitRequest split{};  ///< num_stages is taken from pp.
  int64_t group = 0;     ///< Micro-batches a chunk takes in a row; 0: pp.
  int64_t micro_batch_size = 1;
  std::optional<int64_t> global_batch{};
  bool lowers_batch = false;  ///< A global batch that does not divide becomes the next smaller one that does.
};

/// A GPT on a mesh of ranks: who holds what, and in which order a step runs.
struct GptLayout {
  config::GptShape shape;
  MeshLayout mesh;
  bool is_sequence_parallel = false;  ///< Never with one tensor rank.
  bool is_optimizer_sharded = false;
  PipeShape pipe;
  std::vector<config::GptPart> parts;  ///< By number of part: chunk x num_stages + stage.
  BatchPlan batch;                     ///< micro_batch_size and global_batch in sequences.

  int64_t tp() const { return mesh.size(Axis::kTensor); }
  int64_t dp() const { return mesh.size(Axis::kData); }
  int64_t pp() const { return mesh.size(Axis::kPipeline); }
  const config::GptPart& part(int stage, int chunk) const {
    return parts.at(static_cast<size_t>(int64_t{chunk} * pp() + stage));
  }
  /// Parameters of a stage, chunk after chunk, with full shapes.
  std::vector<config::ParamSpec> params_of(int stage) const;
  /// The model's first or last layer, which --first-last-layers-bf16 leaves out of FP8.
  bool is_end_layer(int64_t layer) const { return layer == 0 || layer + 1 == shape.layers; }
  /// The embedding is used by two stages: its gradient is summed over both.
  bool has_split_embedding() const { return shape.is_head_tied && pp() > 1; }
};

/// Tokens of a micro-batch whose logits a rank makes at a time: as asked, else as many as give 2^26 logits on a rank (a
/// quarter of a GiB in fp32).
int64_t loss_chunk_tokens(const GptLayout& layout, int64_t asked);

/// Completes and checks a request. UsageError, with the nearest legal values and their flags: ranks that are no
/// multiple of tp x pp, a model whose heads, groups, widths or vocabulary tp does not divide, a sequence that sequence
/// parallelism does not divide, layers that stages do not divide, a global batch or a number of micro-batches that does
/// not fit.
GptLayout make_gpt_layout(const config::GptShape& shape, const GptLayoutRequest& request);

}  // namespace lockstep::plan
