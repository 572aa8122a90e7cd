#include "config/gpt_config.h"

#include "config/gpt_names.h"
#include "core/error.h"

namespace lockstep::config {
namespace {

using core::Json;

/// The opposite of what reads activation_function and hidden_act.
std::string activation_name(const GptShape& shape) {
  switch (shape.activation) {
    case GptActivation::kGelu: return "gelu";
    case GptActivation::kGeluTanh: return "gelu_new";
    case GptActivation::kSquaredRelu: return "relu2";
    case GptActivation::kSwiglu: return "silu";  // of the gate
  }
  LOCKSTEP_CHECK(false, "activation {}", static_cast<int>(shape.activation));
}

Json ids_json(const std::vector<int32_t>& ids) {
  return ids.empty() ? Json(nullptr) : ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

void add_gpt2(const GptShape& shape, Json& config) {
  config["n_layer"] = shape.layers;
  config["n_embd"] = shape.hidden;
  config["n_head"] = shape.heads;
  config["n_inner"] = shape.ffn;
  config["n_positions"] = shape.max_positions;
  config["activation_function"] = activation_name(shape);
  config["layer_norm_epsilon"] = shape.norm_eps;
  config["embd_pdrop"] = config["resid_pdrop"] = shape.hidden_dropout;
  config["attn_pdrop"] = shape.attention_dropout;
}

void add_rotary(const GptShape& shape, Json& config) {
  config["rope_theta"] = shape.rotary_base;
  config["rope_scaling"] = nullptr;
  if (const auto& scaling = shape.rotary_scaling)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", scaling->factor},
                              {"low_freq_factor", scaling->low_factor},
                              {"high_freq_factor", scaling->high_factor},
                              {"original_max_position_embeddings", scaling->original_positions}};
}

/// The keys that Llama and Nemotron share.
void add_sizes(const GptShape& shape, Json& config) {
  config["num_hidden_layers"] = shape.layers;
  config["hidden_size"] = shape.hidden;
  config["num_attention_heads"] = shape.heads;
  config["num_key_value_heads"] = shape.query_groups;
  config["head_dim"] = shape.head_width;
  config["intermediate_size"] = shape.ffn;
  config["hidden_act"] = activation_name(shape);
  config["max_position_embeddings"] = shape.max_positions;
  config["attention_dropout"] = shape.attention_dropout;
  config["attention_bias"] = config["mlp_bias"] = false;
  add_rotary(shape, config);
}

}  // namespace

Json hugging_face_config(const GptShape& shape, const GptConfigNotes& notes) {
  const GptDialect dialect = hugging_face_dialect(shape);
  const bool is_gpt2 = dialect == GptDialect::kHfGpt2, is_llama = dialect == GptDialect::kHfLlama;
  Json config = {
      {"architectures",
       {is_gpt2    ? "GPT2LMHeadModel"
        : is_llama ? "LlamaForCausalLM"
                   : "NemotronForCausalLM"}},
      {"model_type", is_gpt2    ? "gpt2"
                     : is_llama ? "llama"
                                : "nemotron"},
      {"torch_dtype", notes.dtype},
      {"vocab_size", shape.vocab},
      {"bos_token_id", notes.bos_id ? Json(*notes.bos_id) : Json(nullptr)},  // null: absent keys mean GPT-2's ids
      {"eos_token_id", ids_json(notes.eos_ids)},
      {"pad_token_id", nullptr},
      {"tie_word_embeddings", shape.is_head_tied},
      {"initializer_range", shape.init_std},
      {"use_cache", true}};
  if (is_gpt2) {
    add_gpt2(shape, config);
  } else {
    add_sizes(shape, config);
    config[is_llama ? "rms_norm_eps" : "norm_eps"] = shape.norm_eps;
    if (!is_llama) config["partial_rotary_factor"] = shape.rotary_fraction;
  }
  return config;
}

}  // namespace lockstep::config
