#include "config/imagenet_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "config/param_list.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

const std::vector<ClassifierShape>& known_classifiers() {
  static const std::vector<ClassifierShape> known = {
      {.name = "resnet18", .blocks = {2, 2, 2, 2}},
      {.name = "resnet34", .blocks = {3, 4, 6, 3}},
      {.name = "resnet50", .blocks = {3, 4, 6, 3}, .is_bottleneck = true},
      {.name = "resnet101", .blocks = {3, 4, 23, 3}, .is_bottleneck = true},
      {.name = "resnet152", .blocks = {3, 8, 36, 3}, .is_bottleneck = true},
      {.name = "vit_b_16", .width = 768, .patch_pixels = 16, .layers = 12, .heads = 12, .mlp_width = 3072},
      {.name = "vit_l_16", .width = 1024, .patch_pixels = 16, .layers = 24, .heads = 16, .mlp_width = 4096},
  };
  return known;
}

int64_t half_up(int64_t side) { return (side + 1) / 2; }  // of kernels with padding k / 2 and stride 2

/// He et al. 2015 by fan-out, as torchvision draws its convolutions.
InitLaw kaiming_fan_out(int64_t out, int64_t kernel) {
  return normal(std::sqrt(2.0 / static_cast<double>(out * kernel * kernel)));
}

InitLaw xavier_uniform(int64_t in, int64_t out) { return uniform(std::sqrt(6.0 / static_cast<double>(in + out))); }

void add_conv(ParamList& list, const std::string& name, int64_t in, int64_t out, int64_t kernel) {
  list.add(name + ".weight", {out, in, kernel, kernel}, kaiming_fan_out(out, kernel), true);
}

void add_resnet(ParamList& list, const ClassifierShape& shape, bool zero_last_norm) {
  add_conv(list, "conv1", 3, shape.width, 7);
  list.add_batch_norm("bn1", shape.width);
  const InitLaw last_norm = zero_last_norm ? zeros() : ones();
  for (const ResidualBlockShape& block : residual_blocks(shape)) {
    const int64_t outputs = block.planes * shape.expansion();
    add_conv(list, block.name + ".conv1", block.inputs, block.planes, shape.is_bottleneck ? 1 : 3);
    list.add_batch_norm(block.name + ".bn1", block.planes);
    add_conv(list, block.name + ".conv2", block.planes, block.planes, 3);
    list.add_batch_norm(block.name + ".bn2", block.planes, shape.is_bottleneck ? ones() : last_norm);
    if (shape.is_bottleneck) {
      add_conv(list, block.name + ".conv3", block.planes, outputs, 1);
      list.add_batch_norm(block.name + ".bn3", outputs, last_norm);
    }
    if (!block.has_projection) continue;
    add_conv(list, block.name + ".downsample.0", block.inputs, outputs, 1);
    list.add_batch_norm(block.name + ".downsample.1", outputs);
  }
  const int64_t features = shape.feature_width();
  list.add_linear("fc", features, shape.num_classes, fan_in(features), fan_in(features));
}

void add_vit(ParamList& list, const ClassifierShape& shape) {
  const int64_t width = shape.width, patch = shape.patch_pixels;
  list.add("class_token", {1, 1, width}, zeros(), false);
  list.add("conv_proj.weight", {width, 3, patch, patch}, normal(inverse_root(3 * patch * patch)), true);
  list.add("conv_proj.bias", {width}, zeros(), true);
  list.add("encoder.pos_embedding", {1, shape.num_tokens(), width}, normal(0.02), false);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("encoder.layers.encoder_layer_{}", layer);
    list.add_layer_norm(name + ".ln_1", width);
    list.add(name + ".self_attention.in_proj_weight", {3 * width, width}, xavier_uniform(width, 3 * width), true);
    list.add(name + ".self_attention.in_proj_bias", {3 * width}, zeros(), true);
    list.add_linear(name + ".self_attention.out_proj", width, width, fan_in(width), zeros());
    list.add_layer_norm(name + ".ln_2", width);
    list.add_linear(name + ".mlp.0", width, shape.mlp_width, xavier_uniform(width, shape.mlp_width), normal(1e-6));
    list.add_linear(name + ".mlp.3", shape.mlp_width, width, xavier_uniform(shape.mlp_width, width), normal(1e-6));
  }
  list.add_layer_norm("encoder.ln", width);
  list.add_linear("heads.head", width, shape.num_classes, zeros(), zeros());
}

/// Calls visit(outputs, multiply-adds per output, side of the output) for every convolution of a ResNet.
template <typename Visit> void visit_convolutions(const ClassifierShape& shape, Visit&& visit) {
  int64_t side = half_up(shape.image_pixels);
  visit(shape.width, 3 * 7 * 7, side);
  side = half_up(side);
  for (const ResidualBlockShape& block : residual_blocks(shape)) {
    const int64_t strided = block.stride == 2 ? half_up(side) : side, outputs = block.planes * shape.expansion();
    if (shape.is_bottleneck) {
      visit(block.planes, block.inputs, side);
      visit(block.planes, 9 * block.planes, strided);
      visit(outputs, block.planes, strided);
    } else {
      visit(block.planes, 9 * block.inputs, strided);
      visit(block.planes, 9 * block.planes, strided);
    }
    if (block.has_projection) visit(outputs, block.inputs, strided);
    side = strided;
  }
}

double vit_forward_flops(const ClassifierShape& shape) {
  const auto tokens = static_cast<double>(shape.num_tokens()), width = static_cast<double>(shape.width),
             mlp = static_cast<double>(shape.mlp_width), patch = static_cast<double>(shape.patch_pixels);
  const double layer = 2 * tokens * (4 * width * width + 2 * width * mlp) + 4 * tokens * tokens * width;
  return 2 * (tokens - 1) * 3 * patch * patch * width + static_cast<double>(shape.layers) * layer;
}

}  // namespace

