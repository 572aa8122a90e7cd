#pragma once
#include "config/image_tower.h"

namespace lockstep::config {

/// The mean of all patches, projected. What each function is for stands at ImageTower.
struct MeanPatchTower {
  static constexpr std::string_view kName = "mean_patch";
  static constexpr bool kHasBatchNorm = false;
  static bool is_meant(const VisionShape&) { return false; }
  static void check(const ClipShape& shape);
  static int64_t feature_width(const VisionShape& vision);
  static int64_t grid(const VisionShape& vision);
  static void add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim);
  static double forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens);
  static double activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);
  static std::optional<BlockDims> blocks(const VisionShape&) { return std::nullopt; }
  static std::vector<NameGroup> layer_groups(const VisionShape&) { return {{"visual.conv1."}, {"visual.proj"}}; }
  static std::unique_ptr<models::ImageTower> build(const ClipShape& shape, const models::ClipModelOptions& options);
};

}  // namespace lockstep::config
