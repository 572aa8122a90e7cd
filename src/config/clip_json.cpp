// Reads OpenCLIP's model configuration format (the JSON files of its model_configs folder).
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "config/clip_shape.h"
#include "config/image_towers.h"
#include "config/json_section.h"
#include "config/text_towers.h"
#include "config/timm_towers.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

using core::Json;

constexpr JsonFormat kClipFormat{"clip", "OpenCLIP 3.3.0 has no such key either"};
constexpr std::string_view kBlock = "the towers have plain pre-norm blocks";
constexpr const char* kSizesHint =
    "give the sizes of another of this kind as \"hf_config\", under the names of its config.json; other kinds of "
    "encoders are not here";

/// norm_kwargs: {"eps": number}.
void read_norm(JsonSection& section, double& epsilon) {
  const Json* found = section.find("norm_kwargs");
  if (found == nullptr || (found->is_object() && found->empty())) return;
  const bool is_epsilon =
      found->is_object() && found->size() == 1 && found->contains("eps") && (*found)["eps"].is_number();
  if (!is_epsilon || (*found)["eps"].get<double>() <= 0.0)
    section.fail("norm_kwargs", "{\"eps\": a number above 0}", *found);
  epsilon = (*found)["eps"].get<double>();
}

/// act_kwargs: {"approximate": "tanh"}, or "none".
void read_activation(JsonSection& section, bool& has_tanh_gelu) {
  const Json* found = section.find("act_kwargs");
  if (found == nullptr || (found->is_object() && found->empty())) return;
  const bool is_known = found->is_object() && found->size() == 1 && found->contains("approximate") &&
                        ((*found)["approximate"] == "tanh" || (*found)["approximate"] == "none");
  if (!is_known) section.fail("act_kwargs", "{\"approximate\": \"tanh\"} or {\"approximate\": \"none\"}", *found);
  has_tanh_gelu = (*found)["approximate"] == "tanh";
}

/// The value of one of these texts.
template <class Value>
void read_choice(JsonSection& section, const char* key,
                 std::initializer_list<std::pair<std::string_view, Value>> values, Value& value) {
  const Json* found = section.find(key);
  if (found == nullptr) return;
  std::vector<std::string> names;
  for (const auto& [name, meaning] : values) {
    if (found->is_string() && *found == std::string(name)) return void(value = meaning);
    names.push_back(fmt::format("\"{}\"", name));
  }
  section.fail(key, core::join_or(names), *found);
}

void refuse_custom_blocks(JsonSection& section) {
  section.only("block_type", "default", kBlock);
  for (const char* key : {"qk_norm", "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc"})
    section.only(key, false, kBlock);
}

void read_layers(JsonSection& section, VisionShape& vision) {
  const Json* layers = section.find("layers");
  if (layers == nullptr) return;
  if (!layers->is_array()) return section.read("layers", vision.layers);
  vision.layers = 0;
  for (const Json& entry : *layers) {
    if (!entry.is_number_integer())
      section.fail("layers", "an integer (ViT) or four integers (ModifiedResNet)", *layers);
    vision.stages.push_back(section.integer("layers", entry));
  }
  if (vision.stages.size() != 4 && vision.stages.size() != 5)
    section.fail("layers", "an integer (ViT) or four integers (ModifiedResNet; FastViT: four or five)", *layers);
}

void read_image_size(JsonSection& section, VisionShape& vision) {
  const Json* size = section.find("image_size");
  if (size == nullptr || !size->is_array()) return section.read("image_size", vision.image_size);
  const bool square = size->size() == 2 && (*size)[0].is_number_integer() && (*size)[0] == (*size)[1];
  if (!square) section.fail("image_size", "one integer (square images)", *size);
  vision.image_size = section.integer("image_size", (*size)[0]);
}

/// The kind that "tower", a key of ours, names, or else the first that the other keys mean.
void choose_tower(JsonSection& section, VisionShape& vision) {
  std::string wanted;
  section.read("tower", wanted);
  std::vector<std::string> names;
  std::optional<std::string_view> found;
  for_each_tower([&](auto tower) {
    names.emplace_back(tower.kName);
    if (!found && (wanted.empty() ? tower.is_meant(vision) : wanted == tower.kName)) found = tower.kName;
  });
  if (!found) section.fail("tower", core::join_or(names), wanted);
  vision.tower = *found;
}

