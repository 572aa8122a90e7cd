#pragma once
#include <tuple>

#include "config/clip_shape.h"
#include "config/image_towers/convnext.h"
#include "config/image_towers/eva02.h"
#include "config/image_towers/fastvit.h"
#include "config/image_towers/modified_resnet.h"
#include "config/image_towers/swin.h"
#include "config/image_towers/timm_vit.h"
#include "config/image_towers/vision_transformer.h"
#include "core/error.h"

namespace lockstep::config {

/// Every kind of image tower: the only list of them.
using ImageTowers = std::tuple<ModifiedResnetTower, ConvNextTower, SwinTower, FastVitTower, Eva02Tower, TimmVitTower,
                               TimmStemVitTower, VitaminTower, VisionTransformerTower>;

namespace internal {

template <class Visit, ImageTower First, ImageTower... Rest>
decltype(auto) with_tower(std::tuple<First, Rest...>*, std::string_view name, const Visit& visit) {
  if constexpr (sizeof...(Rest) == 0) {
    LOCKSTEP_CHECK(name == First::kName, "tower={}", name);
    return visit(First{});
  } else {
    if (name == First::kName) return visit(First{});
    return with_tower(static_cast<std::tuple<Rest...>*>(nullptr), name, visit);
  }
}

}  // namespace internal

/// visit(tower) for the kind of the shape's tower, of type VisionTransformerTower and so on.
template <class Visit> decltype(auto) with_tower(const VisionShape& vision, const Visit& visit) {
  return internal::with_tower(static_cast<ImageTowers*>(nullptr), vision.tower, visit);
}

/// visit(tower) for every kind, in the order of the list.
template <class Visit> void for_each_tower(const Visit& visit) {
  std::apply([&](auto... towers) { (visit(towers), ...); }, ImageTowers{});
}

}  // namespace lockstep::config
