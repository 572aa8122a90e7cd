// Reads model configurations in the form of LAION's CLAP and of OpenCLIP's development version (their model_configs
// folders).
#include "config/clap_shape.h"
#include "config/json_section.h"
#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

using core::Json;

constexpr JsonFormat kClapFormat{"clap", "neither LAION's nor OpenCLIP's configurations have such a key"};

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& hint) {
  throw UsageError(fmt::format("clap: '{}': {}", where, what), hint);
}

/// Name of the activation of a two-layer projection.
bool reads_relu(JsonSection& section, const std::string& key, bool is_relu) {
  std::string name = is_relu ? "relu" : "gelu";
  section.read(key, name);
  if (name != "relu" && name != "gelu") section.fail(key, "\"relu\" or \"gelu\"", Json(name));
  return name == "relu";
}

void read_audio_model(JsonSection& section, const std::string& where, AudioShape& audio) {
  std::string type = "HTSAT", size = "tiny";
  section.read("model_type", type);
  section.read("model_name", size);
  if (type != "HTSAT")
    refuse(where, fmt::format("the audio tower '{}' is not supported", type),
           "the audio tower must be HTSAT (\"model_type\": \"HTSAT\")");
  if (!set_htsat(audio, size)) section.fail("model_name", "\"tiny\", \"base\" or \"large\"", Json(size));
}

void read_sizes(JsonSection& section, const std::string& key, std::vector<int64_t>& sizes) {
  const Json* value = section.find(key);
  if (value == nullptr) return;
  std::vector<int64_t> read;
  for (const Json& size : value->is_array() ? *value : Json::array({nullptr})) {
    if (!size.is_number_integer()) section.fail(key, "a list of whole numbers", *value);
    read.push_back(section.integer(key, size));
  }
  sizes = read;
}

/// Sizes that no named HTSAT has, under the names of HTSAT's own constructor. Neither LAION nor OpenCLIP has such a
/// section.
void read_htsat(const Json& object, const std::string& where, AudioShape& audio) {
  JsonSection section(object, where, "audio_cfg.htsat_config", kClapFormat);
  section.read("embed_dim", audio.width);
  read_sizes(section, "depths", audio.depths);
  read_sizes(section, "num_heads", audio.heads);
  section.read("spec_size", audio.image_size);
  section.read("patch_size", audio.patch_size);
  section.read("window_size", audio.window);
  section.read("mlp_ratio", audio.mlp_ratio);
  section.read("drop_path_rate", audio.drop_path);
  section.read("spec_augment", audio.spec_augment);
  section.finish();
}

AudioShape read_audio(const Json& object, const std::string& where, bool is_openclip, ProjectionShape& projection) {
  JsonSection section(object, where, "audio_cfg", kClapFormat);
  AudioShape audio;
  read_audio_model(section, where, audio);
  section.read("sample_rate", audio.sample_rate);
  section.read("clip_samples", audio.clip_samples);
  section.read("window_size", audio.fft_size);
  section.read("hop_size", audio.hop_samples);
  section.read("mel_bins", audio.mel_bins);
  section.read("fmin", audio.low_hz);
  section.read("fmax", audio.high_hz);
  section.read("class_num", audio.num_classes);
  if (const Json* sizes = section.find("htsat_config")) read_htsat(*sizes, where, audio);
  section.find("audio_length");  // nothing in the model depends on it
  section.find("pretrained");
  section.find("fusion_type");  // means nothing without fusion
  section.only("enable_fusion", false, "fusion of long clips is not supported");
  section.only("pre_norm", false, "features are normalised after the projection");
  section.only("training_head", false, "features are normalised after the projection");
  if (is_openclip) projection.is_relu = reads_relu(section, "proj_act", /*is_relu=*/false);
  section.finish();
  return audio;
}

TextPooler read_pooler(JsonSection& section) {
  std::string name = "mean_pooler";
  section.read("hf_pooler_type", name);
  if (name == "cls_pooler") return TextPooler::kClass;
  if (name == "mean_pooler") return TextPooler::kMean;
  if (name == "max_pooler") return TextPooler::kMax;
  if (name == "cls_last_hidden_state_pooler") return TextPooler::kClassHidden;
  section.fail("hf_pooler_type", "cls_pooler, mean_pooler, max_pooler or cls_last_hidden_state_pooler", Json(name));
}

ProjectionShape read_text_projection(JsonSection& section, int64_t width, int64_t embed_dim) {
  std::string name = "mlp";
  section.read("hf_proj_type", name);
  using Kind = ProjectionShape::Kind;
  if (name == "clap_mlp") return {.kind = Kind::kMlp, .hidden = embed_dim, .has_bias = true, .is_relu = true};
  if (name == "mlp")
    return {.kind = Kind::kMlp, .hidden = (width + embed_dim) / 2, .has_bias = false, .is_relu = false};
  if (name == "linear") return {.kind = Kind::kLinear, .has_bias = false};
  if (name == "none" || name.empty()) return {.kind = Kind::kNone};
  section.fail("hf_proj_type", "clap_mlp, mlp, linear or none", Json(name));
}

