#pragma once
#include "config/image_tower.h"

namespace lockstep::config {

/// OpenCLIP's VisionTransformer: blocks over patches and a class token. What each function is for stands at ImageTower.
struct VisionTransformerTower {
  static constexpr std::string_view kName = "vit";
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

}  // namespace lockstep::config
