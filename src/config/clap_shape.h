#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/param_spec.h"
#include "config/roberta_shape.h"

namespace lockstep::config {

/// The audio tower HTSAT (Chen et al. 2022): log-mel spectrogram, folded into a square image, through a Swin
/// transformer.
struct AudioShape {
  int64_t sample_rate = 48000;    ///< Hz.
  int64_t clip_samples = 480000;  ///< Longest clip.
  int64_t fft_size = 1024;        ///< Samples of a window, "window_size" in LAION's files.
  int64_t hop_samples = 480;
  int64_t mel_bins = 64;
  double low_hz = 50.0, high_hz = 14000.0;
  /// Pixels of the square image; image_size / mel_bins pieces of the time axis are stacked in it.
  int64_t image_size = 256;
  int64_t patch_size = 4;  ///< Pixels; also the stride.
  int64_t width = 96;      ///< Of the tokens in the first stage; doubles with each stage.
  std::vector<int64_t> depths = {2, 2, 6, 2}, heads = {4, 8, 16, 32};  ///< Blocks and heads per stage.
  int64_t window = 8;                                                  ///< Tokens, square.
  double mlp_ratio = 4.0;
  double drop_path = 0.1;     ///< Of the last block; rises linearly from 0 over the blocks.
  bool spec_augment = true;   ///< Blank stripes of the spectrogram while training.
  int64_t num_classes = 527;  ///< Of the classification head, which is carried, never computed.

  int64_t stages() const { return static_cast<int64_t>(depths.size()); }
  int64_t stage_width(int64_t stage) const { return width << stage; }
  int64_t stage_side(int64_t stage) const { return (image_size / patch_size) >> stage; }  ///< Tokens per side.
  int64_t feature_width() const { return stage_width(stages() - 1); }
  int64_t mlp_width(int64_t stage) const {
    return static_cast<int64_t>(static_cast<double>(stage_width(stage)) * mlp_ratio);
  }
  int64_t time_pieces() const { return image_size / mel_bins; }
  int64_t image_frames() const {
    return image_size * time_pieces();
  }  ///< Frames after stretching; no clip may have more.
  int64_t frames(int64_t samples) const { return samples / hop_samples + 1; }
};

/// Everything that fixes the parameters and the computation of a CLAP model.
struct ClapShape {
  static constexpr std::string_view kKind = "clap";  ///< As messages name it.
  std::string name;
  int64_t embed_dim = 512;
  AudioShape audio;
  RobertaShape text;
  ProjectionShape audio_projection, text_projection;
  bool has_transforms = true;  ///< LAION's model carries two MLPs and a second scale that only its --clap-mlploss uses.
  double init_logit_scale = 2.6592600369327779;  ///< ln(1 / 0.07).
};

/// Names of the built-in models: LAION's HTSAT-*-Roberta-* and those of OpenCLIP's development version that these
/// towers can express.
std::vector<std::string> clap_model_names();

/// Shape of a built-in name, or of a JSON file in LAION's or OpenCLIP's form when `model` ends in ".json". UsageError
/// for an unknown name (with the nearest one), for a model that these towers cannot express (with the reason), and for
/// sizes that do not fit.
ClapShape resolve_clap_shape(std::string_view model);

/// Shape from the text of a model configuration. `where` names it in errors. OpenCLIP's form names the text tower by
/// "hf_model_name", LAION's by "model_type": "roberta" (which LAION's trainer sets from --tmodel).
ClapShape parse_clap_shape(std::string_view json, std::string_view where);

/// UsageError unless all sizes fit together.
void check_clap_shape(const ClapShape& shape);

/// Sets depths, heads and width of HTSAT "tiny", "base" or "large"; false for another name.
bool set_htsat(AudioShape& audio, std::string_view size);

/// Parameters and buffers in forward-execution order (audio tower and projection, text tower and projection, scale)
/// under LAION's names. What never receives a gradient is a buffer marked is_carried.
std::vector<ParamSpec> clap_param_specs(const ClapShape& shape);

/// Sizes and work of a model, without a tensor.
struct ClapCost {
  int64_t audio_parameters = 0;  ///< "audio_branch." alone, the carried ones included, as published.
  int64_t text_parameters = 0;   ///< "text_branch." alone.
  int64_t parameters = 0;        ///< All that LAION's model calls parameters but for its constant STFT and mel weights.
  int64_t trained_parameters = 0;
  /// One full clip as the reference computes it: STFT by convolution, unused head. Published.
  double audio_forward_flops = 0.0;
  /// The same without what we do not compute: only patches, blocks, merging and projection.
  double audio_computed_flops = 0.0;
  double text_forward_flops = 0.0;  ///< One text of context_length tokens.
  /// One text of max_positions tokens: what model profiles (and their FLOPs tables) count.
  double nominal_text_flops = 0.0;
};
ClapCost clap_cost(const ClapShape& shape);

/// Forward work of one text of `tokens` real tokens, pooler and projection included.
double clap_text_forward_flops(const ClapShape& shape, int64_t tokens);

}  // namespace lockstep::config
