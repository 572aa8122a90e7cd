#include "config/clap_shape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>

#include "config/hub_names.h"
#include "config/shape_check.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct HtsatRow {
  std::string_view size;
  int64_t width;
  std::array<int64_t, 4> depths;
};
constexpr std::array kHtsats{HtsatRow{"tiny", 96, {2, 2, 6, 2}}, HtsatRow{"base", 128, {2, 2, 12, 2}},
                             HtsatRow{"large", 256, {2, 2, 12, 2}}};

struct ModelRow {
  std::string_view name, htsat, roberta;
};
constexpr std::array kModels{
    ModelRow{"HTSAT-tiny-Roberta-base", "tiny", "roberta-base"},
    ModelRow{"HTSAT-base-Roberta-base", "base", "roberta-base"},
    ModelRow{"HTSAT-large-Roberta-base", "large", "roberta-base"},
    ModelRow{"HTSAT-tiny-Roberta-large", "tiny", "roberta-large"},
    ModelRow{"HTSAT-base-Roberta-large", "base", "roberta-large"},
    ModelRow{"HTSAT-large-Roberta-large", "large", "roberta-large"},
};
constexpr std::string_view kOpenClipTiny = "CLAP-HTSAT-tiny-Roberta-base",
                           kOpenClipBase = "CLAP-HTSAT-base-Roberta-base";

/// Why a model that LAION or OpenCLIP ships cannot be expressed here. The first pattern that the name contains counts.
struct ClapRefusal {
  std::string_view pattern, reason;
};
constexpr std::array kClapRefusals{
    ClapRefusal{"Whisper", "its audio tower is a Whisper encoder"},
    ClapRefusal{"naflex", "its audio tower has a variable resolution (NaFlex)"},
    ClapRefusal{"fused", "fusion of long clips is not supported"},
    ClapRefusal{"fusion", "fusion of long clips is not supported"},
    ClapRefusal{"PANN", "its audio tower is a convolutional PANN"},
    ClapRefusal{"win-1536", "a window of 1536 samples is no power of two"},
};

std::optional<ClapShape> find_named_clap(std::string_view name) {
  for (const ModelRow& row : kModels) {
    if (row.name != name) continue;
    ClapShape shape;
    shape.name = std::string(name);
    set_htsat(shape.audio, row.htsat);
    set_roberta(shape.text, row.roberta);
    return shape;
  }
  if (name != kOpenClipTiny && name != kOpenClipBase) return std::nullopt;
  const bool is_base = name == kOpenClipBase;
  ClapShape shape;
  shape.name = std::string(name);
  set_htsat(shape.audio, is_base ? "base" : "tiny");
  set_roberta(shape.text, "roberta-base");
  shape.has_transforms = false;
  if (is_base) {
    shape.embed_dim = 1024;
    shape.audio_projection = {.hidden = 1024, .is_relu = false};
    shape.text_projection = {.hidden = (768 + 1024) / 2, .has_bias = false, .is_relu = false};
    shape.text.pooler = TextPooler::kMean;
  }
  return shape;
}

[[noreturn]] void throw_unknown_clap(std::string_view model) {
  const std::vector<std::string> names = clap_model_names();
  const std::string known = fmt::format("known: {}; or a path that ends in .json", core::join(names, ", "));
  for (const ClapRefusal& refusal : kClapRefusals)
    if (model.find(refusal.pattern) != std::string_view::npos)
      throw UsageError(fmt::format("clap: model '{}' is not supported: {}", model, refusal.reason), known);
  for (const HtsatRow& row : kHtsats)
    if (model == fmt::format("HTSAT-{}", row.size) || model == fmt::format("CLAP-HTSAT-{}", row.size))
      throw UsageError(fmt::format("clap: model '{}' is not supported: its text tower is CLIP's transformer", model),
                       known);
  const auto nearest = core::nearest_name(model, names);
  throw UsageError(
      fmt::format("clap: unknown model '{}'", model),
      hint_for_name(model,
                    "give its shape with --model NAME or --model FILE.json, and its weights with --pretrained FILE",
                    nearest ? fmt::format("did you mean '{}'?", *nearest) : known));
}

void check_spectrogram(const ClapShape& shape) {
  const AudioShape& audio = shape.audio;
  require_between(shape, "sample_rate", audio.sample_rate, 1000, 768000);
  require_between(shape, "window_size", audio.fft_size, 16, 65536);
  require((audio.fft_size & (audio.fft_size - 1)) == 0, shape,
          fmt::format("window_size={} must be a power of two", audio.fft_size));
  require_between(shape, "hop_size", audio.hop_samples, 1, audio.fft_size);
  require_between(shape, "mel_bins", audio.mel_bins, 1, audio.image_size);
  require(audio.low_hz >= 0.0 && audio.low_hz < audio.high_hz &&
              audio.high_hz <= static_cast<double>(audio.sample_rate) / 2,
          shape,
          fmt::format("fmin={} and fmax={} do not fit, expected 0 <= fmin < fmax <= {} (half the sample rate)",
                      audio.low_hz, audio.high_hz, static_cast<double>(audio.sample_rate) / 2));
  require(audio.image_size % audio.mel_bins == 0, shape,
          fmt::format("mel_bins={} must divide the image size {}", audio.mel_bins, audio.image_size));
  require_between(shape, "clip_samples", audio.clip_samples, audio.fft_size, int64_t{1} << 32);
  require(audio.frames(audio.clip_samples) <= audio.image_frames(), shape,
          fmt::format("clip_samples={} with hop_size={} gives {} frames, the audio tower takes at most {}",
                      audio.clip_samples, audio.hop_samples, audio.frames(audio.clip_samples), audio.image_frames()));
}

