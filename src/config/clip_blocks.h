#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "config/param_list.h"

namespace lockstep::config {

/// Initial laws of the matrices of a block.
struct BlockLaws {
  InitLaw in_proj, out_proj, c_fc, c_proj;
};

/// Parameters of one of CLIP's transformer blocks, whose names begin with `name`.
void add_block(ParamList& list, const std::string& name, int64_t width, int64_t mlp_width, const BlockLaws& laws,
               const std::optional<double>& layer_scale);

/// Parameters of a block that attends to another sequence of its width.
void add_cross_block(ParamList& list, const std::string& name, int64_t width, int64_t mlp_width, const BlockLaws& laws,
                     const std::optional<double>& layer_scale);
/// Parameters of attention to a sequence of `context_width` (equal: one weight for queries, keys and values).
void add_cross_attention(ParamList& list, const std::string& name, int64_t width, int64_t context_width);
/// Parameters of an attentional pooler.
void add_attentional_pooler(ParamList& list, const std::string& name, int64_t num_queries, int64_t width,
                            int64_t context_width);

/// Forward work of attention of `queries` to `tokens` of another sequence, projections included.
double cross_attention_flops(int64_t queries, int64_t tokens, int64_t width, int64_t context_width);
/// Forward work of one block: 2 x multiply-adds, attention in full.
double block_flops(int64_t tokens, int64_t width, int64_t mlp_width);

}  // namespace lockstep::config
