// Parameters of CLAP in forward order, their initial laws and groups, and the work of one forward pass.
#include <algorithm>

#include "config/clap_shape.h"
#include "config/param_list.h"
#include "config/swin_blocks.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

SwinSizes sizes_of(const AudioShape& audio, int64_t stage) {
  return {.width = audio.stage_width(stage),
          .heads = audio.heads[static_cast<size_t>(stage)],
          .window = std::min(audio.window, audio.stage_side(stage)),
          .mlp_width = audio.mlp_width(stage)};
}

void add_audio(ParamList& list, const AudioShape& audio) {
  list.add_batch_norm("audio_branch.bn0", audio.mel_bins);
  const int64_t patch_inputs = audio.patch_size * audio.patch_size;
  list.add_conv("audio_branch.patch_embed.proj", 1, audio.width, audio.patch_size);
  list.add("audio_branch.patch_embed.proj.bias", {audio.width}, fan_in(patch_inputs), true);
  list.add_layer_norm("audio_branch.patch_embed.norm", audio.width);
  for (int64_t stage = 0; stage < audio.stages(); ++stage) {
    for (int64_t block = 0; block < audio.depths[static_cast<size_t>(stage)]; ++block)
      add_swin_block(list, fmt::format("audio_branch.layers.{}.blocks.{}", stage, block), sizes_of(audio, stage));
    if (stage + 1 < audio.stages())
      add_patch_merging(list, fmt::format("audio_branch.layers.{}.downsample", stage), audio.stage_width(stage));
  }
  list.add_layer_norm("audio_branch.norm", audio.feature_width());
  list.set_carried(true);
  const int64_t rows = audio.stage_side(audio.stages() - 1) / audio.time_pieces(), features = audio.feature_width();
  const InitLaw conv = fan_in(features * rows * 3);
  list.add("audio_branch.tscam_conv.weight", {audio.num_classes, features, rows, 3}, conv, true);
  list.add("audio_branch.tscam_conv.bias", {audio.num_classes}, conv, true);
  add_swin_linear(list, "audio_branch.head", audio.num_classes, audio.num_classes);
  list.set_carried(false);
}

void add_transform(ParamList& list, const std::string& name, int64_t width) {
  list.set_carried(true);
  for (const char* layer : {".sequential.0", ".sequential.3"})
    list.add_linear(name + layer, width, width, fan_in(width), fan_in(width));
  list.set_carried(false);
}

double product(std::initializer_list<int64_t> factors) {
  double result = 1.0;
  for (const int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

double swin_flops(const AudioShape& audio) {
  double total =
      product({2, audio.stage_side(0), audio.stage_side(0), audio.patch_size, audio.patch_size, audio.width});
  for (int64_t stage = 0; stage < audio.stages(); ++stage) {
    const int64_t width = audio.stage_width(stage), side = audio.stage_side(stage);
    total += static_cast<double>(audio.depths[static_cast<size_t>(stage)]) *
             swin_block_flops(sizes_of(audio, stage), side * side);
    if (stage + 1 < audio.stages()) total += product({2, side, side, width, 2 * width});
  }
  return total;
}

/// What only the reference computes: the STFT as two convolutions, the mel product as a dense one, and the unused head.
double reference_only_flops(const AudioShape& audio) {
  const int64_t frames = audio.frames(audio.clip_samples), bins = audio.fft_size / 2 + 1;
  const int64_t rows = audio.stage_side(audio.stages() - 1) / audio.time_pieces();
  const int64_t columns = audio.stage_side(audio.stages() - 1) * audio.time_pieces();
  return product({2, frames, audio.fft_size, 2 * bins}) + product({2, frames, bins, audio.mel_bins}) +
         product({2, columns, audio.feature_width(), 3 * rows, audio.num_classes});
}

}  // namespace

std::vector<ParamSpec> clap_param_specs(const ClapShape& shape) {
  ParamList list;
  add_audio(list, shape.audio);
  add_projection(list, "audio_projection", shape.audio.feature_width(), shape.embed_dim, shape.audio_projection);
  if (shape.has_transforms) add_transform(list, "audio_transform", shape.embed_dim);
  add_roberta(list, "text_branch.", shape.text);
  add_projection(list, "text_projection", shape.text.width, shape.embed_dim, shape.text_projection);
  if (shape.has_transforms) add_transform(list, "text_transform", shape.embed_dim);
  list.add("logit_scale_a", {}, constant(shape.init_logit_scale), false);
  list.bound_last(kLowestLogitScale, kHighestLogitScale);
  if (shape.has_transforms) {
    list.set_carried(true);
    list.add("logit_scale_t", {}, constant(shape.init_logit_scale), false);
  }
  return list.take();
}

double clap_text_forward_flops(const ClapShape& shape, int64_t tokens) {
  return roberta_forward_flops(shape.text, tokens) +
         projection_forward_flops(shape.text.width, shape.embed_dim, shape.text_projection);
}

ClapCost clap_cost(const ClapShape& shape) {
  ClapCost cost;
  for (const ParamSpec& spec : clap_param_specs(shape)) {
    if (spec.is_buffer && !spec.is_carried) continue;
    cost.parameters += spec.numel();
    if (!spec.is_carried) cost.trained_parameters += spec.numel();
    if (core::starts_with(spec.name, "audio_branch.")) cost.audio_parameters += spec.numel();
    if (core::starts_with(spec.name, "text_branch.")) cost.text_parameters += spec.numel();
  }
  cost.audio_computed_flops =
      swin_flops(shape.audio) +
      projection_forward_flops(shape.audio.feature_width(), shape.embed_dim, shape.audio_projection);
  cost.audio_forward_flops = cost.audio_computed_flops + reference_only_flops(shape.audio);
  cost.text_forward_flops = clap_text_forward_flops(shape, shape.text.context_length);
  cost.nominal_text_flops = clap_text_forward_flops(shape, shape.text.max_positions);
  return cost;
}

}  // namespace lockstep::config
