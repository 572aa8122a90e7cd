#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/activation_bytes.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// The image tower: of which kind (image_towers.h), and the sizes that kinds share.
struct VisionShape {
  std::string tower = "vit";         ///< Its ImageTower::kName.
  int64_t image_size = 224;          ///< Pixels, square.
  std::vector<int64_t> stages = {};  ///< ModifiedResNet: bottlenecks of its four stages.
  int64_t layers = 12;               ///< ViT: blocks.
  int64_t width = 768;               ///< ViT: token width; ModifiedResNet: channels after the stem.
  int64_t head_width = 64;
  int64_t patch_size = 16;  ///< ViT: pixels.
  double mlp_ratio = 4.0;
  double patch_dropout = 0.0;                        ///< Fraction of patches left out while training, [0, 1).
  std::optional<double> layer_scale = std::nullopt;  ///< Initial value of LayerScale, where the blocks have it.

  int64_t feature_width() const;  ///< Width in front of the last projection.
  int64_t heads() const { return feature_width() / head_width; }
  int64_t mlp_width() const { return static_cast<int64_t>(static_cast<double>(width) * mlp_ratio); }
  int64_t grid() const;                                   ///< Patches (or cells) per side.
  int64_t tokens() const { return grid() * grid() + 1; }  ///< With the class token (ModifiedResNet: the mean token).
  bool has_batch_norm() const;
};

/// The text transformer: causal, pooled at the end-of-text token.
struct TextShape {
  int64_t context_length = 77;
  int64_t vocab_size = 49408;
  int64_t width = 512;
  int64_t heads = 8;
  int64_t layers = 12;
  double mlp_ratio = 4.0;
  std::optional<double> layer_scale = std::nullopt;

  int64_t mlp_width() const { return static_cast<int64_t>(static_cast<double>(width) * mlp_ratio); }
};

/// Everything that fixes the parameters and the computation of a CLIP model.
struct ClipShape {
  static constexpr std::string_view kKind = "clip";  ///< As messages name it.
  std::string name;
  int64_t embed_dim = 512;
  VisionShape vision;
  TextShape text;
  bool quick_gelu = false;                       ///< x * sigmoid(1.702 x) instead of the exact GELU.
  double init_logit_scale = 2.6592600369327779;  ///< ln(1 / 0.07).
  std::optional<double> init_logit_bias = std::nullopt;
  bool nonscalar_logit_scale = false;  ///< logit_scale and logit_bias have shape [1] instead of [].
};

/// Names of the built-in models, in table order: every native configuration of OpenCLIP 3.3.0 that these towers can
/// express.
std::vector<std::string> clip_model_names();

/// Changes that the command line may make to a named shape.
struct ClipOverrides {
  std::optional<int64_t> image_size = std::nullopt, context_length = std::nullopt;
  bool quick_gelu = false;
  std::optional<double> patch_dropout = std::nullopt;
  std::optional<double> init_logit_scale = std::nullopt,
                        init_logit_bias = std::nullopt;  ///< As --siglip sets them: ln 10 and -10.
};

/// The overrides that --force-image-size (none, one value or two equal ones), --force-context-length,
/// --force-quick-gelu and
/// --force-patch-dropout ask for.
ClipOverrides forced_overrides(const std::vector<int64_t>& image_size, const std::optional<int64_t>& context_length,
                               bool quick_gelu, const std::optional<double>& patch_dropout = std::nullopt);

/// Shape of a built-in name, or of an OpenCLIP-format JSON file when `model` ends in ".json"; then the overrides.
/// UsageError for an unknown name (with the nearest one), for an OpenCLIP configuration that these towers cannot
/// express (with the reason), and for sizes that do not fit.
ClipShape resolve_clip_shape(std::string_view model, const ClipOverrides& overrides = {});

/// Shape from the text of an OpenCLIP model configuration. `where` names it in errors. Unknown keys, known keys that
/// are not supported and values of a wrong type or range are UsageErrors that name the key.
ClipShape parse_clip_shape(std::string_view json, std::string_view where);

/// UsageError unless all sizes fit together (heads divide widths, the patch fits into the image, ...).
void check_clip_shape(const ClipShape& shape);

/// Parameters and buffers in forward-execution order (image tower, text tower, scalars) under OpenCLIP's names.
std::vector<ParamSpec> clip_param_specs(const ClipShape& shape);

/// Sizes and work of a model, without a tensor.
struct ClipCost {
  int64_t image_parameters = 0;      ///< Names that begin with "visual.".
  int64_t text_parameters = 0;       ///< All others, the scalars included, as the published tables count.
  double image_forward_flops = 0.0;  ///< One image: 2 x multiply-adds of convolutions, projections and attention.
  /// One text of the nominal context length, attention in full (not halved by the causal mask).
  double text_forward_flops = 0.0;
  int64_t parameters() const { return image_parameters + text_parameters; }
};
ClipCost clip_cost(const ClipShape& shape);

/// Forward work of one text of which `tokens` positions are computed (24 T W^2 + 4 T^2 W a block at MLP ratio 4, one
/// token projected).
double clip_text_forward_flops(const ClipShape& shape, int64_t tokens);
/// Forward work of one image with `tokens` tokens in the blocks (patch dropout shortens them). ModifiedResNet ignores
/// `tokens`.
double clip_image_forward_flops(const ClipShape& shape, int64_t tokens);
/// What the image tower keeps of one image for the backward pass.
double clip_image_activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);

}  // namespace lockstep::config
