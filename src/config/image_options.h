#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// Fields of the options that say how a decoded picture becomes the model's input; shared by training and inference.
struct ImageFields {
  std::vector<double>* mean;
  std::vector<double>* std;
  std::optional<std::string>* interpolation;
  std::optional<std::string>* resize_mode;
  std::optional<int64_t>* fill_color;
  std::string* resize_order;
};
/// Fields of the options that change a named model's shape.
struct ShapeFields {
  std::vector<int64_t>* image_size;
  bool* quick_gelu;
};

/// Of which models a command prepares pictures: help tells the defaults of all of them.
enum class PicturesOf { kClip, kClipOrClassifier };

void declare_image_options(core::OptionSet& set, const ImageFields& fields, PicturesOf models = PicturesOf::kClip);
void declare_shape_overrides(core::OptionSet& set, const ShapeFields& fields);

/// Where --model names a configuration with weights beside it, --pretrained is that, too; and where `pretrained` tells
/// how its pictures are prepared (preparation_of_weights), flags that nobody gave say so.
void fill_from_weights(core::OptionSet& set, const std::string& model, std::string& pretrained,
                       const ImageFields& fields);

/// UsageError unless mean and std have no, one or three values, and the image size no value, one, or two equal ones.
void check_image_options(const std::vector<double>& mean, const std::vector<double>& std,
                         const std::vector<int64_t>& image_size);

}  // namespace lockstep::config
