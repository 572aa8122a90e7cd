#include "tasks/contrastive/front/memory_plan.h"

#include <algorithm>
#include <vector>

#include "config/activation_bytes.h"
#include "config/precision_names.h"

namespace lockstep::tasks {
namespace {

constexpr double kFloatBytes = 4;
constexpr double kLogitBytes = 64 << 20;  // the contrastive loss works in tiles of at most this size

/// HTSAT: Swin blocks, whose attention looks at one window. On the CPU its kernel keeps no probabilities; elsewhere
/// they are made by single operators, of which autocast computes the softmax in fp32: that result is kept, and beside
/// it the copy in the compute type that the product with the values reads.
double htsat_bytes(const config::AudioShape& audio, const config::ActivationBytes& bytes) {
  const double window = static_cast<double>(audio.window * audio.window);
  const double pixels = static_cast<double>(audio.image_size * audio.image_size);
  double sum = 3 * pixels * 4;  // spectrogram, after the batch norm, as an image: fp32
  for (int64_t stage = 0; stage < audio.stages(); ++stage) {
    const auto index = static_cast<size_t>(stage);
    const double tokens = static_cast<double>(audio.stage_side(stage) * audio.stage_side(stage)),
                 width = static_cast<double>(audio.stage_width(stage));
    const bool has_autocast = bytes.compute < bytes.weight;
    const double probability_bytes = bytes.keeps_attention ? 0 : bytes.compute + (has_autocast ? kFloatBytes : 0);
    const double block =
        tokens * (2 * width * bytes.stream +
                  ((2 + 3 + 1) * width + 2 * static_cast<double>(audio.mlp_width(stage))) * bytes.compute +
                  static_cast<double>(audio.heads[index]) * window * probability_bytes);
    const double depth = static_cast<double>(audio.depths[index]);
    sum += bytes.grad_checkpointing ? depth * tokens * width * bytes.stream + (stage == 0 ? block : 0) : depth * block;
    sum += 2 * tokens * width * bytes.stream;  // between stages: permuted, normalised
  }
  return sum;
}

double text_bytes(const auto& text, int64_t mlp_width, const config::ActivationBytes& bytes) {
  return config::stack_activation_bytes({text.layers, text.context_length, text.width, text.heads, mlp_width}, bytes);
}

/// Parameters, gradients, moments, master copies.
void add_state(const std::vector<config::ParamSpec>& params, const std::set<std::string>& frozen,
               const MemoryPlanInput& input, MemoryPlan& plan) {
  const double share = 1.0 / static_cast<double>(input.optimizer_shards);
  for (const auto& param : params) {
    const auto count = static_cast<double>(param.numel());
    const bool is_narrow = config::is_16bit(param, input.precision);
    const bool has_master = is_narrow && config::has_masters(input.precision);
    plan.parameters += count * (is_narrow ? 2 : 4);
    if (param.is_buffer || frozen.contains(param.name)) continue;
    plan.gradients += count * (is_narrow && !input.has_fp32_gradients ? 2 : 4);
    plan.optimizer += static_cast<double>(input.num_moments) * count * (is_narrow && !has_master ? 2 : 4) * share;
    if (has_master) plan.masters += 4 * count * share;
  }
}

}  // namespace

std::vector<std::pair<std::string, double>> MemoryPlan::parts() const {
  return {{"parameters", parameters},   {"gradients", gradients},
          {"optimizer", optimizer},     {"masters", masters},
          {"activations", activations}, {"batch", batch},
          {"logits", logits},           {"cached_features", cached_features}};
}

MemoryPlan plan_contrastive_memory(const config::ContrastiveShape& shape, const MemoryPlanInput& input) {
  config::ActivationBytes bytes = config::activation_bytes_of(input.precision);
  bytes.keeps_attention = input.keeps_attention;
  bytes.grad_checkpointing = input.grad_checkpointing;
  MemoryPlan plan;
  add_state(shape.param_specs(), config::frozen_parameters(shape, input.locks), input, plan);
  plan.parameters += input.teacher_parameters * (bytes.weight == 2 ? 2 : 4);
  const double samples = static_cast<double>(input.micro_batch_size), all = static_cast<double>(input.global_batch);
  double other_input = 0;
  if (const auto* clip = shape.clip()) {
    const auto& locks = input.locks;
    const bool keeps_image = !locks.image || locks.image_unlocked_groups > 0;
    const bool keeps_text = !locks.text || locks.text_unlocked_groups > 0;
    plan.activations =
        samples * ((keeps_image ? config::clip_image_activation_bytes(clip->vision, bytes) : 0) +
                   (keeps_text || clip->captions ? config::clip_text_activation_bytes(*clip, bytes) : 0));
    other_input =
        3.0 * static_cast<double>(clip->vision.image_size * clip->vision.image_size) * (bytes.weight == 2 ? 2 : 4);
  } else {
    const auto& clap = *shape.clap();
    plan.activations = samples * (htsat_bytes(clap.audio, bytes) + text_bytes(clap.text, clap.text.mlp_width, bytes));
    other_input = static_cast<double>(clap.audio.clip_samples) * 4;
  }
  plan.batch = static_cast<double>(input.batches_held) * samples *
               (other_input + static_cast<double>(shape.context_length()) * 8);
  const double both_directions = std::min(2 * samples * all * 4, kLogitBytes);
  plan.logits = 3 * both_directions;  // logits, softmax, gradient; fp32
  if (input.teacher_parameters > 0)   // logits of student and teacher, their exponentials; a direction at a time
    plan.logits += 4 * both_directions / 2;
  plan.cached_features = input.cached_feature_bytes;
  return plan;
}

}  // namespace lockstep::tasks
