#pragma once
#include "config/contrastive_shape.h"
#include "core/json.h"

namespace lockstep::config {

/// All of a shape that embeddings of given weights depend on, by name; enumerations by name, too. What only training or
/// captions depend on is left out.
core::Json shape_facts(const ContrastiveShape& shape);

/// Such facts as they were noted before, with enumerations as numbers, in the form of now; others as they are.
core::Json named_shape_facts(core::Json facts);

}  // namespace lockstep::config
