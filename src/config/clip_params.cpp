// Parameters of CLIP in forward order, their initial laws and groups, and the work of one forward pass.
#include <algorithm>
#include <cmath>

#include "config/clip_shape.h"
#include "config/param_list.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

struct BlockLaws {
  InitLaw in_proj, out_proj, c_fc, c_proj;
};

void add_block(ParamList& list, const std::string& name, int64_t width, int64_t mlp_width, const BlockLaws& laws,
               const std::optional<double>& layer_scale) {
  list.add_layer_norm(name + ".ln_1", width);
  list.add(name + ".attn.in_proj_weight", {3 * width, width}, laws.in_proj, true);
  list.add(name + ".attn.in_proj_bias", {3 * width}, zeros(), true);
  list.add_linear(name + ".attn.out_proj", width, width, laws.out_proj, zeros());
  if (layer_scale) list.add(name + ".ls_1.gamma", {width}, constant(*layer_scale), false);
  list.add_layer_norm(name + ".ln_2", width);
  list.add_linear(name + ".mlp.c_fc", width, mlp_width, laws.c_fc, fan_in(width));
  list.add_linear(name + ".mlp.c_proj", mlp_width, width, laws.c_proj, fan_in(mlp_width));
  if (layer_scale) list.add(name + ".ls_2.gamma", {width}, constant(*layer_scale), false);
}

void add_vit(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t width = vision.width;
  const InitLaw scaled = normal(inverse_root(width));
  list.add_conv("visual.conv1", 3, width, vision.patch_size);
  list.add("visual.class_embedding", {width}, scaled, false);
  list.add("visual.positional_embedding", {vision.tokens(), width}, scaled, false);
  list.add_layer_norm("visual.ln_pre", width);
  const BlockLaws laws{uniform(std::sqrt(6.0 / static_cast<double>(4 * width))), fan_in(width), fan_in(width),
                       fan_in(vision.mlp_width())};
  for (int64_t i = 0; i < vision.layers; ++i)
    add_block(list, fmt::format("visual.transformer.resblocks.{}", i), width, vision.mlp_width(), laws,
              vision.layer_scale);
  list.add_layer_norm("visual.ln_post", width);
  list.add("visual.proj", {width, embed_dim}, scaled, true);
}

/// Bottlenecks of a ModifiedResNet: calls visit(name, inputs, planes, stride) in forward order.
template <typename Visit> void visit_bottlenecks(const VisionShape& vision, Visit&& visit) {
  int64_t inputs = vision.width;
  for (size_t stage = 0; stage < vision.stages.size(); ++stage) {
    const int64_t planes = vision.width << stage;
    for (int64_t block = 0; block < vision.stages[stage]; ++block) {
      visit(fmt::format("visual.layer{}.{}", stage + 1, block), inputs, planes,
            int64_t{stage > 0 && block == 0 ? 2 : 1});
      inputs = planes * 4;
    }
  }
}

void add_resnet(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
  const int64_t half = vision.width / 2, features = vision.feature_width();
  list.add_conv("visual.conv1", 3, half, 3);
  list.add_batch_norm("visual.bn1", half);
  list.add_conv("visual.conv2", half, half, 3);
  list.add_batch_norm("visual.bn2", half);
  list.add_conv("visual.conv3", half, vision.width, 3);
  list.add_batch_norm("visual.bn3", vision.width);
  visit_bottlenecks(vision, [&](const std::string& name, int64_t inputs, int64_t planes, int64_t stride) {
    list.add_conv(name + ".conv1", inputs, planes, 1);
    list.add_batch_norm(name + ".bn1", planes);
    list.add_conv(name + ".conv2", planes, planes, 3);
    list.add_batch_norm(name + ".bn2", planes);
    list.add_conv(name + ".conv3", planes, planes * 4, 1);
    list.add_batch_norm(name + ".bn3", planes * 4, zeros());
    if (stride == 1 && inputs == planes * 4) return;
    list.add_conv(name + ".downsample.0", inputs, planes * 4, 1);
    list.add_batch_norm(name + ".downsample.1", planes * 4);
  });
  const InitLaw scaled = normal(inverse_root(features));
  list.add("visual.attnpool.positional_embedding", {vision.tokens(), features}, scaled, false);
  for (const char* name : {"k_proj", "q_proj", "v_proj"})
    list.add_linear(fmt::format("visual.attnpool.{}", name), features, features, scaled, fan_in(features));
  list.add_linear("visual.attnpool.c_proj", features, embed_dim, scaled, fan_in(features));
}

