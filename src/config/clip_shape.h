#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/activation_bytes.h"
#include "config/m2m100_shape.h"
#include "config/param_spec.h"
#include "config/roberta_shape.h"
#include "config/t5_shape.h"

namespace lockstep::config {

/// How the image tower makes one vector of its tokens.
enum class ImagePool {
  kClassToken,
  kMean,       ///< Over the patches.
  kAttention,  ///< timm's "map": one learned query attends to the tokens, then a block's MLP.
};

/// Where rotary positions of a picture's patches come from: (cell + offset) / cells * reference_cells, along each side.
struct RotaryCells {
  int64_t reference_cells =
      16;  ///< Cells per side of the pictures of the first training: others are stretched to them.
  double offset = 0.0;
  bool columns_first = false;  ///< The first half of a head's width turns with the column, the other with the row.
};

/// What vision transformers of timm have beyond what SigLIP's have (towers "timm_vit", "timm_stem_vit").
struct TimmVitShape {
  enum class QkvBias {
    kAll,
    kNotKeys,  ///< Of queries and values alone, as parameters of their own.
    kNone,
  };
  QkvBias qkv_bias = QkvBias::kAll;
  bool norms_follow = false;               ///< Blocks add norm(attn(x)), not attn(norm(x)).
  bool has_class_position = true;          ///< The class token has a position embedding, too (where there are any).
  bool has_positions = true;               ///< Learned ones.
  bool has_gated_mlp = false;              ///< GELU(w0 y) * w1 y of a norm of its own, as ViTamin's.
  bool has_own_head = false;               ///< The last layer is timm's: "trunk.head" (of FastViT, too).
  bool begins_as_eva = false;              ///< With the initial values of timm's Eva, else of its VisionTransformer.
  ImagePool pool = ImagePool::kAttention;  ///< The only one that fits its norms.
  std::optional<RotaryCells> rotary = std::nullopt;
  /// Each block's attention has a bias, which an MLP of this width makes of the patches' distances; 0: none.
  int64_t position_mlp_width = 0;
  double position_dropout = 0.125;                            ///< Of that MLP's hidden values while training.
  std::array<int64_t, 2> stem_widths = {}, stem_depths = {};  ///< ViTamin: stages of convolutions, their blocks.
  int64_t pool_heads = 0;  ///< Of the pool by attention; 0: those of the blocks, as the next.
  double pool_mlp_ratio = 0.0;
};

/// The image tower: of which kind (image_towers.h), and the sizes that kinds share.
struct VisionShape {
  std::string tower = "vit";         ///< Its ImageTower::kName.
  int64_t image_size = 224;          ///< Pixels, square.
  std::vector<int64_t> stages = {};  ///< ModifiedResNet, ConvNeXt, Swin, FastViT: blocks of its stages.
  int64_t layers = 12;               ///< ViT: blocks.
  int64_t width = 768;               ///< ViT: token width; else: channels after the stem.
  int64_t head_width = 64;
  int64_t patch_size = 16;  ///< ViT, Swin: pixels.
  int64_t window = 7;       ///< Swin: cells along one side of a window.
  double mlp_ratio = 4.0;
  double patch_dropout = 0.0;                        ///< Fraction of patches left out while training, [0, 1).
  std::optional<double> layer_scale = std::nullopt;  ///< Initial value of LayerScale, where the blocks have it.
  double norm_epsilon = 1e-5;                        ///< Of layer norms (blocks, ln_pre, ln_post).
  bool has_tanh_gelu = false;                        ///< GELU by its approximation with tanh.

  // ViT alone
  bool has_ln_pre = true;            ///< A norm in front of the blocks.
  bool has_class_token = true;       ///< timm's SigLIP towers have none.
  bool has_fixed_positions = false;  ///< Sines and cosines of the place instead of learned position embeddings.
  bool norms_after_pool = false;     ///< The last norm sees the pooled vector only.
  ImagePool pool = ImagePool::kClassToken;
  /// CoCa's pooling: the first of pooler_queries learned queries gives the picture's vector, the others its tokens.
  bool has_attentional_pool = false;
  int64_t pooler_queries = 256, pooler_heads = 8;

