#pragma once
#include <array>

#include "config/image_tower.h"

namespace lockstep::config {

/// timm's vision transformer: SigLIP's (no class token, pooled by attention of a learned query), those of the first
/// EVA, EVA02-E and PE, and plain ones. What each function is for stands at ImageTower.
struct TimmVitTower {
  static constexpr std::string_view kName = "timm_vit";
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

/// The same behind a stem of three convolutions, two with batch norm, in place of the patch embedding: MobileCLIP's B.
struct TimmStemVitTower : TimmVitTower {
  static constexpr std::string_view kName = "timm_stem_vit";
  static constexpr bool kHasBatchNorm = true;
  static void check(const ClipShape& shape);
  static void add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim);
  static double forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens);
  static double activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);
};

/// The same behind two stages of convolutions: ViTamin (Chen et al. 2024).
struct VitaminTower : TimmVitTower {
  static constexpr std::string_view kName = "vitamin";
  static void check(const ClipShape& shape);
  static void add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim);
  static double forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t tokens);
  static double activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);
};

/// One convolution of the stem, whose stride is its kernel.
struct StemConv {
  int64_t in, out, kernel;
  bool is_last;  ///< With a bias, and without batch norm and GELU.
};
std::array<StemConv, 3> stem_convs(int64_t width);

}  // namespace lockstep::config
