#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "config/activation_bytes.h"
#include "config/name_group.h"
#include "config/param_list.h"

namespace lockstep::models {
class ImageTower;
struct ClipModelOptions;
}  // namespace lockstep::models

namespace lockstep::config {

struct ClipShape;
struct VisionShape;

/// What a kind of image tower must tell; a struct of static functions, listed in image_towers.h.
template <class T>
concept ImageTower = requires(const VisionShape& vision, const ClipShape& shape, ParamList& list, int64_t count,
                              const ActivationBytes& bytes, const models::ClipModelOptions& options) {
  { T::kName } -> std::convertible_to<std::string_view>;  // "tower" of vision_cfg
  { T::kHasBatchNorm } -> std::convertible_to<bool>;      // --use-bn-sync concerns it
  { T::is_meant(vision) } -> std::same_as<bool>;          // by a vision_cfg that does not name its tower
  {T::check(shape)};                                      // UsageError for sizes that do not fit together
  { T::feature_width(vision) } -> std::same_as<int64_t>;  // in front of the last projection
  { T::grid(vision) } -> std::same_as<int64_t>;           // patches or cells along one side
  {T::add_params(list, vision, count)};                   // in forward order, names begin with "visual."; E
  { T::forward_flops(vision, count, count) } -> std::same_as<double>;   // one image; E, tokens in the blocks
  { T::activation_bytes(vision, bytes) } -> std::same_as<double>;       // one image, kept for the backward pass
  { T::blocks(vision) } -> std::same_as<std::optional<BlockDims>>;      // where it is a stack of equal blocks
  { T::layer_groups(vision) } -> std::same_as<std::vector<NameGroup>>;  // from the input on, as OpenCLIP's locks count
  { T::build(shape, options) } -> std::same_as<std::unique_ptr<models::ImageTower>>;  // in models/clip: engine only
};

}  // namespace lockstep::config