void add_text(ParamList& list, const TextShape& text, int64_t embed_dim) {
  const int64_t width = text.width;
  const double attention = inverse_root(width), projection = attention * inverse_root(2 * text.layers);
  list.add("token_embedding.weight", {text.vocab_size, width}, normal(0.02), false);
  list.add("positional_embedding", {text.context_length, width}, normal(0.01), false);
  const BlockLaws laws{normal(attention), normal(projection), normal(inverse_root(2 * width)), normal(projection)};
  for (int64_t i = 0; i < text.layers; ++i)
    add_block(list, fmt::format("transformer.resblocks.{}", i), width, text.mlp_width(), laws, text.layer_scale);
  list.add_layer_norm("ln_final", width);
  list.add("text_projection", {width, embed_dim}, normal(attention), true);
}

double block_flops(int64_t tokens, int64_t width, int64_t mlp_width) {
  const auto t = static_cast<double>(tokens), w = static_cast<double>(width), f = static_cast<double>(mlp_width);
  return 2.0 * t * (4.0 * w * w + 2.0 * w * f) + 4.0 * t * t * w;
}

double resnet_flops(const VisionShape& vision, int64_t embed_dim) {
  double total = 0.0;
  const auto conv = [&](int64_t in, int64_t out, int64_t kernel, int64_t side) {
    total +=
        2.0 * static_cast<double>(in * kernel * kernel) * static_cast<double>(out) * static_cast<double>(side * side);
  };
  const int64_t half = vision.width / 2;
  int64_t side = vision.image_size / 2;
  conv(3, half, 3, side);
  conv(half, half, 3, side);
  conv(half, vision.width, 3, side);
  side /= 2;
  visit_bottlenecks(vision, [&](const std::string&, int64_t inputs, int64_t planes, int64_t stride) {
    conv(inputs, planes, 1, side);
    conv(planes, planes, 3, side);
    side /= stride;
    conv(planes, planes * 4, 1, side);
    if (stride != 1 || inputs != planes * 4) conv(inputs, planes * 4, 1, side);
  });
  const auto tokens = static_cast<double>(vision.tokens()), width = static_cast<double>(vision.feature_width());
  return total + 2.0 * tokens * width * (3.0 * width + static_cast<double>(embed_dim)) + 4.0 * tokens * tokens * width;
}

}  // namespace

std::vector<ParamSpec> clip_param_specs(const ClipShape& shape) {
  ParamList list;
  if (shape.vision.is_resnet()) {
    add_resnet(list, shape.vision, shape.embed_dim);
  } else {
    add_vit(list, shape.vision, shape.embed_dim);
  }
  add_text(list, shape.text, shape.embed_dim);
  const std::vector<int64_t> scalar = shape.nonscalar_logit_scale ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  list.add("logit_scale", scalar, constant(shape.init_logit_scale), false);
  list.bound_last(kLowestLogitScale, kHighestLogitScale);
  if (shape.init_logit_bias) list.add("logit_bias", scalar, constant(*shape.init_logit_bias), false);
  return list.take();
}

double clip_text_forward_flops(const ClipShape& shape, int64_t tokens) {
  const TextShape& text = shape.text;
  return static_cast<double>(text.layers) * block_flops(tokens, text.width, text.mlp_width()) +
         2.0 * static_cast<double>(text.width) * static_cast<double>(shape.embed_dim);
}

double clip_image_forward_flops(const ClipShape& shape, int64_t tokens) {
  const VisionShape& vision = shape.vision;
  if (vision.is_resnet()) return resnet_flops(vision, shape.embed_dim);
  const auto width = static_cast<double>(vision.width);
  const double patch_inputs = static_cast<double>(3 * vision.patch_size * vision.patch_size);
  return 2.0 * static_cast<double>(vision.tokens() - 1) * patch_inputs * width +
         static_cast<double>(vision.layers) * block_flops(tokens, vision.width, vision.mlp_width()) +
         2.0 * width * static_cast<double>(shape.embed_dim);
}

ClipCost clip_cost(const ClipShape& shape) {
  ClipCost cost;
  for (const ParamSpec& spec : clip_param_specs(shape)) {
    if (spec.is_buffer) continue;
    (core::starts_with(spec.name, "visual.") ? cost.image_parameters : cost.text_parameters) += spec.numel();
  }
  cost.image_forward_flops = clip_image_forward_flops(shape, shape.vision.tokens());
  cost.text_forward_flops = clip_text_forward_flops(shape, shape.text.context_length);
  return cost;
}

}  // namespace lockstep::config
