// Reads OpenCLIP's model configuration format (the JSON files of its model_configs folder).
#include "config/clip_shape.h"
#include "config/image_towers.h"
#include "config/json_section.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

using core::Json;

constexpr JsonFormat kClipFormat{"clip", "OpenCLIP 3.3.0 has no such key either"};
constexpr std::string_view kTimm = "it names a timm image tower";
constexpr std::string_view kHuggingFace = "it names a Hugging Face text tower";
constexpr std::string_view kTokenizer = "texts are read with CLIP's own tokenizer";
constexpr std::string_view kPooling = "the towers pool at the class token and at the end-of-text token";
constexpr std::string_view kBlock = "the towers have plain pre-norm blocks";

void refuse_custom_blocks(JsonSection& section) {
  section.only("act_kwargs", nullptr, "the activation is the exact GELU or, with quick_gelu, x * sigmoid(1.702 x)");
  section.only("norm_kwargs", nullptr, "layer norms have an epsilon of 1e-5");
  section.only("block_type", "default", kBlock);
  for (const char* key : {"qk_norm", "scaled_cosine_attn", "scale_heads", "scale_attn_inner", "scale_attn", "scale_fc"})
    section.only(key, false, kBlock);
  section.only("output_tokens", false, "the towers return pooled features");
  section.only("final_ln_after_pool", false, kPooling);
}

void read_layers(JsonSection& section, VisionShape& vision) {
  const Json* layers = section.find("layers");
  if (layers == nullptr) return;
  if (!layers->is_array()) return section.read("layers", vision.layers);
  vision.layers = 0;
  for (const Json& entry : *layers) {
    if (!entry.is_number_integer())
      section.fail("layers", "an integer (ViT) or four integers (ModifiedResNet)", *layers);
    vision.stages.push_back(entry.get<int64_t>());
  }
  if (vision.stages.size() != 4) section.fail("layers", "an integer (ViT) or four integers (ModifiedResNet)", *layers);
}

void read_image_size(JsonSection& section, VisionShape& vision) {
  const Json* size = section.find("image_size");
  if (size == nullptr || !size->is_array()) return section.read("image_size", vision.image_size);
  const bool square = size->size() == 2 && (*size)[0].is_number_integer() && (*size)[0] == (*size)[1];
  if (!square) section.fail("image_size", "one integer (square images)", *size);
  vision.image_size = (*size)[0].get<int64_t>();
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

VisionShape read_vision(const Json& object, const std::string& where) {
  JsonSection section(object, where, "vision_cfg", kClipFormat);
  VisionShape vision;
  section.only("timm_model_name", nullptr, kTimm);
  for (const char* key :
       {"timm_model_pretrained", "timm_pool", "timm_proj", "timm_proj_bias", "timm_drop", "timm_drop_path"})
    section.find(key);
  read_layers(section, vision);
  read_image_size(section, vision);
  section.read("width", vision.width);
  section.read("head_width", vision.head_width);
  section.read("mlp_ratio", vision.mlp_ratio);
  section.read("patch_size", vision.patch_size);
  section.read("patch_dropout", vision.patch_dropout);
  section.read("ls_init_value", vision.layer_scale);
  section.only("attentional_pool", false, kPooling);
  for (const char* key : {"attn_pooler_queries", "attn_pooler_heads"})
    section.find(key);  // mean nothing without attentional_pool
  section.only("no_ln_pre", false, "the image tower has a layer norm in front of its blocks");
  section.only("pos_embed_type", "learnable", "position embeddings are learned");
  section.only("pool_type", "tok", kPooling);
  refuse_custom_blocks(section);
  choose_tower(section, vision);
  section.finish();
  return vision;
}

TextShape read_text(const Json& object, const std::string& where) {
  JsonSection section(object, where, "text_cfg", kClipFormat);
  TextShape text;
  for (const char* key : {"hf_model_name", "hf_model_pretrained", "hf_proj_type", "hf_pooler_type"})
    section.only(key, nullptr, kHuggingFace);
  for (const char* key : {"hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs"})
    section.only(key, nullptr, kTokenizer);
  section.read("context_length", text.context_length);
  section.read("vocab_size", text.vocab_size);
  section.read("width", text.width);
  section.read("heads", text.heads);
  section.read("layers", text.layers);
  section.read("mlp_ratio", text.mlp_ratio);
  section.read("ls_init_value", text.layer_scale);
  section.only("embed_cls", false, kPooling);
  section.only("pad_id", 0, "texts are padded with 0");
  section.find("eos_id");  // means nothing with argmax pooling
  section.only("no_causal_mask", false, "the text tower is causal");
  section.only("pool_type", "argmax", kPooling);
  section.only("proj_bias", false, "the text projection has no bias");
  section.only("proj_type", "linear", "the text tower ends in a projection");
  refuse_custom_blocks(section);
  section.finish();
  return text;
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
  section.only("custom_text", false, "parameters are named as in OpenCLIP's native CLIP class");
  section.only("multimodal_cfg", nullptr, "it describes a captioning model (CoCa)");
  section.find("model_id");  // a label
  shape.vision = read_vision(*vision, place);
  shape.text = read_text(*text, place);
  section.finish();
  check_clip_shape(shape);
  return shape;
}

}  // namespace lockstep::config
