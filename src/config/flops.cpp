#include "config/flops.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

/// The letters of the formulas, as doubles: products of them exceed 64-bit integers.
struct Letters {
  double layers, hidden, sequence, vocab, ffn, groups_per_head, heads_width;
};

Letters letters_of(const GptDims& dims) {
  LOCKSTEP_CHECK(dims.layers > 0 && dims.hidden > 0 && dims.sequence > 0 && dims.vocab > 0,
                 "layers={} hidden={} sequence={} vocab={}", dims.layers, dims.hidden, dims.sequence, dims.vocab);
  LOCKSTEP_CHECK(dims.heads > 0 && dims.query_groups > 0, "heads={} query_groups={}", dims.heads, dims.query_groups);
  return {.layers = static_cast<double>(dims.layers),
          .hidden = static_cast<double>(dims.hidden),
          .sequence = static_cast<double>(dims.sequence),
          .vocab = static_cast<double>(dims.vocab),
          .ffn = static_cast<double>(dims.ffn > 0 ? dims.ffn : 4 * dims.hidden),
          .groups_per_head = static_cast<double>(dims.query_groups) / static_cast<double>(dims.heads),
          .heads_width = static_cast<double>(dims.head_width > 0 ? dims.head_width * dims.heads : dims.hidden)};
}

std::string dims_text(const GptDims& dims) {
  return fmt::format("with L={} h={} s={} V={}", dims.layers, dims.hidden, dims.sequence, dims.vocab);
}

struct NominalRow {
  const char* set;
  const char* model;
  const char* sample;
  double forward_gflops;
  const char* formula;
};

constexpr const char* kProfile = "OpenCLIP model profile (2 x multiply-adds, forward, 224 px, 77 text tokens)";
constexpr const char* kClap =
    "CLAP benchmark on JUPITER: audio of 10 s plus RoBERTa at its 514-token maximum; captions padded to 77 tokens need "
    "far less";

constexpr NominalRow kNominal[] = {
    {"seed-000", "HTSAT-tiny-Roberta-base", "pair", 111.20, kClap},
    {"seed-000", "HTSAT-base-Roberta-base", "pair", 130.09, kClap},
    {"seed-004", "nemotron4-340b", "sequence", 1.01e16 / 3e9,
     "recipe: model FLOPs of a sequence as printed, 1.01e16 (its formula gives 1.0090733604e16), of which a forward "
     "pass is a third"},
    {"openclip-profile", "ViT-S-32", "pair", 5.66, kProfile},
    {"openclip-profile", "ViT-M-32", "pair", 9.95, kProfile},
    {"openclip-profile", "ViT-B-32", "pair", 14.78, kProfile},
    {"openclip-profile", "ViT-B-32-256", "pair", 17.46, "OpenCLIP model profile, 256 px"},
    {"openclip-profile", "RN50", "pair", 18.18, kProfile},
    {"openclip-profile", "RN101", "pair", 25.5, kProfile},
    {"openclip-profile", "ViT-B-16", "pair", 41.09, kProfile},
    {"openclip-profile", "ViT-B-16-SigLIP", "pair", 46.44, "OpenCLIP model profile, 64 text tokens"},
    {"openclip-profile", "coca_ViT-B-32", "pair", 33.34, kProfile},
    {"openclip-profile", "roberta-ViT-B-32", "pair", 105.87,
     "OpenCLIP model profile; its text tower was profiled at 514 tokens"},
    {"openclip-profile", "ViT-L-14", "pair", 175.33, kProfile},
    {"openclip-profile", "ViT-L-14-336", "pair", 395.22, "OpenCLIP model profile, 336 px"},
    {"openclip-profile", "ViT-H-14", "pair", 381.68, kProfile},
    {"openclip-profile", "ViT-g-14", "pair", 581.15, kProfile},
    {"openclip-profile", "ViT-bigG-14", "pair", 1065.36, kProfile},
};

constexpr const char* kOwnSet = "lockstep";
constexpr const char* kResnet = "resnet50";
constexpr double kGiga = 1e9;

[[noreturn]] void throw_unknown(std::string_view what, std::string_view name, const std::vector<std::string>& known,
                                const std::string& hint) {
  const auto near = core::nearest_name(name, known);
  throw UsageError(fmt::format("unknown {} '{}'{}", what, name, near ? fmt::format(", did you mean '{}'?", *near) : ""),
                   hint);
}

bool is_same_name(std::string_view a, std::string_view b) { return core::to_lower_ascii(a) == core::to_lower_ascii(b); }

/// Models of our own set whose work is computed from their dimensions.
std::optional<NominalFlops> find_computed(std::string_view model) {
  NominalFlops found{.set = kOwnSet, .model = std::string(model)};
  const auto take = [&](const char* sample, const FlopCount& count, double passes) {
    found.sample = sample;
    found.forward_gflops = count.flops / passes / kGiga;
    found.formula = count.formula;
    return found;
  };
  for (const std::string& name : clip_model_names())
    if (is_same_name(name, model)) return take("pair", clip_forward(resolve_clip_shape(name)), 1);
  for (const std::string& name : clap_model_names())
    if (is_same_name(name, model)) return take("pair", clap_forward(resolve_clap_shape(name)), 1);
  for (const std::string& name : gpt_model_names())
    if (is_same_name(name, model))
      return take("sequence", gpt_model(gpt_dims(resolve_gpt_shape(name)), AttentionCount::kCausal), kTrainingPasses);
  if (is_same_name(kResnet, model)) return take("image", resnet50_forward(), 1);
  return std::nullopt;
}

}  // namespace

