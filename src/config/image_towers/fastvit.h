#pragma once
#include <vector>

#include "config/image_tower.h"

namespace lockstep::config {

/// timm's FastViT (Vasu et al. 2023) as MobileCLIP has it, with the branches that are trained ("fastvit_mci0" to
/// "fastvit_mci4"): stages of convolutions, behind them one of attention, or two with layer norms. What each function
/// is for stands at ImageTower.
struct FastVitTower {
  static constexpr std::string_view kName = "fastvit";
  static constexpr bool kHasBatchNorm = true;
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

/// Kernels of depthwise convolutions: the large one mixes cells in front of an MLP and gives cells their places, the
/// small one mixes them elsewhere; a halving of the side has both.
inline constexpr int64_t kFastVitLargeKernel = 7, kFastVitSmallKernel = 3;

/// A convolution that pads by half its kernel; with one group for each channel of its input, where it is depthwise.
struct ConvShape {
  int64_t in, out, kernel;
  bool is_depthwise = false;
  int64_t stride = 1;
};

/// A sum of branches, each with a batch norm of its own: the convolution, one of single cells beside it, and the input
/// itself where sizes allow (Vasu et al. 2022, "MobileOne").
struct MobileOneShape {
  ConvShape conv;
  bool has_conv = true, has_scale = true, has_activation = true;
  int64_t squeezed = 0;  ///< Width between the layers of squeeze-and-excitation; 0: there is none.

  bool has_scale_branch() const { return has_scale && conv.kernel > 1; }
  bool has_identity() const { return conv.in == conv.out && conv.stride == 1; }
};

/// The three blocks that make a quarter of the picture's side.
std::vector<MobileOneShape> fastvit_stem(const VisionShape& vision);
/// The one behind the stages.
MobileOneShape fastvit_last_block(const VisionShape& vision);
/// The block behind a halving of the side.
MobileOneShape fastvit_pointwise(int64_t width);
/// What a block without attention mixes cells by, and what it takes away from that.
MobileOneShape fastvit_mixer(int64_t width);
MobileOneShape fastvit_mixer_norm(int64_t width);

/// A stage of equal blocks on side x side cells; the first alone has no halving in front.
struct FastVitStage {
  int64_t index, depth, width, side, mlp_width;
  bool attends;      ///< Behind a convolution for the places of cells.
  int64_t squeezed;  ///< As of MobileOneShape, in the halving.
  int64_t cells() const { return side * side; }
};
std::vector<FastVitStage> fastvit_stages(const VisionShape& vision);
/// With a fifth stage, what mixes cells by attention has layer norms, halvings do not squeeze, and the stem has no
/// branch of single cells: timm's fastvit_mci3 and fastvit_mci4.
bool is_large_fastvit(const VisionShape& vision);

}  // namespace lockstep::config