void read_pool(JsonSection& section, VisionShape& vision) {
  read_choice(section, "pool_type", {{"tok", ImagePool::kClassToken}, {"avg", ImagePool::kMean}}, vision.pool);
  section.read("final_ln_after_pool", vision.norms_after_pool);
  section.read("attentional_pool", vision.has_attentional_pool);
  section.read("attn_pooler_queries", vision.pooler_queries);
  section.read("attn_pooler_heads", vision.pooler_heads);
}

bool is_timm_vit(const VisionShape& vision) {
  return vision.tower == TimmVitTower::kName || vision.tower == TimmStemVitTower::kName ||
         vision.tower == VitaminTower::kName;
}

/// What stands behind a tower of timm. An empty "timm_pool" is the tower's own.
void read_timm_head(JsonSection& section, VisionShape& vision, int64_t embed_dim) {
  std::string pool;
  section.read("timm_pool", pool);
  if (pool == "map") vision.pool = ImagePool::kAttention;
  if (pool == "avg") vision.pool = ImagePool::kMean;
  if (pool == "token") vision.pool = ImagePool::kClassToken;
  if (!pool.empty() && pool != "map" && pool != "avg" && pool != "token")
    section.fail("timm_pool", "\"map\", \"avg\", \"token\" or \"\"", pool);
  using Kind = ProjectionShape::Kind;
  vision.head = {.kind = Kind::kLinear, .hidden = 2 * embed_dim, .has_bias = false, .is_relu = false};
  read_choice(section, "timm_proj", {{"linear", Kind::kLinear}, {"mlp", Kind::kMlp}, {"none", Kind::kNone}},
              vision.head.kind);
  section.read("timm_proj_bias", vision.head.has_bias);
  // Without "timm_proj" (null) the tower's own classifier is the head.
  if (vision.tower == Eva02Tower::kName) {
    section.only("timm_proj", nullptr, "an EVA02 tower ends in its own linear head");
    vision.timm.has_own_head = true;
  }
  if (is_timm_vit(vision) || vision.tower == FastVitTower::kName)
    vision.timm.has_own_head = section.is_null("timm_proj");
  if (vision.timm.has_own_head) vision.head.kind = Kind::kNone;
  section.only("timm_drop", 0.0, "nothing is dropped in front of the last layer");
  section.read("timm_drop_path", vision.drop_path);
}

/// Two integers.
void read_pair(JsonSection& section, const char* key, std::array<int64_t, 2>& values) {
  const Json* found = section.find(key);
  if (found == nullptr) return;
  if (!found->is_array() || found->size() != 2 || !(*found)[0].is_number_integer() || !(*found)[1].is_number_integer())
    section.fail(key, "two integers", *found);
  values = {section.integer(key, (*found)[0]), section.integer(key, (*found)[1])};
}

/// What a key of ours, "timm_config", says of a vision transformer of timm, under the names of timm's arguments.
void read_timm_config(const Json* object, const std::string& where, VisionShape& vision) {
  using Bias = TimmVitShape::QkvBias;
  vision.has_ln_pre = vision.has_class_token = false;
  vision.timm.pool = vision.pool;
  if (object == nullptr) return;
  JsonSection section(*object, where, "vision_cfg.timm_config", kClipFormat);
  section.read("class_token", vision.has_class_token);
  section.read("pre_norm", vision.has_ln_pre);
  read_choice(section, "qkv_bias", {{"all", Bias::kAll}, {"not_keys", Bias::kNotKeys}, {"none", Bias::kNone}},
              vision.timm.qkv_bias);
  section.read("use_post_norm", vision.timm.norms_follow);
  bool has_no_class_position = false;
  section.read("no_embed_class", has_no_class_position);
  vision.timm.has_class_position = !has_no_class_position;
  section.only("pos_embed", "none", "position embeddings are learned, or there are none");
  vision.timm.has_positions = section.find("pos_embed") == nullptr;
  section.read("has_gated_mlp", vision.timm.has_gated_mlp);
  read_pair(section, "embed_dim", vision.timm.stem_widths);
  read_pair(section, "depths", vision.timm.stem_depths);
  section.read("begins_as_eva", vision.timm.begins_as_eva);
  section.read("rel_pos_dim", vision.timm.position_mlp_width);
  section.read("rel_pos_drop", vision.timm.position_dropout);
  section.read("attn_pool_num_heads", vision.timm.pool_heads);
  section.read("attn_pool_mlp_ratio", vision.timm.pool_mlp_ratio);
  RotaryCells rotary{.reference_cells = 0, .columns_first = true};
  section.read("ref_feat_shape", rotary.reference_cells);
  section.read("rope_grid_offset", rotary.offset);
  if (rotary.reference_cells > 0) vision.timm.rotary = rotary;
  section.finish();
}