  /// Towers of timm: share of samples that skip the last block while training; 0 at the first.
  double drop_path = 0.0;
  TimmVitShape timm = {};

  // Towers of timm: what stands behind the trunk
  ProjectionShape head = {.kind = ProjectionShape::Kind::kNone};
  std::string timm_weights = {};  ///< Repository of the Hub with the weights that timm takes for it by default.

  int64_t feature_width() const;  ///< Width in front of the last projection.
  int64_t heads() const { return feature_width() / head_width; }
  int64_t mlp_width() const { return static_cast<int64_t>(static_cast<double>(width) * mlp_ratio); }
  int64_t attention_pool_heads() const { return timm.pool_heads > 0 ? timm.pool_heads : heads(); }
  int64_t pool_mlp_width() const {
    return timm.pool_mlp_ratio > 0.0 ? static_cast<int64_t>(static_cast<double>(width) * timm.pool_mlp_ratio)
                                     : mlp_width();
  }
  int64_t grid() const;  ///< Patches (or cells) per side.
  int64_t patches() const { return grid() * grid(); }
  /// With the class token, where there is one (ModifiedResNet: the mean token).
  int64_t tokens() const { return patches() + (has_class_token ? 1 : 0); }
  bool has_batch_norm() const;
};

/// Which position of the text transformer is the text's vector. A class token (has_class_token) takes its place.
enum class TextPool {
  kLargestId,  ///< The first position of the largest id: CLIP's end-of-text token.
  kEndId,      ///< The first position of eos_id.
  kFirst,
  kLast,
};

/// From the text tower's width to the shared space.
enum class TextProjection {
  kMatrix,  ///< A matrix [width, E].
  kLinear,  ///< A linear layer with bias.
  kNone,
};

/// What cuts a text into tokens.
enum class TextTokens {
  kClip,           ///< CLIP's byte-pair encoding.
  kRoberta,        ///< Byte-level BPE: <s> tokens </s>.
  kXlmRoberta,     ///< SentencePiece with Hugging Face's offset of ids: <s> tokens </s>.
  kSentencePiece,  ///< SentencePiece: tokens </s>, padded with the end token (T5 as SigLIP has it).
  kMt5,            ///< SentencePiece: tokens </s>, padded with 0.
  kGemma,          ///< SentencePiece: tokens <eos>, padded with 0.
  kNllb,           ///< SentencePiece with Hugging Face's offset of ids: language tokens </s>, padded with 1.
  kWordPiece,      ///< BERT's.
};

/// What is done to a text before it is cut, by OpenCLIP's names of `clean`.
enum class TextCleaning {
  kLower,       ///< White space and case.
  kWhiteSpace,  ///< White space alone.
  kCanonical,   ///< "canonicalize": punctuation, white space and case (SigLIP).
};

/// The text tower: of which kind (text_towers.h), and its sizes. Defaults are those of OpenAI's CLIP: a causal
/// transformer, pooled at the end-of-text token.
struct TextShape {
  std::string tower = "transformer";  ///< Its TextTower::kName.
  int64_t context_length = 77;
  int64_t vocab_size = 49408;
  int64_t width = 512;
  int64_t heads = 8;
  int64_t layers = 12;
  double mlp_ratio = 4.0;
  std::optional<double> layer_scale = std::nullopt;
  double norm_epsilon = 1e-5;
  bool has_tanh_gelu = false;
  bool is_causal = true;
  bool has_class_token = false;  ///< A learned token behind the others, which sees no padding: CoCa's.
  int64_t pad_id = 0, eos_id = 2;
  TextPool pool = TextPool::kLargestId;
  TextProjection projection = TextProjection::kMatrix;
  TextTokens tokens = TextTokens::kClip;
  std::optional<TextCleaning> cleaning = std::nullopt;  ///< none: the tokenizer's own.
  RobertaShape roberta = {};                            ///< Of the tower "roberta".
  T5Shape t5 = {};                                      ///< Of the tower "t5".
  M2m100Shape m2m100 = {};                              ///< Of the tower "m2m_100".
  std::string language = "eng_Latn";                    ///< Of texts, as TextTokens::kNllb name it.
  ProjectionShape encoder_projection = {};              ///< Of these towers.

