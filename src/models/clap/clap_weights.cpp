#include "models/clap/clap_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "models/clap/token_order.h"

namespace lockstep::models {
namespace {

struct Rename {
  std::string_view laion, other;
};
constexpr std::array kOpenClipPrefixes{
    Rename{"audio_branch.", "audio.encoder."}, Rename{"audio_projection.", "audio.proj."},
    Rename{"text_branch.", "text.transformer."}, Rename{"text_projection.", "text.proj."},
    Rename{"logit_scale_a", "logit_scale"}};
constexpr std::array kHuggingFacePrefixes{Rename{"audio_branch.bn0.", "audio_model.audio_encoder.batch_norm."},
                                          Rename{"audio_branch.", "audio_model.audio_encoder."},
                                          Rename{"audio_projection.0.", "audio_projection.linear1."},
                                          Rename{"audio_projection.2.", "audio_projection.linear2."},
                                          Rename{"text_branch.", "text_model."},
                                          Rename{"text_projection.0.", "text_projection.linear1."},
                                          Rename{"text_projection.2.", "text_projection.linear2."}};
/// Within a Swin block; q, k and v are handled apart.
constexpr std::array kHuggingFaceParts{Rename{".norm1.", ".layernorm_before."},
                                       Rename{".norm2.", ".layernorm_after."},
                                       Rename{".attn.relative_position", ".attention.self.relative_position"},
                                       Rename{".attn.proj.", ".attention.output.dense."},
                                       Rename{".mlp.fc1.", ".intermediate.dense."},
                                       Rename{".mlp.fc2.", ".output.dense."}};
constexpr std::array<std::string_view, 3> kParts{"query", "key", "value"};
constexpr std::string_view kQkv = ".attn.qkv.", kSelf = ".attention.self.";

std::span<const Rename> prefixes_of(ClapNaming naming) {
  if (naming == ClapNaming::kOpenClip) return kOpenClipPrefixes;
  if (naming == ClapNaming::kHuggingFace) return kHuggingFacePrefixes;
  return {};
}

std::string replace_once(const std::string& name, std::string_view from, std::string_view to) {
  const size_t place = name.find(from);
  return place == std::string::npos ? name : name.substr(0, place) + std::string(to) + name.substr(place + from.size());
}

bool is_swin_block(const std::string& laion) {
  return core::starts_with(laion, "audio_branch.layers.") && laion.find(".blocks.") != std::string::npos;
}

std::string to_laion(const std::string& name, ClapNaming naming) {
  for (const Rename& rename : prefixes_of(naming)) {
    if (!core::starts_with(name, rename.other)) continue;
    std::string laion = std::string(rename.laion) + name.substr(rename.other.size());
    if (naming != ClapNaming::kHuggingFace || !is_swin_block(laion)) return laion;
    for (const Rename& part :
         kHuggingFaceParts) {  // ".attention.output.dense." holds ".output.dense.": the first match counts
      const std::string changed = replace_once(laion, part.other, part.laion);
      if (changed != laion) return changed;
    }
    return laion;
  }
  return name;
}

std::string from_laion(const std::string& name, ClapNaming naming) {
  for (const Rename& rename : prefixes_of(naming)) {
    if (!core::starts_with(name, rename.laion)) continue;
    std::string other = std::string(rename.other) + name.substr(rename.laion.size());
    if (naming == ClapNaming::kHuggingFace && is_swin_block(name))
      for (const Rename& part : kHuggingFaceParts) other = replace_once(other, part.laion, part.other);
    return other;
  }
  return name;
}

/// "....attention.self.query.weight" -> {"....attn.qkv.weight", 0} in a Swin block; nothing for other names.
std::optional<std::pair<std::string, size_t>> swin_part(const std::string& laion) {
  if (!is_swin_block(laion)) return std::nullopt;
  for (size_t part = 0; part < kParts.size(); ++part) {
    const std::string piece = fmt::format("{}{}.", kSelf, kParts[part]);
    const std::string joined = replace_once(laion, piece, kQkv);
    if (joined != laion) return std::pair{joined, part};
  }
  return std::nullopt;
}

/// Joins q, k and v of Swin blocks.
NamedValues join_parts(const NamedValues& values, const std::filesystem::path& path) {
  NamedValues out;
  std::map<std::string, std::array<at::Tensor, 3>> parts;
  for (const auto& [name, value] : values) {
    if (const auto part = swin_part(name))
      parts[part->first][part->second] = value;
    else
      out.emplace_back(name, value);
  }
  for (const auto& [name, three] : parts) {
    for (size_t part = 0; part < kParts.size(); ++part)
      if (!three[part].defined() || three[part].sizes() != three[0].sizes() || three[part].dim() == 0)
        throw DataError(fmt::format("models: weights '{}': {} of '{}' is missing or of another shape", path.string(),
                                    kParts[part], name));
    out.emplace_back(name, at::cat({three[0], three[1], three[2]}));
  }
  return out;
}

/// The STFT as torchlibrosa stores it: Hann-weighted cosines (or minus sines), [bins, 1, fft_size].
at::Tensor dft_weights(const config::AudioShape& shape, bool is_imaginary) {
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor bins = at::arange(shape.fft_size / 2 + 1, options).unsqueeze(1),
                   samples = at::arange(shape.fft_size, options).unsqueeze(0);
  const at::Tensor angle = bins * samples * (2.0 * std::numbers::pi / static_cast<double>(shape.fft_size));
  const at::Tensor wave = is_imaginary ? at::sin(angle).neg() : at::cos(angle);
  return (wave * at::hann_window(shape.fft_size, /*periodic=*/true, options)).to(at::kFloat).unsqueeze(1);
}

/// Everything in LAION's files that follows from the shape.
NamedValues derived_values(const config::AudioShape& shape) {
  NamedValues out{{"audio_branch.spectrogram_extractor.stft.conv_real.weight", dft_weights(shape, false)},
                  {"audio_branch.spectrogram_extractor.stft.conv_imag.weight", dft_weights(shape, true)},
                  {"audio_branch.logmel_extractor.melW", slaney_mel_filters(shape)}};
  for (int64_t stage = 0; stage < shape.stages(); ++stage) {
    const int64_t side = shape.stage_side(stage), window = std::min(shape.window, side);
    const at::Tensor index = relative_position_index(window);
    const at::Tensor mask = side > shape.window ? shift_mask(side, window, shape.window / 2) : at::Tensor();
    for (int64_t block = 0; block < shape.depths[static_cast<size_t>(stage)]; ++block) {
      const std::string name = fmt::format("audio_branch.layers.{}.blocks.{}.", stage, block);
      out.emplace_back(name + "attn.relative_position_index", index);
      if (block % 2 == 1 && mask.defined()) out.emplace_back(name + "attn_mask", mask);
    }
  }
  return out;
}

void check_derived(const std::string& name, const at::Tensor& value, const at::Tensor& expected,
                   const std::filesystem::path& path) {
  const at::Tensor want = expected.to(at::kDouble);
  const bool fits = value.sizes() == want.sizes() &&
                    (value.to(at::kDouble) - want).abs().max().item<double>() <= 1e-4 * want.abs().max().item<double>();
  if (!fits)
    throw DataError(
        fmt::format("models: weights '{}': '{}' is not what this model's shape gives", path.string(), name),
        "the file was trained with another front end or window: give its configuration as --model FILE.json");
}

std::set<std::string> carried_names(ClapModel& model) {
  std::set<std::string> names;
  for (const auto& spec : model.param_specs())
    if (spec.is_carried) names.insert(spec.name);
  return names;
}

/// Carried entries that a naming has: all, the head, none.
bool has_carried(ClapNaming naming, const std::string& name) {
  if (naming == ClapNaming::kLaion) return true;
  if (naming == ClapNaming::kOpenClip) return core::starts_with(name, "audio_branch.");
  return name == "logit_scale_t";
}

void append(NamedValues& out, const std::string& name, const at::Tensor& value, ClapNaming naming) {
  const size_t qkv = naming == ClapNaming::kHuggingFace && is_swin_block(name) ? name.find(kQkv) : std::string::npos;
  if (qkv == std::string::npos) {
    out.emplace_back(from_laion(name, naming), value);
    return;
  }
  const auto parts = value.detach().chunk(3);
  for (size_t part = 0; part < kParts.size(); ++part)
    out.emplace_back(from_laion(replace_once(name, kQkv, fmt::format("{}{}.", kSelf, kParts[part])), naming),
                     parts[part]);
}

}  // namespace

ClapNaming clap_naming(const WeightFile& weights) {
  for (const auto& [name, tensor] : weights.tensors) {
    if (core::starts_with(name, "audio_branch.") || core::starts_with(name, "text_branch.")) return ClapNaming::kLaion;
    if (core::starts_with(name, "audio.encoder.") || core::starts_with(name, "text.transformer."))
      return ClapNaming::kOpenClip;
    if (core::starts_with(name, "audio_model.") || core::starts_with(name, "text_model."))
      return ClapNaming::kHuggingFace;
  }
  throw DataError(fmt::format("models: '{}' holds no CLAP weights", weights.path.string()),
                  "names begin with audio_branch. (LAION), audio.encoder. (OpenCLIP) or audio_model. (Hugging Face)");
}

WeightFile to_laion_names(const WeightFile& weights, const config::ClapShape& shape) {
  const ClapNaming naming = clap_naming(weights);
  WeightFile out{.path = weights.path, .tensors = {}, .ignored = weights.ignored, .epoch = weights.epoch};
  std::map<std::string, at::Tensor> derived;
  for (auto& [name, value] : derived_values(shape.audio)) derived.emplace(name, value);
  for (const auto& [name, value] : weights.tensors) {
    const std::string laion = to_laion(name, naming);
    const auto known = derived.find(laion);
    if (known != derived.end()) check_derived(name, value, known->second, weights.path);
    if (known != derived.end() || core::ends_with(name, ".token_type_ids"))
      out.ignored.push_back(name);
    else
      out.tensors.emplace_back(laion, value);
  }
  if (naming == ClapNaming::kHuggingFace) out.tensors = join_parts(out.tensors, weights.path);
  return out;
}

void load_clap_weights(ClapModel& model, const WeightFile& weights) {
  const c10::NoGradGuard no_grad;
  WeightFile laion = to_laion_names(weights, model.shape());
  std::set<std::string> present;
  for (const auto& [name, value] : laion.tensors) present.insert(name);
  const std::set<std::string> carried = carried_names(model);
  for (const auto& [name, value] : named_values(model))
    if (carried.contains(name) && !present.contains(name)) laion.tensors.emplace_back(name, value.clone());
  // A scale or head that this model does not carry is no misfit either.
  if (!model.shape().has_transforms)
    std::erase_if(laion.tensors, [&](const auto& entry) {
      const bool is_extra = core::starts_with(entry.first, "audio_transform.") ||
                            core::starts_with(entry.first, "text_transform.") || entry.first == "logit_scale_t";
      if (is_extra) laion.ignored.push_back(entry.first);
      return is_extra;
    });
  load_weights(model, laion);
}

/// Programs of a naming hold only some shapes: writing another would make files whose missing parts they draw at
/// random.
void check_naming_holds(const config::ClapShape& shape, ClapNaming naming) {
  if (naming == ClapNaming::kOpenClip) return;
  using Kind = config::ProjectionShape::Kind;
  const auto is_plain = [&](const config::ProjectionShape& projection) {
    return projection.kind == Kind::kMlp && projection.has_bias && projection.hidden == shape.embed_dim &&
           projection.is_relu == shape.audio_projection.is_relu;
  };
  std::vector<std::string> misfits;
  if (shape.text.pooler != config::TextPooler::kClass)
    misfits.emplace_back("its text pooler is not cls_pooler (hf_pooler_type)");
  if (!is_plain(shape.text_projection))
    misfits.emplace_back(
        "its text projection is not two layers with bias and the activation of its audio projection (hf_proj_type)");
  if (!is_plain(shape.audio_projection)) misfits.emplace_back("its audio projection is not two layers with bias");
  if (misfits.empty()) return;
  const char* program = naming == ClapNaming::kLaion ? "LAION's CLAP" : "Hugging Face's ClapModel";
  throw UsageError(
      fmt::format("models: model '{}' cannot be written under the names of {}, which cannot hold it: {}", shape.name,
                  program, core::join(misfits, "; ")),
      fmt::format("write it under OpenCLIP's names (--names openclip), or keep the names (as-is); {} loads models that "
                  "were trained with \"hf_pooler_type\": \"cls_pooler\" and \"hf_proj_type\": \"clap_mlp\" in "
                  "text_cfg, and \"proj_act\": \"relu\" in audio_cfg",
                  program));
}

NamedValues clap_values(ClapModel& model, ClapNaming naming) {
  check_naming_holds(model.shape(), naming);
  const std::set<std::string> carried = carried_names(model);
  NamedValues out;
  for (const auto& [name, value] : named_values(model))
    if (!carried.contains(name) || has_carried(naming, name)) append(out, name, value, naming);
  for (const auto& [name, value] : derived_values(model.shape().audio)) {
    const bool is_index = core::ends_with(name, "relative_position_index");
    if (naming != ClapNaming::kHuggingFace || is_index) append(out, name, value, naming);
  }
  return out;
}

}  // namespace lockstep::models
