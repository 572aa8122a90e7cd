#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/clap_shape.h"
#include "config/clip_shape.h"
#include "config/flops.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// A CLIP or CLAP network: what runs, plans and reports ask of both alike.
struct ContrastiveShape {
  std::variant<ClipShape, ClapShape> shape;

  const ClipShape* clip() const { return std::get_if<ClipShape>(&shape); }
  const ClapShape* clap() const { return std::get_if<ClapShape>(&shape); }
  /// What stands beside the text: "image" or "audio".
  const char* modality() const { return clip() != nullptr ? "image" : "audio"; }
  int64_t context_length() const;
  bool packs_texts() const;  ///< The text tower computes real tokens only, and takes ids from the host.
  std::vector<ParamSpec> param_specs() const;
};

/// Parameters of the whole model and of its towers; work of one pair, forward, at full size and nominal context length.
struct ContrastiveCost {
  int64_t parameters = 0, image_or_audio_parameters = 0, text_parameters = 0;  ///< Trained ones.
  /// The text's with that of a caption decoder.
  double image_or_audio_forward_flops = 0.0, text_forward_flops = 0.0;
  FlopCount forward;
};
ContrastiveCost contrastive_cost(const ContrastiveShape& shape);

/// Shape of a model with the overrides, of which CLAP knows only the context length. UsageError as resolve_clip_shape
/// and resolve_clap_shape throw.
ContrastiveShape resolve_contrastive_shape(const std::string& model, bool is_clap, const ClipOverrides& overrides);

/// Whether `model` names a CLAP model: one of clap_model_names(), or a JSON file with "audio_cfg".
bool is_clap_model(const std::string& model);

}  // namespace lockstep::config