void check_swin(const ClapShape& shape) {
  const AudioShape& audio = shape.audio;
  require_between(shape, "audio image_size", audio.image_size, 1, 8192);
  require_between(shape, "audio patch_size", audio.patch_size, 1, audio.image_size);
  require_between(shape, "audio width", audio.width, 1, 65536);
  require_between(shape, "audio stages", audio.stages(), 1, 8);
  require_between(shape, "audio window", audio.window, 2, 64);
  require_between(shape, "class_num", audio.num_classes, 1, 1 << 20);
  require_fraction(shape, "drop_path", audio.drop_path);
  require(audio.heads.size() == audio.depths.size(), shape, "depths and heads of the audio tower differ in length");
  require(audio.image_size % audio.patch_size == 0, shape,
          fmt::format("audio patch_size={} must divide the image size {}", audio.patch_size, audio.image_size));
  require(std::isfinite(audio.mlp_ratio) && audio.mlp_ratio > 0.0 && audio.mlp_ratio <= 64.0 && audio.mlp_width(0) >= 1,
          shape, fmt::format("audio mlp_ratio={} is out of range, expected above 0, at most 64", audio.mlp_ratio));
  for (int64_t stage = 0; stage < audio.stages(); ++stage) {
    const auto index = static_cast<size_t>(stage);
    require_between(shape, "audio depths", audio.depths[index], 1, 1000);
    require_between(shape, "audio heads", audio.heads[index], 1, audio.stage_width(stage));
    require(audio.stage_width(stage) % audio.heads[index] == 0, shape,
            fmt::format("audio heads={} does not divide the width {}", audio.heads[index], audio.stage_width(stage)));
    const int64_t side = audio.stage_side(stage);
    require(side >= 1 && side << stage == audio.image_size / audio.patch_size, shape,
            fmt::format("stage {} of the audio tower would have no whole number of tokens per side", stage + 1));
    require(side <= audio.window || side % audio.window == 0, shape,
            fmt::format("audio window={} does not divide the {} tokens per side of stage {}", audio.window, side,
                        stage + 1));
  }
  const int64_t last_side = audio.stage_side(audio.stages() - 1);
  require(last_side % audio.time_pieces() == 0, shape,
          fmt::format("the last audio stage has {} tokens per side, which {} pieces of the time axis do not divide",
                      last_side, audio.time_pieces()));
}

void check_roberta(const ClapShape& shape) {
  const RobertaShape& text = shape.text;
  require_between(shape, "text vocab_size", text.vocab_size, 2, 1 << 24);
  require_between(shape, "text pad_id", text.pad_id, 0, text.vocab_size - 1);
  require_between(shape, "text max_positions", text.max_positions, text.pad_id + 2, 1 << 20);
  require_between(shape, "text token_types", text.token_types, 1, 1024);
  require_between(shape, "text context_length", text.context_length, 1, text.longest_text());
  require_between(shape, "text width", text.width, 1, 65536);
  require_between(shape, "text heads", text.heads, 1, text.width);
  require_between(shape, "text layers", text.layers, 1, 1000);
  require_between(shape, "text mlp_width", text.mlp_width, 1, 1 << 20);
  require(text.width % text.heads == 0, shape,
          fmt::format("text heads={} does not divide the width {}", text.heads, text.width));
  require_fraction(shape, "text dropout", text.dropout);
  require_fraction(shape, "text attention_dropout", text.attention_dropout);
}

}  // namespace

bool set_htsat(AudioShape& audio, std::string_view size) {
  for (const HtsatRow& row : kHtsats) {
    if (row.size != size) continue;
    audio.width = row.width;
    audio.depths.assign(row.depths.begin(), row.depths.end());
    audio.heads = {4, 8, 16, 32};
    return true;
  }
  return false;
}

std::vector<std::string> clap_model_names() {
  std::vector<std::string> names;
  for (const ModelRow& row : kModels) names.emplace_back(row.name);
  names.emplace_back(kOpenClipTiny);
  names.emplace_back(kOpenClipBase);
  return names;
}

void check_clap_shape(const ClapShape& shape) {
  require_between(shape, "embed_dim", shape.embed_dim, 1, 65536);
  check_swin(shape);
  check_spectrogram(shape);
  check_roberta(shape);
  const bool needs_projection =
      shape.text.width != shape.embed_dim && shape.text_projection.kind == ProjectionShape::Kind::kNone;
  require(!needs_projection, shape,
          fmt::format("the text width {} is not embed_dim={}, so a projection is needed", shape.text.width,
                      shape.embed_dim));
}

ClapShape resolve_clap_shape(std::string_view model) {
  ClapShape shape;
  if (core::ends_with(model, ".json")) {
    shape = parse_clap_shape(core::read_file(std::filesystem::path(model)), model);
  } else if (auto found = find_named_clap(model)) {
    shape = std::move(*found);
  } else {
    throw_unknown_clap(model);
  }
  check_clap_shape(shape);
  return shape;
}

}  // namespace lockstep::config
