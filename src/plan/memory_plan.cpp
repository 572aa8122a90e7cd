#include "plan/memory_plan.h"

#include <algorithm>
#include <vector>

#include "config/precision_names.h"

namespace lockstep::plan {
namespace {

constexpr double kLogitBytes = 64 << 20;  // the contrastive loss works in tiles of at most this size

/// Bytes of one element of what is computed: by autocast (`compute`), and of the residual stream and the norms
/// (`stream`).
struct ElementBytes {
  double compute = 4, stream = 4, weight = 4;
};

ElementBytes element_bytes(const std::string& precision) {
  if (precision == "fp32") return {};
  if (config::has_16bit_weights(precision)) return {.compute = 2, .stream = 2, .weight = 2};
  return {.compute = 2, .stream = 4, .weight = 4};  // autocast over fp32 weights
}

struct Tower {
  double layers, tokens, width, heads, mlp_width;
};

/// One block keeps for each token: the input of both norms (stream), and in the compute type the norms' outputs,
/// queries, keys and values with their copies by head, the attention's result, both sides of the activation function.
double block_bytes(const Tower& tower, const ElementBytes& bytes, bool keeps_attention) {
  const double stream = 2 * tower.width * bytes.stream;
  const double compute =
      (2 + 6 + 1) * tower.width + 2 * tower.mlp_width + (keeps_attention ? tower.heads * tower.tokens : 0);
  return tower.tokens * (stream + compute * bytes.compute);
}

double tower_bytes(const Tower& tower, const ElementBytes& bytes, const MemoryPlanInput& input) {
  const double block = block_bytes(tower, bytes, input.keeps_attention);
  if (!input.grad_checkpointing) return tower.layers * block;
  return tower.layers * tower.tokens * tower.width * bytes.stream +
         block;  // inputs of all blocks, and one block at work
}

/// ModifiedResNet: of every convolution its result and that of the batch norm and ReLU behind it.
double resnet_bytes(const config::VisionShape& vision, const ElementBytes& bytes) {
  const auto area = [](double side) { return side * side; };
  const double half = static_cast<double>(vision.image_size) / 2, width = static_cast<double>(vision.width);
  double elements = 2 * area(half) * (width / 2 + width / 2 + width) + area(half / 2) * width;
  double side = half / 2, planes = width;
  for (size_t stage = 0; stage < vision.stages.size(); ++stage) {
    const double strided = stage == 0 ? side : side / 2;
    // First bottleneck: its 3x3 convolution works before the pooling; a pooled shortcut with a convolution.
    elements += 2 * area(side) * 2 * planes + area(strided) * (planes + 4 * planes * 2 + 4 * planes * 2);
    elements += static_cast<double>(vision.stages[stage] - 1) * 2 * area(strided) * (2 * planes + 4 * planes);
    side = strided;
    planes *= 2;
  }
  return elements * bytes.compute;
}

double image_bytes(const config::VisionShape& vision, const ElementBytes& bytes, const MemoryPlanInput& input) {
  if (vision.is_resnet()) return resnet_bytes(vision, bytes);
  return tower_bytes(
      {static_cast<double>(vision.layers), static_cast<double>(vision.tokens()), static_cast<double>(vision.width),
       static_cast<double>(vision.heads()), static_cast<double>(vision.mlp_width())},
      bytes, input);
}

/// HTSAT: Swin blocks, whose attention looks at one window; on the CPU its kernel keeps no probabilities.
double htsat_bytes(const config::AudioShape& audio, const ElementBytes& bytes, const MemoryPlanInput& input) {
  const double window = static_cast<double>(audio.window * audio.window);
  const double pixels = static_cast<double>(audio.image_size * audio.image_size);
  double sum = 3 * pixels * 4;  // spectrogram, after the batch norm, as an image: fp32
  for (int64_t stage = 0; stage < audio.stages(); ++stage) {
    const auto index = static_cast<size_t>(stage);
    const double tokens = static_cast<double>(audio.stage_side(stage) * audio.stage_side(stage)),
                 width = static_cast<double>(audio.stage_width(stage));
    const double probabilities = input.keeps_attention ? 0 : static_cast<double>(audio.heads[index]) * window;
    const double block =
        tokens *
        (2 * width * bytes.stream +
         ((2 + 3 + 1) * width + 2 * static_cast<double>(audio.mlp_width(stage)) + probabilities) * bytes.compute);
    const double depth = static_cast<double>(audio.depths[index]);
    sum += input.grad_checkpointing ? depth * tokens * width * bytes.stream + (stage == 0 ? block : 0) : depth * block;
    sum += 2 * tokens * width * bytes.stream;  // between stages: permuted, normalised
  }
  return sum;
}

double text_bytes(const auto& text, int64_t mlp_width, const ElementBytes& bytes, const MemoryPlanInput& input) {
  return tower_bytes({static_cast<double>(text.layers), static_cast<double>(text.context_length),
                      static_cast<double>(text.width), static_cast<double>(text.heads), static_cast<double>(mlp_width)},
                     bytes, input);
}

/// Parameters, gradients, moments, master copies.
void add_state(const std::vector<config::ParamSpec>& params, const MemoryPlanInput& input, MemoryPlan& plan) {
  const double share = 1.0 / static_cast<double>(input.optimizer_shards);
  for (const auto& param : params) {
    const auto count = static_cast<double>(param.numel());
    const bool is_narrow = config::is_16bit(param, input.precision);
    const bool has_master = is_narrow && config::has_masters(input.precision);
    plan.parameters += count * (is_narrow ? 2 : 4);
    if (param.is_buffer) continue;
    plan.gradients += count * (is_narrow && !input.has_fp32_gradients ? 2 : 4);
    plan.optimizer += 2 * count * (is_narrow && !has_master ? 2 : 4) * share;
    if (has_master) plan.masters += 4 * count * share;
  }
}

}  // namespace

MemoryPlan plan_contrastive_memory(const config::ContrastiveShape& shape, const MemoryPlanInput& input) {
  const ElementBytes bytes = element_bytes(input.precision);
  MemoryPlan plan;
  add_state(shape.param_specs(), input, plan);
  const double samples = static_cast<double>(input.samples_per_micro), all = static_cast<double>(input.global_batch);
  double other_input = 0;
  if (const auto* clip = shape.clip()) {
    plan.activations = samples * (image_bytes(clip->vision, bytes, input) +
                                  text_bytes(clip->text, clip->text.mlp_width(), bytes, input));
    other_input =
        3.0 * static_cast<double>(clip->vision.image_size * clip->vision.image_size) * (bytes.weight == 2 ? 2 : 4);
  } else {
    const auto& clap = *shape.clap();
    plan.activations =
        samples * (htsat_bytes(clap.audio, bytes, input) + text_bytes(clap.text, clap.text.mlp_width, bytes, input));
    other_input = static_cast<double>(clap.audio.clip_samples) * 4;
  }
  plan.batch = samples * (other_input + static_cast<double>(shape.context_length()) * 8);
  const double both_directions = std::min(2 * samples * all * 4, kLogitBytes);
  plan.logits = 3 * both_directions;  // logits, softmax, gradient; fp32
  return plan;
}

}  // namespace lockstep::plan