VisionShape read_vision(const Json& object, const std::string& where, int64_t embed_dim) {
  JsonSection section(object, where, "vision_cfg", kClipFormat);
  VisionShape vision;
  std::string timm_name;
  section.read("timm_model_name", timm_name);
  section.find("timm_model_pretrained");  // nothing is downloaded
  if (!timm_name.empty()) set_timm_tower(vision, timm_name, where);
  read_layers(section, vision);
  read_image_size(section, vision);
  section.read("width", vision.width);
  section.read("head_width", vision.head_width);
  section.read("mlp_ratio", vision.mlp_ratio);
  section.read("patch_size", vision.patch_size);
  section.read("patch_dropout", vision.patch_dropout);
  section.read("ls_init_value", vision.layer_scale);
  bool has_no_ln_pre = !vision.has_ln_pre;
  section.read("no_ln_pre", has_no_ln_pre);
  vision.has_ln_pre = !has_no_ln_pre;
  read_choice(section, "pos_embed_type", {{"learnable", false}, {"sin_cos_2d", true}}, vision.has_fixed_positions);
  read_pool(section, vision);
  read_norm(section, vision.norm_epsilon);
  read_activation(section, vision.has_tanh_gelu);
  section.find("output_tokens");  // what a decoder reads is there where it is asked for
  refuse_custom_blocks(section);
  if (timm_name.empty())
    choose_tower(section, vision);
  else
    section.find("tower");
  if (vision.tower == SwinTower::kName) section.read("window_size", vision.window);
  if (vision.tower == ConvNextTower::kName || vision.tower == SwinTower::kName || vision.tower == FastVitTower::kName) {
    vision.has_class_token = false;
    vision.pool = ImagePool::kMean;
  }
  if (vision.tower == ConvNextTower::kName) vision.layer_scale = vision.layer_scale.value_or(kConvNextLayerScale);
  if (vision.tower == FastVitTower::kName) vision.layer_scale = vision.layer_scale.value_or(kFastVitLayerScale);
  read_timm_head(section, vision, embed_dim);
  if (is_timm_vit(vision) && timm_name.empty()) read_timm_config(section.find("timm_config"), where, vision);
  section.finish();
  return vision;
}

/// Which tokens a tokenizer of the Hugging Face Hub makes.
TextTokens tokens_of(JsonSection& section, const Json& tokenizer) {
  const std::string name = tokenizer.is_string() ? tokenizer.get<std::string>() : "";
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("SigLIP2")) return TextTokens::kGemma;
  if (has("SigLIP")) return TextTokens::kSentencePiece;
  if (has("mt5")) return TextTokens::kMt5;
  if (has("xlm-")) return TextTokens::kXlmRoberta;
  if (has("roberta")) return TextTokens::kRoberta;
  if (has("bert-")) return TextTokens::kWordPiece;
  if (has("nllb")) return TextTokens::kNllb;
  section.fail("hf_tokenizer_name", "a tokenizer of RoBERTa, XLM-RoBERTa, SigLIP, SigLIP2, mT5, NLLB or BERT",
               tokenizer,
               "its name says which (roberta, xlm-, SigLIP, SigLIP2, mt5, nllb, bert- in it); without the key texts "
               "are cut by CLIP's");
}

