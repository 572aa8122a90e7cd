#pragma once
#include <vector>

#include "config/image_tower.h"
#include "config/swin_blocks.h"

namespace lockstep::config {

/// timm's Swin transformer (Liu et al. 2021) behind OpenCLIP's head: four stages of blocks that attend within windows,
/// mean over the cells. What each function is for stands at ImageTower.
struct SwinTower {
  static constexpr std::string_view kName = "swin";
  static constexpr bool kHasBatchNorm = false;
  static bool is_meant(const VisionShape& vision);
  static void check(const ClipShape& shape);
  static int64_t feature_width(const VisionShape& vision);
  static int64_t grid(const VisionShape& vision);
  static void add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim);
  static double forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens);
  static double activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);
  static std::optional<BlockDims> blocks(const VisionShape& vision);
  static std::vector<NameGroup> layer_groups(const VisionShape& vision);
  static std::unique_ptr<models::ImageTower> build(const ClipShape& shape, const models::ClipModelOptions& options);
};

/// A stage of equal blocks on side x side cells.
struct SwinStage {
  int64_t index, depth, side;
  SwinSizes block;
  int64_t cells() const { return side * side; }
  int64_t shift() const { return side > block.window ? block.window / 2 : 0; }  ///< Of odd blocks.
};
std::vector<SwinStage> swin_stages(const VisionShape& vision);

}  // namespace lockstep::config