/// Overrides under the names of Hugging Face's RobertaConfig.
void read_hf_config(const Json& object, const std::string& where, RobertaShape& text) {
  JsonSection section(object, where, "text_cfg.hf_model_config", kClapFormat);
  section.read("hidden_dropout_prob", text.dropout);
  section.read("attention_probs_dropout_prob", text.attention_dropout);
  section.read("vocab_size", text.vocab_size);
  section.read("max_position_embeddings", text.max_positions);
  section.read("type_vocab_size", text.token_types);
  section.read("pad_token_id", text.pad_id);
  section.read("hidden_size", text.width);
  section.read("num_attention_heads", text.heads);
  section.read("num_hidden_layers", text.layers);
  section.read("intermediate_size", text.mlp_width);
  section.finish();
}

/// OpenCLIP's form.
void read_hf_text(JsonSection& section, const std::string& where, ClapShape& shape) {
  std::string name;
  section.read("hf_model_name", name);
  const std::string_view bare =
      core::starts_with(name, "FacebookAI/") ? std::string_view(name).substr(11) : std::string_view(name);
  if (!set_roberta(shape.text, bare))
    refuse(where, fmt::format("the text tower '{}' is not supported", name),
           "the text tower must be roberta-base or roberta-large");
  for (const char* key : {"hf_tokenizer_name", "hf_model_pretrained", "tokenizer_kwargs"}) section.find(key);
  if (const Json* config = section.find("hf_model_config")) read_hf_config(*config, where, shape.text);
  shape.text.pooler = read_pooler(section);
  shape.text_projection = read_text_projection(section, shape.text.width, shape.embed_dim);
  section.read("context_length", shape.text.context_length);
}

/// LAION's form: sizes in it are those of CLIP's transformer and mean nothing to RoBERTa.
void read_laion_text(JsonSection& section, const std::string& where, ClapShape& shape) {
  std::string type = "transformer";
  section.read("model_type", type);
  if (type != "roberta")
    refuse(where, fmt::format("the text tower '{}' is not supported", type),
           "add \"model_type\": \"roberta\" to text_cfg (LAION's --tmodel roberta)");
  for (const char* key : {"vocab_size", "width", "heads", "layers"}) section.find(key);
  section.read("context_length", shape.text.context_length);
}

}  // namespace

ClapShape parse_clap_shape(std::string_view json, std::string_view where) {
  const Json root = core::parse_json(json, where);
  const std::string place(where);
  JsonSection section(root, place, "", kClapFormat);
  ClapShape shape;
  shape.name = place;
  const Json *audio = section.find("audio_cfg"), *text = section.find("text_cfg");
  if (section.find("embed_dim") == nullptr || audio == nullptr || text == nullptr)
    refuse(place, "a model configuration needs 'embed_dim', 'audio_cfg' and 'text_cfg'",
           "the format is that of the model_configs/*.json of LAION's CLAP and of OpenCLIP's CLAP-* models");
  JsonSection text_section(*text, place, "text_cfg", kClapFormat);
  const bool is_openclip = text_section.find("hf_model_name") != nullptr;
  int64_t embed_dim = 0;
  section.read("embed_dim", embed_dim);
  shape.audio = read_audio(*audio, place, is_openclip, shape.audio_projection);
  if (is_openclip) {
    shape.embed_dim = embed_dim;
    shape.has_transforms = false;
    shape.audio_projection.hidden = embed_dim;
    read_hf_text(text_section, place, shape);
    section.read("init_logit_scale", shape.init_logit_scale);
    section.only("init_logit_bias", nullptr, "CLAP models have no logit bias");
    section.only("nonscalar_logit_scale", false, "the logit scale has no dimensions");
    section.only("custom_text", true, "the text tower is a Hugging Face model");
  } else {
    if (embed_dim != shape.audio.feature_width())
      refuse(
          place,
          fmt::format("'embed_dim' is {}, but the audio tower's width is {}", embed_dim, shape.audio.feature_width()),
          "in LAION's files embed_dim is the width of the audio tower; the shared space is joint_embed_shape");
    section.read("joint_embed_shape", shape.embed_dim);
    shape.audio_projection.is_relu = reads_relu(section, "mlp_act", /*is_relu=*/true);
    shape.audio_projection.hidden = shape.embed_dim;
    shape.text_projection = shape.audio_projection;
    read_laion_text(text_section, place, shape);
    section.only("enable_fusion", false, "fusion of long clips is not supported");
    section.find("fusion_type");
  }
  section.only("quick_gelu", false, "activations are exact GELUs");
  text_section.finish();
  section.finish();
  check_clap_shape(shape);
  return shape;
}

}  // namespace lockstep::config