int64_t ClassifierShape::num_tokens() const {
  const int64_t side = image_pixels / patch_pixels;
  return side * side + 1;
}

int64_t ClassifierShape::feature_width() const { return is_resnet() ? 8 * width * expansion() : width; }

std::vector<ResidualBlockShape> residual_blocks(const ClassifierShape& shape) {
  std::vector<ResidualBlockShape> blocks;
  int64_t inputs = shape.width;
  for (size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    const int64_t planes = shape.width << stage;
    for (int64_t block = 0; block < shape.blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      blocks.push_back({.name = fmt::format("layer{}.{}", stage + 1, block),
                        .inputs = inputs,
                        .planes = planes,
                        .stride = stride,
                        .has_projection = stride != 1 || inputs != planes * shape.expansion()});
      inputs = planes * shape.expansion();
    }
  }
  return blocks;
}

std::vector<std::string> classifier_names() {
  std::vector<std::string> names;
  for (const ClassifierShape& shape : known_classifiers()) names.push_back(shape.name);
  return names;
}

ClassifierShape classifier_shape(const std::string& name, int64_t num_classes, int64_t image_pixels) {
  for (ClassifierShape shape : known_classifiers()) {
    if (shape.name != name) continue;
    shape.num_classes = num_classes;
    shape.image_pixels = image_pixels;
    if (!shape.is_resnet() && (image_pixels < shape.patch_pixels || image_pixels % shape.patch_pixels != 0))
      throw UsageError(
          fmt::format("options: --train-crop-size {} is no multiple of the {} pixels of a patch of {}", image_pixels,
                      shape.patch_pixels, name),
          fmt::format("nearest: {} or {}", std::max<int64_t>(1, image_pixels / shape.patch_pixels) * shape.patch_pixels,
                      (image_pixels / shape.patch_pixels + 1) * shape.patch_pixels));
    return shape;
  }
  const auto nearest = core::nearest_name(name, classifier_names());
  throw UsageError(
      fmt::format("options: --arch '{}' is not known, expected {}", name, core::join_or(classifier_names())),
      nearest ? fmt::format("did you mean --arch {}?", *nearest) : "");
}

bool is_classifier_head(std::string_view name) {
  return core::starts_with(name, "fc.") || core::starts_with(name, "heads.head.");
}

std::optional<ClassifierShape> classifier_of_tensors(std::span<const NamedShape> tensors) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const NamedShape& tensor : tensors) shapes.emplace(tensor.name, tensor.shape);
  const auto rows_of = [&](const char* name) {
    const auto found = shapes.find(name);
    return found == shapes.end() || found->second.size() != 2 ? int64_t{0} : found->second[0];
  };
  for (ClassifierShape shape : known_classifiers()) {
    shape.num_classes = rows_of(shape.is_resnet() ? "fc.weight" : "heads.head.weight");
    if (shape.num_classes == 0) continue;
    if (!shape.is_resnet()) {
      const auto positions = shapes.find("encoder.pos_embedding");
      if (positions == shapes.end() || positions->second.size() != 3) continue;
      const auto patches = static_cast<double>(positions->second[1] - 1);
      shape.image_pixels = static_cast<int64_t>(std::lround(std::sqrt(std::max(patches, 1.0)))) * shape.patch_pixels;
    }
    size_t num_found = 0;
    const auto fits = [&](const ParamSpec& spec) {
      const auto found = shapes.find(spec.name);
      if (found == shapes.end()) return spec.name.ends_with("num_batches_tracked");
      ++num_found;
      return found->second == spec.shape || spec.name.ends_with("num_batches_tracked");
    };
    const std::vector<ParamSpec> specs = classifier_params(shape, /*zero_last_norm=*/false);
    if (std::all_of(specs.begin(), specs.end(), fits) && num_found == shapes.size()) return shape;
  }
  return std::nullopt;
}

std::vector<ParamSpec> classifier_params(const ClassifierShape& shape, bool zero_last_norm) {
  ParamList list;
  if (shape.is_resnet())
    add_resnet(list, shape, zero_last_norm);
  else
    add_vit(list, shape);
  std::vector<ParamSpec> specs = list.take();
  for (ParamSpec& spec : specs) spec.weight_decay = !spec.is_buffer;
  return specs;
}

FlopCount classifier_forward(const ClassifierShape& shape) {
  const double head = 2 * static_cast<double>(shape.feature_width() * shape.num_classes);
  if (!shape.is_resnet())
    return {vit_forward_flops(shape) + head,
            fmt::format("{} at {} px: linear layers, attention and classifier", shape.name, shape.image_pixels)};
  double flops = head;
  visit_convolutions(shape, [&](int64_t outputs, int64_t products, int64_t side) {
    flops += 2 * static_cast<double>(outputs * products) * static_cast<double>(side * side);
  });
  return {flops, fmt::format("{} at {} px: convolutions and classifier; bound by memory and input, so images/s say "
                             "more than MFU",
                             shape.name, shape.image_pixels)};
}

double classifier_activation_bytes(const ClassifierShape& shape, const ActivationBytes& bytes) {
  if (!shape.is_resnet())
    return stack_activation_bytes({shape.layers, shape.num_tokens(), shape.width, shape.heads, shape.mlp_width}, bytes);
  double elements = 0;  // of every convolution its result, and that of the batch norm and ReLU behind it
  visit_convolutions(shape, [&](int64_t outputs, int64_t, int64_t side) {
    elements += 2 * static_cast<double>(outputs) * static_cast<double>(side * side);
  });
  return elements * bytes.compute;
}

}  // namespace lockstep::config