/// One of the arguments of OpenCLIP's tokenizers: whether it says something that is done here.
bool read_tokenizer_argument(const std::string& key, const Json& value, TextShape& text) {
  if (key == "clean" && value == "lower") text.cleaning = TextCleaning::kLower;
  if (key == "clean" && value == "whitespace") text.cleaning = TextCleaning::kWhiteSpace;
  if (key == "clean" && value == "canonicalize") text.cleaning = TextCleaning::kCanonical;
  if (key == "clean") return text.cleaning.has_value();
  if (key == "language" && value.is_string() && text.tokens == TextTokens::kNllb) {
    text.language = value.get<std::string>();
    return true;
  }
  // What follows may only say what is done anyway. Python takes "", [] and null alike.
  if (key == "reduction_mask" || key == "additional_special_tokens")
    return text.tokens == TextTokens::kClip && (value.is_null() || value.empty() || value == "");
  return key == "strip_sep_token" && text.tokens != TextTokens::kClip &&
         value == (text.tokens == TextTokens::kWordPiece);
}

/// What to do about an argument that read_tokenizer_argument does not know.
std::string argument_hint(const std::string& key) {
  if (key == "reduction_mask") return "texts that are too long are cut at their end: drop it";
  if (key == "context_length") return "it belongs into text_cfg itself: \"context_length\"";
  return "drop it: clean and, of NLLB's tokenizer, language are all that a model can choose here";
}

void read_tokenizer(JsonSection& section, TextShape& text) {
  if (const Json* tokenizer = section.find("hf_tokenizer_name")) text.tokens = tokens_of(section, *tokenizer);
  section.only("tokenizer_mode", nullptr, "texts are tokenized as the tokenizer's files say");
  const Json* kwargs = section.find("tokenizer_kwargs");
  if (kwargs != nullptr && !kwargs->is_object()) section.fail("tokenizer_kwargs", "an object", *kwargs);
  const bool strips = kwargs != nullptr && kwargs->contains("strip_sep_token") && kwargs->at("strip_sep_token") == true;
  if (text.tokens == TextTokens::kWordPiece && !strips)
    section.fail("tokenizer_kwargs", "{\"strip_sep_token\": true}, as CLIPA has it", kwargs ? *kwargs : Json());
  if (kwargs == nullptr) return;
  for (const auto& [key, value] : kwargs->items())
    if (!read_tokenizer_argument(key, value, text))
      section.fail(
          "tokenizer_kwargs",
          "{\"clean\": \"lower\", \"whitespace\" or \"canonicalize\"}, of BERT's {\"strip_sep_token\": true}, of "
          "NLLB's {\"language\": \"eng_Latn\"} or another",
          *kwargs, argument_hint(key));
}

/// Sizes that a key of ours, "hf_config", gives under the names of Hugging Face's config.json.
void read_roberta_sizes(const Json& object, const std::string& where, RobertaShape& roberta) {
  JsonSection section(object, where, "text_cfg.hf_config", kClipFormat);
  section.read("vocab_size", roberta.vocab_size);
  section.read("hidden_size", roberta.width);
  section.read("num_hidden_layers", roberta.layers);
  section.read("num_attention_heads", roberta.heads);
  section.read("intermediate_size", roberta.mlp_width);
  section.read("max_position_embeddings", roberta.max_positions);
  section.read("type_vocab_size", roberta.token_types);
  section.read("pad_token_id", roberta.pad_id);
  section.read("hidden_dropout_prob", roberta.dropout);
  section.read("attention_probs_dropout_prob", roberta.attention_dropout);
  section.finish();
}

/// The same of an encoder of mT5.
void read_t5_sizes(const Json& object, const std::string& where, T5Shape& t5) {
  JsonSection section(object, where, "text_cfg.hf_config", kClipFormat);
  section.read("vocab_size", t5.vocab_size);
  section.read("d_model", t5.width);
  section.read("d_kv", t5.head_width);
  section.read("d_ff", t5.mlp_width);
  section.read("num_layers", t5.layers);
  section.read("num_heads", t5.heads);
  section.read("relative_attention_num_buckets", t5.position_buckets);
  section.read("relative_attention_max_distance", t5.farthest_position);
  section.read("layer_norm_epsilon", t5.norm_epsilon);
  section.read("dropout_rate", t5.dropout);
  section.read("pad_token_id", t5.pad_id);
  section.only("feed_forward_proj", "gated-gelu", "feed-forward layers are those of mT5");
  section.finish();
}

