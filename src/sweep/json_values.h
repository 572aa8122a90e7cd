#pragma once
#include <optional>

#include "core/json.h"

namespace lockstep::sweep {

/// null where there is no value.
template <typename T> core::Json or_null(const std::optional<T>& value) {
  return value ? core::Json(*value) : core::Json(nullptr);
}

}  // namespace lockstep::sweep
