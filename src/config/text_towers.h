#pragma once
#include <tuple>

#include "config/clip_shape.h"
#include "config/text_towers/m2m100_text.h"
#include "config/text_towers/roberta_text.h"
#include "config/text_towers/t5_text.h"
#include "config/text_towers/text_transformer.h"
#include "core/error.h"

namespace lockstep::config {

/// Every kind of text tower: the only list of them.
using TextTowers = std::tuple<TextTransformerTower, RobertaTextTower, T5TextTower, M2m100TextTower>;

namespace internal {

template <class Visit, TextTower First, TextTower... Rest>
decltype(auto) with_text_tower(std::tuple<First, Rest...>*, std::string_view name, const Visit& visit) {
  if constexpr (sizeof...(Rest) == 0) {
    LOCKSTEP_CHECK(name == First::kName, "tower={}", name);
    return visit(First{});
  } else {
    if (name == First::kName) return visit(First{});
    return with_text_tower(static_cast<std::tuple<Rest...>*>(nullptr), name, visit);
  }
}

}  // namespace internal

/// visit(tower) for the kind of the shape's text tower.
template <class Visit> decltype(auto) with_text_tower(const TextShape& text, const Visit& visit) {
  return internal::with_text_tower(static_cast<TextTowers*>(nullptr), text.tower, visit);
}

}  // namespace lockstep::config
