#pragma once
#include <cstdint>
#include <string>

#include "config/param_list.h"

namespace lockstep::config {

/// Sizes of a Swin block (Liu et al. 2021).
struct SwinSizes {
  int64_t width = 0, heads = 0;
  int64_t window = 0;  ///< Cells along one side.
  int64_t mlp_width = 0;
};

/// A linear layer as Swin draws it: from a normal law, cut a hundred deviations away.
void add_swin_linear(ParamList& list, const std::string& name, int64_t in, int64_t out);
void add_swin_block(ParamList& list, const std::string& name, const SwinSizes& sizes);
/// Four cells of `width` become one of twice that.
void add_patch_merging(ParamList& list, const std::string& name, int64_t width);
/// Forward work of a block on so many cells.
double swin_block_flops(const SwinSizes& sizes, int64_t cells);

}  // namespace lockstep::config