  int64_t mlp_width() const { return static_cast<int64_t>(static_cast<double>(width) * mlp_ratio); }
  TextCleaning used_cleaning() const {
    return cleaning.value_or(tokens == TextTokens::kClip ? TextCleaning::kLower : TextCleaning::kWhiteSpace);
  }
  int64_t positions() const { return context_length + (has_class_token ? 1 : 0); }
  int64_t feature_width() const;                                  ///< Of its tokens.
  bool is_encoder() const { return tower != TextShape().tower; }  ///< One of Hugging Face's.
};

/// How many token ids a text tower reads.
int64_t num_text_ids(const TextShape& text);

/// CoCa's decoder: a causal transformer over the text tower's tokens, each of whose blocks is followed by one that
/// attends to the picture's tokens, and the next token's logits.
struct CaptionShape {
  /// Of the tokens that the decoder is to predict, this one is not counted: OpenCLIP's padding, whatever a text tower
  /// pads with. Nor are tokens from vocab_size on, which RoBERTa's tokenizer has.
  static constexpr int64_t kUncountedId = 0;

  int64_t context_length = 77;
  int64_t vocab_size = 49408;
  int64_t width = 512;
  int64_t heads = 8;
  int64_t layers = 12;
  std::optional<double> layer_scale = std::nullopt;

  int64_t mlp_width() const { return 4 * width; }
};

/// Everything that fixes the parameters and the computation of a CLIP model.
struct ClipShape {
  static constexpr std::string_view kKind = "clip";  ///< As messages name it.
  std::string name = {};
  int64_t embed_dim = 512;
  VisionShape vision = {};
  TextShape text = {};
  std::optional<CaptionShape> captions = std::nullopt;  ///< A captioning model (CoCa).
  bool has_custom_text = false;                         ///< Names of the text tower begin with "text.".
  bool quick_gelu = false;                              ///< x * sigmoid(1.702 x) instead of the exact GELU.
  double init_logit_scale = 2.6592600369327779;         ///< ln(1 / 0.07).
  std::optional<double> init_logit_bias = std::nullopt;
  bool nonscalar_logit_scale = false;  ///< logit_scale and logit_bias have shape [1] instead of [].

  std::string text_prefix() const { return has_custom_text ? "text." : ""; }
};

/// Names of the built-in models, in table order: every configuration of OpenCLIP 3.3.0.
std::vector<std::string> clip_model_names();

/// Changes that the command line may make to a named shape.
struct ClipOverrides {
  std::optional<int64_t> image_size = std::nullopt, context_length = std::nullopt;
  bool quick_gelu = false;
  bool custom_text = false;
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
  int64_t text_parameters = 0;       ///< All others, decoder and scalars included.
  double image_forward_flops = 0.0;  ///< One image: 2 x multiply-adds of convolutions, projections and attention.
  /// One text of the nominal context length, attention in full (not halved by the causal mask).
  double text_forward_flops = 0.0;
  double caption_forward_flops = 0.0;  ///< Of the decoder of a captioning model: logits of every token but the last.
  int64_t parameters() const { return image_parameters + text_parameters; }
};
ClipCost clip_cost(const ClipShape& shape);

/// Forward work of one text of which `tokens` positions are computed (24 T W^2 + 4 T^2 W a block at MLP ratio 4, one
/// token projected).
double clip_text_forward_flops(const ClipShape& shape, int64_t tokens);
/// Forward work of a captioning model's decoder on `tokens` text tokens and all tokens of the picture; 0 without one.
double clip_caption_forward_flops(const ClipShape& shape, int64_t tokens);
/// Tokens of a picture that a decoder reads.
int64_t caption_image_tokens(const VisionShape& vision);
/// Forward work of one image with `tokens` tokens in the blocks (patch dropout shortens them). ModifiedResNet ignores
/// `tokens`.
double clip_image_forward_flops(const ClipShape& shape, int64_t tokens);
/// What the image tower keeps of one image for the backward pass.
double clip_image_activation_bytes(const VisionShape& vision, const ActivationBytes& bytes);
/// What text tower and decoder keep of one text of nominal length.
double clip_text_activation_bytes(const ClipShape& shape, const ActivationBytes& bytes);

}  // namespace lockstep::config
