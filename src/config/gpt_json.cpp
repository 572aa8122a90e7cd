// Reads Hugging Face's config.json of GPT-2, Llama and Nemotron models.
#include "config/gpt_shape.h"
#include "config/json_section.h"
#include "core/error.h"
#include "core/json.h"

namespace lockstep::config {
namespace {

using core::Json;

constexpr JsonFormat kGptFormat{"gpt", "keys of GPT-2, Llama and Nemotron configurations are known"};

/// What says nothing about the parameters or the computation of training.
void skip_bookkeeping(JsonSection& section) {
  for (const char* key : {"architectures",
                          "bos_token_id",
                          "eos_token_id",
                          "pad_token_id",
                          "torch_dtype",
                          "dtype",
                          "transformers_version",
                          "use_cache",
                          "_name_or_path",
                          "task_specific_params",
                          "output_attentions",
                          "output_hidden_states",
                          "return_dict",
                          "gradient_checkpointing",
                          "pretraining_tp",
                          "_attn_implementation",
                          "chunk_size_feed_forward",
                          "id2label",
                          "label2id",
                          "is_encoder_decoder"})
    section.find(key);
  for (const char* key :
       {"summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"})
    section.find(key);
}

GptActivation activation_of(JsonSection& section, const std::string& key, const std::string& default_name) {
  std::string name = default_name;
  section.read(key, name);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return GptActivation::kGeluTanh;
  if (name == "gelu") return GptActivation::kGelu;
  if (name == "relu2") return GptActivation::kSquaredRelu;
  section.fail(key, "gelu_new, gelu_pytorch_tanh, gelu or relu2", name);
}

GptShape read_gpt2(JsonSection& section) {
  GptShape shape;
  section.read("vocab_size", shape.vocab);
  section.read("n_positions", shape.max_positions);
  section.find("n_ctx");
  section.read("n_embd", shape.hidden);
  section.read("n_layer", shape.layers);
  section.read("n_head", shape.heads);
  shape.ffn = 4 * shape.hidden;
  section.read("n_inner", shape.ffn);
  shape.activation = activation_of(section, "activation_function", "gelu_new");
  section.read("layer_norm_epsilon", shape.norm_eps);
  section.read("initializer_range", shape.init_std);
  section.read("resid_pdrop", shape.hidden_dropout);
  section.read("attn_pdrop", shape.attention_dropout);
  section.only("embd_pdrop", shape.hidden_dropout, "the dropout of embeddings is that of the branches (resid_pdrop)");
  section.read("tie_word_embeddings", shape.is_head_tied);
  section.only("scale_attn_weights", true, "scores are scaled by 1 / sqrt(head width)");
  section.only("scale_attn_by_inverse_layer_idx", false, "scores are not scaled by layer");
  section.only("reorder_and_upcast_attn", false, "scores are not scaled by layer");
  section.only("add_cross_attention", false, "the model is a decoder alone");
  shape.query_groups = shape.heads;
  shape.head_width = shape.heads > 0 ? shape.hidden / shape.heads : 0;
  return shape;
}

void read_rotary(JsonSection& section, const std::string& where, GptShape& shape) {
  section.read("rope_theta", shape.rotary_base);
  section.read("partial_rotary_factor", shape.rotary_fraction);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* scaling = section.find(key);
    if (scaling == nullptr) continue;
    JsonSection part(*scaling, where, key, kGptFormat);
    std::string kind = "default";
    part.read("type", kind);
    part.read("rope_type", kind);
    part.read("rope_theta", shape.rotary_base);
    part.read("partial_rotary_factor", shape.rotary_fraction);
    if (kind != "llama3") {
      if (kind != "default") part.fail("rope_type", "llama3 or default", kind);
      part.finish();
      continue;
    }
    RotaryScaling rotary;
    part.read("factor", rotary.factor);
    part.read("low_freq_factor", rotary.low_factor);
    part.read("high_freq_factor", rotary.high_factor);
    part.read("original_max_position_embeddings", rotary.original_positions);
    shape.rotary_scaling = rotary;
    part.finish();
  }
}

/// The keys that Llama and Nemotron share.
void read_sizes(JsonSection& section, GptShape& shape) {
  section.read("vocab_size", shape.vocab);
  section.read("hidden_size", shape.hidden);
  section.read("intermediate_size", shape.ffn);
  section.read("num_hidden_layers", shape.layers);
  section.read("num_attention_heads", shape.heads);
  shape.query_groups = shape.heads;
  section.read("num_key_value_heads", shape.query_groups);
  shape.head_width = shape.heads > 0 ? shape.hidden / shape.heads : 0;
  section.read("head_dim", shape.head_width);
  section.read("max_position_embeddings", shape.max_positions);
  section.read("initializer_range", shape.init_std);
  section.read("tie_word_embeddings", shape.is_head_tied);
  section.read("attention_dropout", shape.attention_dropout);
  section.only("attention_bias", false, "the layers of these models have no biases");
  section.only("mlp_bias", false, "the layers of these models have no biases");
}

GptShape read_llama(JsonSection& section, const std::string& where) {
  GptShape shape{.vocab = 32000,
                 .max_positions = 2048,
                 .positions = GptPositions::kRotary,
                 .activation = GptActivation::kSwiglu,
                 .norm = GptNorm::kRmsNorm,
                 .norm_eps = 1e-6,
                 .has_bias = false,
                 .is_head_tied = false,
                 .hidden_dropout = 0.0,
                 .attention_dropout = 0.0};
  shape.hidden = 4096, shape.layers = 32, shape.heads = 32, shape.ffn = 11008;
  read_sizes(section, shape);
  section.read("rms_norm_eps", shape.norm_eps);
  section.only("hidden_act", "silu", "the gate of Llama models is silu");
  read_rotary(section, where, shape);
  return shape;
}

GptShape read_nemotron(JsonSection& section, const std::string& where) {
  GptShape shape{.vocab = 256000,
                 .max_positions = 4096,
                 .positions = GptPositions::kRotary,
                 .rotary_fraction = 0.5,
                 .norm = GptNorm::kLayerNorm1p,
                 .has_bias = false,
                 .is_head_tied = false,
                 .init_std = 0.0134,
                 .hidden_dropout = 0.0,
                 .attention_dropout = 0.0};
  shape.hidden = 6144, shape.layers = 32, shape.heads = 48, shape.ffn = 24576;
  read_sizes(section, shape);
  section.read("norm_eps", shape.norm_eps);
  shape.activation = activation_of(section, "hidden_act", "relu2");
  read_rotary(section, where, shape);
  return shape;
}

}  // namespace

GptShape parse_gpt_shape(std::string_view json, std::string_view where) {
  const std::string place(where);
  const Json root = core::parse_json(json, where);
  JsonSection section(root, place, "", kGptFormat);
  std::string type;
  section.read("model_type", type);
  skip_bookkeeping(section);
  if (type != "gpt2" && type != "llama" && type != "nemotron")
    section.fail("model_type", "gpt2, llama or nemotron", type);
  GptShape shape = type == "gpt2"    ? read_gpt2(section)
                   : type == "llama" ? read_llama(section, place)
                                     : read_nemotron(section, place);
  section.finish();
  shape.name = place;
  shape.vocab_multiple = 1;  // as in the file, so that the softmax runs over the same rows
  shape.sequence = shape.max_positions;
  check_gpt_shape(shape);
  return shape;
}

}  // namespace lockstep::config
