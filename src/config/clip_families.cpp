#include "config/clip_families.h"

#include <array>

#include "config/timm_towers.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct TextSizes {
  int64_t width, heads, layers;
  double mlp_ratio = 4.0;
};
constexpr TextSizes kText512{512, 8, 12}, kText768{768, 12, 12}, kText1024{1024, 16, 24}, kText1280{1280, 20, 32},
    kTextSo400m{1152, 16, 27, 3.7362};

struct SiglipRow {
  std::string_view name, trunk;  ///< timm's name, which tells the pixels, too.
  int64_t embed_dim;
  TextSizes text;
  int64_t context_length = 64;
};
// SigLIP2 models read Gemma's tokens and have the approximate GELU; "i18n" ones read those of mC4.
constexpr std::array kSiglips{
    SiglipRow{"ViT-B-16-SigLIP", "vit_base_patch16_siglip_224", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP-256", "vit_base_patch16_siglip_256", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP-384", "vit_base_patch16_siglip_384", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP-512", "vit_base_patch16_siglip_512", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP-i18n-256", "vit_base_patch16_siglip_256", 768, kText768},
    SiglipRow{"ViT-L-16-SigLIP-256", "vit_large_patch16_siglip_256", 1024, kText1024},
    SiglipRow{"ViT-L-16-SigLIP-384", "vit_large_patch16_siglip_384", 1024, kText1024},
    SiglipRow{"ViT-SO400M-14-SigLIP", "vit_so400m_patch14_siglip_224", 1152, kTextSo400m, 16},
    SiglipRow{"ViT-SO400M-14-SigLIP-378", "vit_so400m_patch14_siglip_378", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-14-SigLIP-384", "vit_so400m_patch14_siglip_384", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-16-SigLIP-i18n-256", "vit_so400m_patch16_siglip_256", 1152, kTextSo400m},
    SiglipRow{"ViT-B-32-SigLIP2-256", "vit_base_patch32_siglip_256", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP2", "vit_base_patch16_siglip_224", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP2-256", "vit_base_patch16_siglip_256", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP2-384", "vit_base_patch16_siglip_384", 768, kText768},
    SiglipRow{"ViT-B-16-SigLIP2-512", "vit_base_patch16_siglip_512", 768, kText768},
    SiglipRow{"ViT-L-16-SigLIP2-256", "vit_large_patch16_siglip_256", 1024, kText1024},
    SiglipRow{"ViT-L-16-SigLIP2-384", "vit_large_patch16_siglip_384", 1024, kText1024},
    SiglipRow{"ViT-L-16-SigLIP2-512", "vit_large_patch16_siglip_512", 1024, kText1024},
    SiglipRow{"ViT-SO400M-14-SigLIP2", "vit_so400m_patch14_siglip_224", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-14-SigLIP2-378", "vit_so400m_patch14_siglip_378", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-16-SigLIP2-256", "vit_so400m_patch16_siglip_256", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-16-SigLIP2-384", "vit_so400m_patch16_siglip_384", 1152, kTextSo400m},
    SiglipRow{"ViT-SO400M-16-SigLIP2-512", "vit_so400m_patch16_siglip_512", 1152, kTextSo400m},
    SiglipRow{"ViT-gopt-16-SigLIP2-256", "vit_giantopt_patch16_siglip_256", 1536, kTextSo400m},
    SiglipRow{"ViT-gopt-16-SigLIP2-384", "vit_giantopt_patch16_siglip_384", 1536, kTextSo400m},
};
constexpr std::string_view kNoProjection = "ViT-SO400M-16-SigLIP-i18n-256";  // alone among them

/// Models whose image tower is that of a plain one.
struct RelatedRow {
  std::string_view name, plain;
  int64_t image_size;
  bool has_quick_gelu = false;
};
constexpr std::array kClipas{
    RelatedRow{"ViT-L-14-CLIPA", "ViT-L-14", 224},       RelatedRow{"ViT-L-14-CLIPA-336", "ViT-L-14", 336},
    RelatedRow{"ViT-H-14-CLIPA", "ViT-H-14", 224},       RelatedRow{"ViT-H-14-CLIPA-336", "ViT-H-14", 336},
    RelatedRow{"ViT-bigG-14-CLIPA", "ViT-bigG-14", 224}, RelatedRow{"ViT-bigG-14-CLIPA-336", "ViT-bigG-14", 336},
};
constexpr std::array kWorldwides{
    RelatedRow{"ViT-L-14-worldwide", "ViT-L-14", 224},
    RelatedRow{"ViT-L-14-worldwide-quickgelu", "ViT-L-14", 224, true},
    RelatedRow{"ViT-H-14-worldwide", "ViT-H-14", 224},
    RelatedRow{"ViT-H-14-worldwide-378", "ViT-H-14", 378},
    RelatedRow{"ViT-H-14-worldwide-quickgelu", "ViT-H-14", 224, true},
    RelatedRow{"ViT-bigG-14-worldwide", "ViT-bigG-14", 224},
    RelatedRow{"ViT-bigG-14-worldwide-378", "ViT-bigG-14", 378},
};

struct ConvNextClipRow {
  std::string_view name, trunk;
  int64_t embed_dim, image_size;
  TextSizes text;
  bool has_mlp_head = false;
};
constexpr std::array kConvNextClips{
    ConvNextClipRow{"convnext_tiny", "convnext_tiny", 1024, 224, kText512},
    ConvNextClipRow{"convnext_small", "convnext_small", 512, 224, kText512},
    ConvNextClipRow{"convnext_base", "convnext_base", 512, 224, kText512},
    ConvNextClipRow{"convnext_base_w", "convnext_base", 640, 256, {640, 10, 12}},
    ConvNextClipRow{"convnext_base_w_320", "convnext_base", 640, 320, {640, 10, 12}},
    ConvNextClipRow{"convnext_large", "convnext_large", 768, 224, kText768},
    ConvNextClipRow{"convnext_large_d", "convnext_large", 768, 256, {768, 12, 16}, true},
    ConvNextClipRow{"convnext_large_d_320", "convnext_large", 768, 320, {768, 12, 16}, true},
    ConvNextClipRow{"convnext_xlarge", "convnext_xlarge", 1024, 256, {1024, 16, 20}},
    ConvNextClipRow{"convnext_xxlarge", "convnext_xxlarge", 1024, 256, kText1024},
    ConvNextClipRow{"convnext_xxlarge_320", "convnext_xxlarge", 1024, 320, kText1024},
};

/// Models whose image tower ends in timm's own head.
struct TimmClipRow {
  std::string_view name, trunk;
  int64_t embed_dim;
  TextSizes text;
  int64_t context_length = 77;
  bool has_causal_text = true;
};
constexpr TextSizes kTextPeLargest{1280, 20, 24};
constexpr std::array kTimmClips{
    TimmClipRow{"EVA01-g-14", "eva_giant_patch14_224", 1024, kText768},
    TimmClipRow{"EVA01-g-14-plus", "eva_giant_patch14_224", 1024, kText1024},
    TimmClipRow{"EVA02-B-16", "eva02_base_patch16_clip_224", 512, kText512},
    TimmClipRow{"EVA02-L-14", "eva02_large_patch14_clip_224", 768, kText768},
    TimmClipRow{"EVA02-L-14-336", "eva02_large_patch14_clip_336", 768, kText768},
    TimmClipRow{"EVA02-E-14", "eva02_enormous_patch14_clip_224", 1024, kText1024},
    TimmClipRow{"EVA02-E-14-plus", "eva02_enormous_patch14_clip_224", 1024, kText1280},
    TimmClipRow{"MobileCLIP-B", "vit_base_mci_224", 512, kText512},
    TimmClipRow{"MobileCLIP2-B", "vit_base_mci_224", 512, kText512},
    TimmClipRow{"MobileCLIP2-L-14", "vit_large_patch14_clip_224", 768, kText768, 77, false},
    TimmClipRow{"MobileCLIP-S1", "fastvit_mci1", 512, kText512, 77, false},
    TimmClipRow{"MobileCLIP-S2", "fastvit_mci2", 512, kText512, 77, false},
    TimmClipRow{"MobileCLIP2-S0", "fastvit_mci0", 512, kText512, 77, false},
    TimmClipRow{"MobileCLIP2-S2", "fastvit_mci2", 512, kText512, 77, false},
    TimmClipRow{"MobileCLIP2-S3", "fastvit_mci3", 768, kText768, 77, false},
    TimmClipRow{"MobileCLIP2-S4", "fastvit_mci4", 768, kText768, 77, false},
    TimmClipRow{"PE-Core-T-16-384", "vit_pe_core_tiny_patch16_384", 512, kText512, 32},
    TimmClipRow{"PE-Core-S-16-384", "vit_pe_core_small_patch16_384", 512, kText512, 32},
    TimmClipRow{"PE-Core-B-16", "vit_pe_core_base_patch16_224", 1024, kText1024, 32},
    TimmClipRow{"PE-Core-L-14-336", "vit_pe_core_large_patch14_336", 1024, kText1024, 32},
    TimmClipRow{"PE-Core-bigG-14-448", "vit_pe_core_gigantic_patch14_448", 1280, kTextPeLargest, 72},
};
constexpr std::string_view kDropsPath = "MobileCLIP2-L-14";  // alone among them
/// Models that OpenCLIP and timm call by one name.
struct SharedNameRow {
  std::string_view name;
  int64_t embed_dim;
  TextSizes text;
};
constexpr std::array kSharedNames{
    SharedNameRow{"vit_medium_patch16_gap_256", 512, kText512},
    SharedNameRow{"vit_relpos_medium_patch16_cls_224", 512, kText512},
    SharedNameRow{"swin_base_patch4_window7_224", 640, {640, 10, 12}},
};

struct VitaminClipRow {
  std::string_view name, trunk;
  int64_t embed_dim;
  TextSizes text;
};
constexpr TextSizes kTextVitaminXl{1152, 16, 27};
constexpr std::array kVitaminClips{
    VitaminClipRow{"ViTamin-S", "vitamin_small_224", 384, {384, 6, 12}},
    VitaminClipRow{"ViTamin-S-LTT", "vitamin_small_224", 768, kText768},
    VitaminClipRow{"ViTamin-B", "vitamin_base_224", 512, kText512},
    VitaminClipRow{"ViTamin-B-LTT", "vitamin_base_224", 768, kText768},
    VitaminClipRow{"ViTamin-L", "vitamin_large_224", 768, kText768},
    VitaminClipRow{"ViTamin-L-256", "vitamin_large_256", 768, kText768},
    VitaminClipRow{"ViTamin-L-336", "vitamin_large_336", 768, kText768},
    VitaminClipRow{"ViTamin-L-384", "vitamin_large_384", 768, kText768},
    VitaminClipRow{"ViTamin-L2", "vitamin_large2_224", 1024, kText1024},
    VitaminClipRow{"ViTamin-L2-256", "vitamin_large2_256", 1024, kText1024},
    VitaminClipRow{"ViTamin-L2-336", "vitamin_large2_336", 1024, kText1024},
    VitaminClipRow{"ViTamin-L2-384", "vitamin_large2_384", 1024, kText1024},
    VitaminClipRow{"ViTamin-XL-256", "vitamin_xlarge_256", 1152, kTextVitaminXl},
    VitaminClipRow{"ViTamin-XL-336", "vitamin_xlarge_336", 1152, kTextVitaminXl},
    VitaminClipRow{"ViTamin-XL-384", "vitamin_xlarge_384", 1152, kTextVitaminXl},
};
constexpr std::string_view kVitaminOf256 = "ViTamin-XL-384";  // whose pictures OpenCLIP makes of 256 pixels

struct RobertaClipRow {
  std::string_view name, plain, roberta;
  bool has_quick_gelu = false;
};
constexpr std::array kRobertaClips{
    RobertaClipRow{"roberta-ViT-B-32", "ViT-B-32", "roberta-base", true},
    RobertaClipRow{"xlm-roberta-base-ViT-B-32", "ViT-B-32", "xlm-roberta-base"},
    RobertaClipRow{"xlm-roberta-large-ViT-H-14", "ViT-H-14", "xlm-roberta-large"},
};

struct Mt5ClipRow {
  std::string_view name, plain, encoder;
};
constexpr std::array kMt5Clips{
    Mt5ClipRow{"mt5-base-ViT-B-32", "ViT-B-32", "google/mt5-base"},
    Mt5ClipRow{"mt5-xl-ViT-H-14", "ViT-H-14", "google/mt5-xl"},
};

struct NllbClipRow {
  std::string_view name, encoder;
  std::string_view plain = {}, trunk = {};  ///< Whose image tower it has; or a trunk of timm's, which is as wide as
                                            ///< the shared space.
};
constexpr std::array kNllbClips{
    NllbClipRow{"nllb-clip-base", "facebook/nllb-200-distilled-600M", "ViT-B-32"},
    NllbClipRow{"nllb-clip-large", "facebook/nllb-200-distilled-1.3B", "ViT-H-14"},
    NllbClipRow{"nllb-clip-base-siglip", "facebook/nllb-200-distilled-600M", "", "vit_base_patch16_siglip_384"},
    NllbClipRow{"nllb-clip-large-siglip", "facebook/nllb-200-distilled-1.3B", "", "vit_so400m_patch14_siglip_384"},
};

/// The one captioning model whose text tower is RoBERTa.
constexpr RobertaClipRow kRobertaCoca{"coca_roberta-ViT-B-32", "ViT-B-32", "roberta-base"};

struct CocaRow {
  std::string_view name;
  int64_t embed_dim, image_size, image_layers, image_width, patch_size;
  bool has_attentional_pool;
  TextSizes text;
  int64_t vocab_size;
};
constexpr std::array kCocas{
    CocaRow{"coca_base", 512, 288, 12, 768, 18, false, kText768, 64000},
    CocaRow{"coca_ViT-B-32", 512, 224, 12, 768, 32, true, kText512, 49408},
    CocaRow{"coca_ViT-L-14", 768, 224, 24, 1024, 14, true, kText768, 49408},
};

TextShape text_of(const TextSizes& sizes, int64_t context_length, int64_t vocab_size) {
  return {.context_length = context_length,
          .vocab_size = vocab_size,
          .width = sizes.width,
          .heads = sizes.heads,
          .layers = sizes.layers,
          .mlp_ratio = sizes.mlp_ratio};
}

ClipShape make(const SiglipRow& row) {
  const bool is_second = row.name.find("SigLIP2") != std::string_view::npos,
             is_multilingual = row.name.find("i18n") != std::string_view::npos;
  ClipShape shape{.embed_dim = row.embed_dim,
                  .text = text_of(row.text, row.context_length,
                                  is_second         ? 256000
                                  : is_multilingual ? 250000
                                                    : 32000),
                  .has_custom_text = true,
                  .init_logit_bias = -10.0};
  set_timm_tower(shape.vision, row.trunk, std::string(row.name));
  TextShape& text = shape.text;
  text.norm_epsilon = 1e-6;
  text.has_tanh_gelu = is_second;
  text.is_causal = false;
  text.pool = TextPool::kLast;
  text.projection = row.name == kNoProjection ? TextProjection::kNone : TextProjection::kLinear;
  text.tokens = is_second ? TextTokens::kGemma : TextTokens::kSentencePiece;
  text.cleaning = TextCleaning::kCanonical;
  return shape;
}

ClipShape make(const ConvNextClipRow& row) {
  using Kind = ProjectionShape::Kind;
  ClipShape shape{.embed_dim = row.embed_dim, .text = text_of(row.text, 77, 49408)};
  set_timm_tower(shape.vision, row.trunk, std::string(row.name));
  shape.vision.image_size = row.image_size;
  shape.vision.drop_path = 0.1;
  shape.vision.head = {.kind = row.has_mlp_head ? Kind::kMlp : Kind::kLinear,
                       .hidden = 2 * row.embed_dim,
                       .has_bias = false,
                       .is_relu = false};
  return shape;
}

ClipShape make(const TimmClipRow& row) {
  ClipShape shape{
      .embed_dim = row.embed_dim, .text = text_of(row.text, row.context_length, 49408), .has_custom_text = true};
  set_timm_tower(shape.vision, row.trunk, std::string(row.name));
  shape.vision.timm.has_own_head = true;
  shape.text.is_causal = row.has_causal_text;
  if (row.name == kDropsPath) shape.vision.drop_path = 0.1;
  return shape;
}

ClipShape make(const VitaminClipRow& row) {
  ClipShape shape{.embed_dim = row.embed_dim, .text = text_of(row.text, 77, 49408), .has_custom_text = true};
  set_timm_tower(shape.vision, row.trunk, std::string(row.name));
  if (row.name == kVitaminOf256) shape.vision.image_size = 256;
  shape.vision.drop_path = 0.1;
  shape.vision.head = {.kind = ProjectionShape::Kind::kLinear, .has_bias = false, .is_relu = false};
  return shape;
}

ClipShape make(const SharedNameRow& row) {
  ClipShape shape{.embed_dim = row.embed_dim, .text = text_of(row.text, 77, 49408)};
  set_timm_tower(shape.vision, row.name, std::string(row.name));
  shape.vision.head = {.kind = ProjectionShape::Kind::kLinear, .has_bias = false, .is_relu = false};
  return shape;
}

ClipShape related(const RelatedRow& row, const PlainClip& plain) {
  ClipShape shape = plain(row.plain);
  shape.vision.image_size = row.image_size;
  shape.quick_gelu = row.has_quick_gelu;
  return shape;
}

ClipShape make_clipa(const RelatedRow& row, const PlainClip& plain) {
  ClipShape shape = related(row, plain);
  shape.vision.has_ln_pre = false;
  shape.vision.pool = ImagePool::kMean;
  shape.vision.norms_after_pool = true;
  shape.text.context_length = 32;
  shape.text.vocab_size = 32000;
  shape.text.is_causal = false;
  shape.text.pool = TextPool::kLast;
  shape.text.tokens = TextTokens::kWordPiece;
  return shape;
}

/// The large ones read XLM-V's tokens, the smaller ones mT5's.
ClipShape make_worldwide(const RelatedRow& row, const PlainClip& plain) {
  ClipShape shape = related(row, plain);
  const bool is_small = row.plain == "ViT-L-14";
  shape.text.vocab_size = is_small ? 250100 : 901629;
  shape.text.tokens = is_small ? TextTokens::kMt5 : TextTokens::kXlmRoberta;
  if (is_small) shape.text.cleaning = TextCleaning::kCanonical;
  shape.text.pool = TextPool::kEndId;
  shape.text.eos_id = is_small ? 1 : 2;
  return shape;
}

ClipShape make(const RobertaClipRow& row, const PlainClip& plain) {
  ClipShape shape = plain(row.plain);
  shape.quick_gelu = row.has_quick_gelu;
  shape.has_custom_text = true;
  shape.text = TextShape{.tower = "roberta"};
  TextShape& text = shape.text;
  LOCKSTEP_CHECK(set_roberta(text.roberta, row.roberta), "{}", row.roberta);
  text.pad_id = text.roberta.pad_id;
  text.roberta.pooler = TextPooler::kMean;
  text.encoder_projection = {.hidden = (text.roberta.width + shape.embed_dim) / 2, .has_bias = false, .is_relu = false};
  text.tokens = core::starts_with(row.roberta, "xlm") ? TextTokens::kXlmRoberta : TextTokens::kRoberta;
  return shape;
}

ClipShape make(const Mt5ClipRow& row, const PlainClip& plain) {
  ClipShape shape = plain(row.plain);
  shape.has_custom_text = true;
  shape.text = TextShape{.tower = "t5"};
  TextShape& text = shape.text;
  LOCKSTEP_CHECK(set_t5(text.t5, row.encoder), "{}", row.encoder);
  text.pad_id = text.t5.pad_id;
  text.encoder_projection = {.hidden = (text.t5.width + shape.embed_dim) / 2, .has_bias = false, .is_relu = false};
  text.tokens = TextTokens::kMt5;
  return shape;
}

ClipShape make(const NllbClipRow& row, const PlainClip& plain) {
  ClipShape shape;
  if (row.trunk.empty()) {
    shape = plain(row.plain);
  } else {
    set_timm_tower(shape.vision, row.trunk, std::string(row.name));
    shape.embed_dim = shape.vision.width;
    shape.init_logit_bias = -10.0;
  }
  shape.has_custom_text = true;
  shape.text = TextShape{.tower = "m2m_100"};
  TextShape& text = shape.text;
  LOCKSTEP_CHECK(set_m2m100(text.m2m100, row.encoder), "{}", row.encoder);
  text.pad_id = text.m2m100.pad_id;
  text.encoder_projection = {.kind = ProjectionShape::Kind::kLinear, .has_bias = false, .is_relu = false};
  text.tokens = TextTokens::kNllb;
  return shape;
}

ClipShape make_roberta_coca(const PlainClip& plain) {
  ClipShape shape = make(kRobertaCoca, plain);
  shape.text.encoder_projection.kind = ProjectionShape::Kind::kLinear;
  shape.captions = CaptionShape{.context_length = 76, .width = shape.text.roberta.width, .heads = 8, .layers = 12};
  return shape;
}

ClipShape make(const CocaRow& row) {
  constexpr int64_t kTokens = 76;  // with the class token 77
  ClipShape shape{.embed_dim = row.embed_dim,
                  .vision = {.image_size = row.image_size,
                             .layers = row.image_layers,
                             .width = row.image_width,
                             .patch_size = row.patch_size,
                             .has_attentional_pool = row.has_attentional_pool},
                  .text = text_of(row.text, kTokens, row.vocab_size),
                  .has_custom_text = true};
  shape.text.has_class_token = true;
  shape.captions = CaptionShape{.context_length = kTokens,
                                .vocab_size = row.vocab_size,
                                .width = row.text.width,
                                .heads = row.text.heads,
                                .layers = row.text.layers};
  return shape;
}

/// visit(name, make) for every model, until it returns true.
template <class Visit> void visit_families(const PlainClip& plain, const Visit& visit) {
  const auto any = [&](const auto& rows, const auto& make_row) {
    for (const auto& row : rows)
      if (visit(row.name, [&] { return make_row(row); })) return true;
    return false;
  };
  if (any(kSiglips, [](const SiglipRow& row) { return make(row); })) return;
  if (any(kClipas, [&](const RelatedRow& row) { return make_clipa(row, plain); })) return;
  if (any(kWorldwides, [&](const RelatedRow& row) { return make_worldwide(row, plain); })) return;
  if (any(kRobertaClips, [&](const RobertaClipRow& row) { return make(row, plain); })) return;
  if (any(kMt5Clips, [&](const Mt5ClipRow& row) { return make(row, plain); })) return;
  if (any(kNllbClips, [&](const NllbClipRow& row) { return make(row, plain); })) return;
  if (any(kConvNextClips, [](const ConvNextClipRow& row) { return make(row); })) return;
  if (any(kTimmClips, [](const TimmClipRow& row) { return make(row); })) return;
  if (any(kVitaminClips, [](const VitaminClipRow& row) { return make(row); })) return;
  if (any(kSharedNames, [](const SharedNameRow& row) { return make(row); })) return;
  if (visit(kRobertaCoca.name, [&] { return make_roberta_coca(plain); })) return;
  any(kCocas, [](const CocaRow& row) { return make(row); });
}

}  // namespace

std::vector<std::string> clip_family_names() {
  std::vector<std::string> names;
  visit_families({}, [&](std::string_view name, const auto&) {
    names.emplace_back(name);
    return false;
  });
  return names;
}

std::optional<ClipShape> find_clip_of_family(std::string_view wanted, const PlainClip& plain) {
  std::optional<ClipShape> found;
  visit_families(plain, [&](std::string_view name, const auto& make_shape) {
    if (name == wanted) found = make_shape();
    return found.has_value();
  });
  if (found) found->name = std::string(wanted);
  return found;
}

}  // namespace lockstep::config
