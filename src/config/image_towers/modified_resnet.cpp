#include "config/image_towers/modified_resnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/clip_shape.h"
#include "config/shape_check.h"

namespace lockstep::config {
namespace {

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

}  // namespace

bool ModifiedResnetTower::is_meant(const VisionShape& vision) { return !vision.stages.empty(); }

void ModifiedResnetTower::check(const ClipShape& shape) {
  const VisionShape& vision = shape.vision;
  if (vision.layer_scale)
    throw UsageError(fmt::format("clip: '{}': a ModifiedResNet has no ls_init_value", shape.name));
  require(vision.stages.size() == 4, shape,
          fmt::format("vision layers has {} entries, expected 4", vision.stages.size()));
  for (const int64_t blocks : vision.stages) require_between(shape, "vision layers", blocks, 1, 1000);
  require(vision.width % 2 == 0, shape, fmt::format("vision width={} must be even", vision.width));
  require(vision.image_size % 32 == 0, shape,
          fmt::format("image_size={} must be a multiple of 32 for a ModifiedResNet, nearest are {} and {}",
                      vision.image_size, std::max<int64_t>(1, vision.image_size / 32) * 32,
                      (vision.image_size / 32 + 1) * 32));
  require(vision.patch_dropout == 0.0, shape, "patch_dropout needs a vision transformer, this is a ModifiedResNet");
}

int64_t ModifiedResnetTower::feature_width(const VisionShape& vision) { return vision.width * 32; }

int64_t ModifiedResnetTower::grid(const VisionShape& vision) { return vision.image_size / 32; }

void ModifiedResnetTower::add_params(ParamList& list, const VisionShape& vision, int64_t embed_dim) {
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

double ModifiedResnetTower::forward_flops(const VisionShape& vision, int64_t embed_dim, int64_t) {
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

/// ModifiedResNet: of every convolution its result and that of the batch norm and ReLU behind it.
double ModifiedResnetTower::activation_bytes(const VisionShape& vision, const ActivationBytes& bytes) {
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

std::optional<BlockDims> ModifiedResnetTower::blocks(const VisionShape&) { return std::nullopt; }

std::vector<NameGroup> ModifiedResnetTower::layer_groups(const VisionShape&) {
  NameGroup stem;
  for (int layer = 1; layer <= 3; ++layer)
    for (const char* kind : {"conv", "bn"}) stem.push_back(fmt::format("visual.{}{}.", kind, layer));
  std::vector<NameGroup> groups = {stem};
  for (int stage = 1; stage <= 4; ++stage) groups.push_back({fmt::format("visual.layer{}.", stage)});
  groups.push_back({"visual.attnpool."});
  return groups;
}

}  // namespace lockstep::config
