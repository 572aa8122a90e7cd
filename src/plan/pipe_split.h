#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/gpt_params.h"

namespace lockstep::plan {

/// How layers are shared out among the parts of a pipeline. At most one of layers_per_chunk, num_chunks and text.
struct SplitRequest {
  int num_stages = 1;
  std::optional<int64_t> layers_per_chunk{};             ///< --num-layers-per-virtual-pipeline-stage
  std::optional<int64_t> num_chunks{};                   ///< --num-virtual-stages-per-pipeline-rank
  std::optional<int64_t> first_layers{}, last_layers{};  ///< Of the first and the last stage, all chunks together.
  bool counts_embedding = false, counts_head = false;    ///< The embedding or the head takes the place of a layer.
  std::string text{};                                    ///< --pipeline-model-parallel-layout, "Et|(tt|)*3L"; "": none.
  int64_t num_ranks = 0;  ///< Which numbers of stages that errors name must divide; 0: not known.
};

/// The parts of the model in forward order: number c x num_stages + r is chunk c of stage r. Every layer lies in one
/// part, the embedding in the first, the head in the last. UsageError where the numbers do not divide, with the nearest
/// that do.
std::vector<config::GptPart> split_layers(const config::GptShape& shape, const SplitRequest& request);

/// Chunks per stage that a request asks for.
int64_t num_chunks_of(const config::GptShape& shape, const SplitRequest& request);

}  // namespace lockstep::plan
