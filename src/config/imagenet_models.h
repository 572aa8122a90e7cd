#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/activation_bytes.h"
#include "config/flops.h"
#include "config/param_spec.h"

namespace lockstep::config {

/// A classifier of pictures as torchvision has it: a ResNet v1.5 (He et al. 2015; stride in the 3x3 convolution) or a
/// ViT (Dosovitskiy et al. 2021).
struct ClassifierShape {
  std::string name;  ///< torchvision's: "resnet50", "vit_b_16".
  int64_t num_classes = 1000;
  int64_t image_pixels = 224;

  // ResNet
  std::array<int64_t, 4> blocks{};  ///< Of each stage; all 0: a ViT.
  bool is_bottleneck = false;       ///< 1x1, 3x3, 1x1 with 4 times the channels; false: two 3x3.
  int64_t width = 64;               ///< Channels of the first stage; of a ViT the width of the tokens.

  // ViT
  int64_t patch_pixels = 0, layers = 0, heads = 0, mlp_width = 0;

  bool is_resnet() const { return blocks[0] > 0; }
  int64_t expansion() const { return is_bottleneck ? 4 : 1; }
  int64_t num_tokens() const;     ///< Of a ViT, with the class token.
  int64_t feature_width() const;  ///< What the classifier's last layer reads.
};

/// One residual block of a ResNet.
struct ResidualBlockShape {
  std::string name;  ///< "layer1.0"
  int64_t inputs = 0, planes = 0, stride = 1;
  bool has_projection = false;  ///< The shortcut has a convolution.
};

/// In forward order.
std::vector<ResidualBlockShape> residual_blocks(const ClassifierShape& shape);

/// Every name that --arch takes.
std::vector<std::string> classifier_names();

/// UsageError for a name that is not known, with the nearest one, and for a picture's size that does not suit it.
ClassifierShape classifier_shape(const std::string& name, int64_t num_classes, int64_t image_pixels);

/// A tensor of a file of weights.
struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

/// Does a name begin as the tensors of the layer that gives a classifier's scores do ("fc.weight", "heads.head.bias")?
bool is_classifier_head(std::string_view name);

/// The classifier whose tensors these are, all of them and in these shapes, with its number of classes and (of a ViT)
/// the size of its pictures; nothing where they are no classifier's that --arch knows. Counters of batch norm may be
/// missing.
std::optional<ClassifierShape> classifier_of_tensors(std::span<const NamedShape> tensors);

/// Parameters and buffers by torchvision's names in forward order, with its initial values: convolutions Kaiming-normal
/// by fan-out. With `zero_last_norm` the scale of the last batch norm of each block starts at 0 (Goyal et al. 2017).
/// All of them decay.
std::vector<ParamSpec> classifier_params(const ClassifierShape& shape, bool zero_last_norm);

/// Of one picture: convolutions, linear layers and attention.
FlopCount classifier_forward(const ClassifierShape& shape);

/// What a forward pass keeps of one picture for the backward pass.
double classifier_activation_bytes(const ClassifierShape& shape, const ActivationBytes& bytes);

}  // namespace lockstep::config
