#pragma once
#include "config/contrastive_shape.h"
#include "core/json.h"

namespace lockstep::config {

/// All of a shape that embeddings of given weights depend on, by name; enumerations as numbers. What only training or
/// captions depend on is left out.
core::Json shape_facts(const ContrastiveShape& shape);

}  // namespace lockstep::config
