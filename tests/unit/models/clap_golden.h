#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "models/clap/clap_model.h"
#include "models/clap/clap_weights.h"
#include "nn/init.h"
#include "support/tensor_golden.h"

namespace lockstep::models {

/// A case under tests/golden/clap, or the path of a file of the same layout.
inline std::string clap_file(const std::string& golden) {
  return golden.ends_with(".safetensors") ? golden : "clap/" + golden + ".safetensors";
}

inline core::Json clap_sizes(const std::string& golden) {
  return core::parse_json(tests::golden_metadata(clap_file(golden), "sizes"), golden);
}

inline config::RobertaShape golden_text_shape(const core::Json& text, int64_t columns) {
  return {.vocab_size = text["vocab_size"],
          .max_positions = text["max_position_embeddings"],
          .width = text["hidden_size"],
          .heads = text["num_attention_heads"],
          .layers = text["num_hidden_layers"],
          .mlp_width = text["intermediate_size"],
          .context_length = columns,
          .dropout = 0.0,
          .attention_dropout = 0.0};
}

/// The shape of a golden file, without random dropping.
inline config::ClapShape golden_clap_shape(const std::string& golden) {
  const core::Json sizes = clap_sizes(golden);
  const core::Json &audio = sizes["audio"], &sound = sizes["sound"];
  config::ClapShape shape;
  shape.name = golden;
  shape.embed_dim = sizes["projection"];
  shape.audio = {.sample_rate = sound["sampling_rate"],
                 .clip_samples = sizes["clip"],
                 .fft_size = sound["fft_window_size"],
                 .hop_samples = sound["hop_length"],
                 .mel_bins = audio["num_mel_bins"],
                 .low_hz = sound["frequency_min"],
                 .high_hz = sound["frequency_max"],
                 .image_size = audio["spec_size"],
                 .patch_size = audio["patch_size"],
                 .width = audio["patch_embeds_hidden_size"],
                 .depths = audio["depths"].get<std::vector<int64_t>>(),
                 .heads = audio["num_attention_heads"].get<std::vector<int64_t>>(),
                 .window = audio["window_size"],
                 .mlp_ratio = audio["mlp_ratio"],
                 .drop_path = 0.0,
                 .spec_augment = false,
                 .num_classes = 5};
  shape.text = golden_text_shape(sizes["text"], sizes["columns"]);
  shape.audio_projection = {.hidden = shape.embed_dim, .is_relu = sizes["act"] == "relu"};
  shape.text_projection = shape.audio_projection;
  config::check_clap_shape(shape);
  return shape;
}

/// The entries "prefix/NAME" of a golden file as a weight file.
inline WeightFile golden_weights(const tests::TensorMap& tensors, const std::string& prefix) {
  WeightFile weights{.path = "golden", .tensors = {}, .ignored = {}, .epoch = {}};
  for (const auto& [name, value] : tensors)
    if (name.starts_with(prefix) && !name.ends_with("position_ids"))
      weights.tensors.emplace_back(name.substr(prefix.size()), value);
  return weights;
}

inline std::unique_ptr<ClapModel> golden_clap_model(const config::ClapShape& shape, const tests::TensorMap& tensors,
                                                    const ClapModelOptions& options = {}) {
  auto model = std::make_unique<ClapModel>(shape, options);
  nn::initialize(*model, model->param_specs(), 3);
  load_clap_weights(*model, golden_weights(tensors, "param/"));
  return model;
}

}  // namespace lockstep::models