/// The same of one of NLLB's.
void read_m2m100_sizes(const Json& object, const std::string& where, M2m100Shape& m2m100) {
  JsonSection section(object, where, "text_cfg.hf_config", kClipFormat);
  section.read("vocab_size", m2m100.vocab_size);
  section.read("d_model", m2m100.width);
  section.read("encoder_layers", m2m100.layers);
  section.read("encoder_attention_heads", m2m100.heads);
  section.read("encoder_ffn_dim", m2m100.mlp_width);
  section.read("dropout", m2m100.dropout);
  section.read("attention_dropout", m2m100.attention_dropout);
  section.read("pad_token_id", m2m100.pad_id);
  section.only("encoder_layerdrop", 0.0, "no layer is left out, as NLLB has it");
  section.only("activation_dropout", 0.0, "nothing is dropped behind the activation, as NLLB has it");
  section.only("scale_embedding", true, "embeddings are scaled, as NLLB has them");
  section.finish();
}

/// `class_pooler`: what "cls_pooler" means to the encoder.
TextPooler read_pooler(JsonSection& section, TextPooler class_pooler) {
  TextPooler pooler = TextPooler::kMean;
  read_choice(section, "hf_pooler_type",
              {{"mean_pooler", TextPooler::kMean},
               {"max_pooler", TextPooler::kMax},
               {"cls_pooler", class_pooler},
               {"cls_last_hidden_state_pooler", TextPooler::kClassHidden}},
              pooler);
  return pooler;
}

void read_roberta(JsonSection& section, const std::string& name, const std::string& where, TextShape& text) {
  text.tower = "roberta";
  text.tokens = name.find("xlm-") != std::string::npos ? TextTokens::kXlmRoberta : TextTokens::kRoberta;
  const Json* sizes = section.find("hf_config");
  if (!set_roberta(text.roberta, name) && sizes == nullptr)
    section.fail("hf_model_name",
                 "roberta-base, roberta-large, xlm-roberta-base, xlm-roberta-large, google/mt5-base or "
                 "facebook/nllb-200-distilled-600M",
                 name, kSizesHint);
  if (sizes != nullptr) read_roberta_sizes(*sizes, where, text.roberta);
  text.roberta.pooler = read_pooler(section, TextPooler::kClass);
  text.pad_id = text.roberta.pad_id;
}

/// An encoder of an encoder-decoder has no pooler of its own, so that "cls_pooler" takes the first token as it is.
void read_t5(JsonSection& section, const std::string& name, const std::string& where, TextShape& text) {
  text.tower = T5TextTower::kName;
  text.tokens = TextTokens::kMt5;
  const Json* sizes = section.find("hf_config");
  if (!set_t5(text.t5, name) && sizes == nullptr)
    section.fail("hf_model_name", "google/mt5-small, -base, -large, -xl or -xxl", name, kSizesHint);
  if (sizes != nullptr) read_t5_sizes(*sizes, where, text.t5);
  text.t5.pooler = read_pooler(section, TextPooler::kClassHidden);
  text.pad_id = text.t5.pad_id;
}

void read_m2m100(JsonSection& section, const std::string& name, const std::string& where, TextShape& text) {
  text.tower = M2m100TextTower::kName;
  text.tokens = TextTokens::kNllb;
  const Json* sizes = section.find("hf_config");
  if (!set_m2m100(text.m2m100, name) && sizes == nullptr)
    section.fail("hf_model_name", "facebook/nllb-200-distilled-600M or facebook/nllb-200-distilled-1.3B", name,
                 kSizesHint);
  if (sizes != nullptr) read_m2m100_sizes(*sizes, where, text.m2m100);
  text.m2m100.pooler = read_pooler(section, TextPooler::kClassHidden);
  text.pad_id = text.m2m100.pad_id;
}

void read_encoder(JsonSection& section, const std::string& where, int64_t embed_dim, TextShape& text) {
  std::string name;
  section.read("hf_model_name", name);
  if (name.empty()) {
    for (const char* key : {"hf_proj_type", "hf_pooler_type", "hf_config"})
      section.only(key, nullptr, "it belongs to hf_model_name");
    return;
  }
  if (name.find("mt5") != std::string::npos)
    read_t5(section, name, where, text);
  else if (name.find("nllb") != std::string::npos)
    read_m2m100(section, name, where, text);
  else
    read_roberta(section, name, where, text);
  using Kind = ProjectionShape::Kind;
  text.encoder_projection = {.hidden = (text.feature_width() + embed_dim) / 2, .has_bias = false, .is_relu = false};
  read_choice(section, "hf_proj_type", {{"mlp", Kind::kMlp}, {"linear", Kind::kLinear}}, text.encoder_projection.kind);
}

