#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lockstep::config {

/// UsageError "clip: model 'ViT-B-32': WHAT" unless `condition` holds. `Shape` tells its kind ("clip") and its name.
template <class Shape>
void require(bool condition, const Shape& shape, const std::string& what, const std::string& hint = "") {
  if (!condition) throw UsageError(fmt::format("{}: model '{}': {}", Shape::kKind, shape.name, what), hint);
}

/// UsageError unless low <= value <= high.
template <class Shape>
void require_between(const Shape& shape, std::string_view what, int64_t value, int64_t low, int64_t high) {
  require(low <= value && value <= high, shape,
          fmt::format("{}={} is out of range, expected {} to {}", what, value, low, high));
}

/// UsageError unless 0 <= value < 1.
template <class Shape> void require_fraction(const Shape& shape, std::string_view what, double value) {
  require(value >= 0.0 && value < 1.0, shape,
          fmt::format("{}={} is out of range, expected 0 <= value < 1", what, value));
}

}  // namespace lockstep::config