namespace {

std::string captions_text(const ClipShape& shape, double flops) {
  if (!shape.captions) return "";
  return fmt::format(" and decoder ({:.2f} GFLOP, {} tokens of the picture)", flops / kGiga,
                     caption_image_tokens(shape.vision));
}

}  // namespace

FlopCount clip_forward(const ClipShape& shape) {
  const ClipCost cost = clip_cost(shape);
  return {cost.image_forward_flops + cost.text_forward_flops + cost.caption_forward_flops,
          fmt::format(
              "{}: forward of image ({:.2f} GFLOP, {} px) and text ({:.2f} GFLOP, nominal {} tokens, full attention){}",
              shape.name, cost.image_forward_flops / kGiga, shape.vision.image_size, cost.text_forward_flops / kGiga,
              shape.text.context_length, captions_text(shape, cost.caption_forward_flops))};
}

FlopCount clap_forward(const ClapShape& shape) {
  const ClapCost cost = clap_cost(shape);
  const double seconds = static_cast<double>(shape.audio.clip_samples) / static_cast<double>(shape.audio.sample_rate);
  return {
      cost.audio_computed_flops + cost.text_forward_flops,
      fmt::format(
          "{}: forward of audio ({:.2f} GFLOP, {:.4g} s; spectrogram by FFT and no classification head, which cost the "
          "reference {:.2f} more) "
          "and text ({:.2f} GFLOP, nominal {} tokens; {:.2f} at the tower's maximum of {}, as model profiles count)",
          shape.name, cost.audio_computed_flops / kGiga, seconds,
          (cost.audio_forward_flops - cost.audio_computed_flops) / kGiga, cost.text_forward_flops / kGiga,
          shape.text.context_length, cost.nominal_text_flops / kGiga, shape.text.max_positions)};
}

int64_t num_kept_patches(int64_t num_patches, double dropout) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(num_patches) * (1.0 - dropout)));
}

FlopCount clip_forward_trained(const ClipShape& shape) {
  const int64_t text_tokens = shape.text.context_length,
                image_tokens = shape.vision.tokens() - shape.vision.patches() +
                               num_kept_patches(shape.vision.patches(), shape.vision.patch_dropout);
  const double image = clip_image_forward_flops(shape, image_tokens),
               text = clip_text_forward_flops(shape, text_tokens),
               captions = clip_caption_forward_flops(shape, text_tokens - 1);
  return {image + text + captions,
          fmt::format(
              "{}: forward of image ({:.2f} GFLOP, {} tokens processed) and text ({:.2f} GFLOP, {} tokens processed){}",
              shape.name, image / kGiga, image_tokens, text / kGiga, text_tokens, captions_text(shape, captions))};
}

GptDims gpt_dims(const GptShape& shape, int64_t tp) {
  return {.layers = shape.layers,
          .hidden = shape.hidden,
          .sequence = shape.sequence,
          .vocab = shape.padded_vocab(tp),
          .heads = shape.heads,
          .query_groups = shape.query_groups,
          .ffn = shape.ffn,
          .head_width = shape.head_width,
          .is_gated = shape.is_gated()};
}

FlopCount gpt_model(const GptDims& dims, AttentionCount attention) {
  const auto [l, h, s, v, f, g, q] = letters_of(dims);
  const bool is_full = attention == AttentionCount::kFull;
  const double matrices = dims.is_gated ? 18 : 12;
  return {s * (12 * l * h * q * (1 + g + s / (is_full ? h : 2 * h)) + matrices * l * h * f + 6 * h * v),
          fmt::format("s (12 L h {} (1 + g/a + s/{}) + {} L h f + 6 h V) {} a={} g={} f={}{} ({} attention, 3 passes)",
                      q == h ? "h" : "q", is_full ? "h" : "(2h)", matrices, dims_text(dims), dims.heads,
                      dims.query_groups, f, q == h ? "" : fmt::format(" q={}", q), is_full ? "full" : "causal")};
}

FlopCount gpt_forward(const GptDims& dims, AttentionCount attention) {
  FlopCount count = gpt_model(dims, attention);
  return {count.flops / kTrainingPasses, "a third of " + count.formula};
}

FlopCount resnet50_forward() {
  return {8.18e9,
          "ResNet-50 at 224 px: 4.089 GMAC of convolutions and classifier; bound by memory and input, so images/s say "
          "more than MFU"};
}

std::vector<std::string> nominal_sets() { return {kOwnSet, "openclip-profile", "seed-000", "seed-004"}; }

std::vector<std::string> nominal_models(std::string_view set) {
  std::vector<std::string> models;
  for (const NominalRow& row : kNominal)
    if (set == row.set) models.emplace_back(row.model);
  if (set == kOwnSet) {
    for (std::string& name : clip_model_names()) models.push_back(std::move(name));
    for (std::string& name : clap_model_names()) models.push_back(std::move(name));
    for (std::string& name : gpt_model_names()) models.push_back(std::move(name));
    models.emplace_back(kResnet);
  }
  if (models.empty())
    throw_unknown("set of nominal FLOPs", set, nominal_sets(),
                  fmt::format("known: {}", core::join(nominal_sets(), ", ")));
  return models;
}

NominalFlops find_nominal(std::string_view set, std::string_view model) {
  const std::vector<std::string> models = nominal_models(set);
  for (const NominalRow& row : kNominal)
    if (set == row.set && is_same_name(row.model, model))
      return {.set = row.set,
              .model = row.model,
              .sample = row.sample,
              .forward_gflops = row.forward_gflops,
              .formula = row.formula};
  if (set == kOwnSet)
    if (auto found = find_computed(model)) return *found;
  throw_unknown(fmt::format("model of the nominal FLOPs '{}'", set), model, models,
                "give the forward GFLOP of one sample instead (--fwd-gflops)");
}

}  // namespace lockstep::config