TextShape read_text(const Json& object, const std::string& where, int64_t embed_dim) {
  JsonSection section(object, where, "text_cfg", kClipFormat);
  TextShape text;
  section.find("hf_model_pretrained");  // nothing is downloaded
  read_encoder(section, where, embed_dim, text);
  section.read("context_length", text.context_length);
  section.read("vocab_size", text.vocab_size);
  section.read("width", text.width);
  section.read("heads", text.heads);
  section.read("layers", text.layers);
  section.read("mlp_ratio", text.mlp_ratio);
  section.read("ls_init_value", text.layer_scale);
  read_tokenizer(section, text);
  section.read("embed_cls", text.has_class_token);
  section.read("pad_id", text.pad_id);
  section.read("eos_id", text.eos_id);
  bool has_no_mask = false;
  section.read("no_causal_mask", has_no_mask);
  text.is_causal = !has_no_mask;
  read_choice(section, "pool_type",
              {{"argmax", TextPool::kLargestId},
               {"eos", TextPool::kEndId},
               {"first", TextPool::kFirst},
               {"last", TextPool::kLast}},
              text.pool);
  bool has_bias = false;
  section.read("proj_bias", has_bias);
  if (has_bias) text.projection = TextProjection::kLinear;
  read_choice(section, "proj_type", {{"linear", text.projection}, {"none", TextProjection::kNone}}, text.projection);
  read_norm(section, text.norm_epsilon);
  read_activation(section, text.has_tanh_gelu);
  for (const char* key : {"output_tokens", "final_ln_after_pool"})
    section.find(key);  // the first is there where it is asked for, the second means nothing to OpenCLIP's text tower
  refuse_custom_blocks(section);
  section.finish();
  return text;
}

/// CoCa's decoder, of which OpenCLIP reads these keys. It has as many tokens as text_cfg's vocab_size says, also beside
/// an encoder of Hugging Face, which has its own number.
CaptionShape read_captions(const Json& object, const std::string& where, int64_t vocab_size) {
  JsonSection section(object, where, "multimodal_cfg", kClipFormat);
  CaptionShape captions;
  section.read("context_length", captions.context_length);
  section.read("width", captions.width);
  section.read("heads", captions.heads);
  section.read("layers", captions.layers);
  section.read("ls_init_value", captions.layer_scale);
  for (const char* key : {"vocab_size", "mlp_ratio", "dim_head", "n_queries", "attn_pooler_heads"})
    section.find(key);  // OpenCLIP's decoder does not read them either
  section.finish();
  captions.vocab_size = vocab_size;
  return captions;
}

}  // namespace

ClipShape parse_clip_shape(std::string_view json, std::string_view where) {
  const Json root = core::parse_json(json, where);
  const std::string place(where);
  JsonSection section(root, place, "", kClipFormat);
  ClipShape shape;
  shape.name = place;
  const Json *vision = section.find("vision_cfg"), *text = section.find("text_cfg");
  if (section.find("embed_dim") == nullptr || vision == nullptr || text == nullptr)
    throw UsageError(
        fmt::format("clip: '{}': a model configuration needs 'embed_dim', 'vision_cfg' and 'text_cfg'", where),
        "the format is that of OpenCLIP's model_configs/*.json");
  section.read("embed_dim", shape.embed_dim);
  section.read("quick_gelu", shape.quick_gelu);
  section.read("init_logit_scale", shape.init_logit_scale);
  section.read("init_logit_bias", shape.init_logit_bias);
  section.read("nonscalar_logit_scale", shape.nonscalar_logit_scale);
  section.read("custom_text", shape.has_custom_text);
  section.find("model_id");  // a label
  shape.vision = read_vision(*vision, place, shape.embed_dim);
  shape.text = read_text(*text, place, shape.embed_dim);
  shape.has_custom_text = shape.has_custom_text || shape.text.is_encoder();
  if (const Json* captions = section.find("multimodal_cfg"))
    shape.captions = read_captions(*captions, place, shape.text.vocab_size);
  section.finish();
  check_clip_shape(shape);
  return shape;
}

}  // namespace lockstep::config
