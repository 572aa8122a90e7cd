#pragma once
#include "data/shards/source_rows.h"

namespace lockstep::data {

/// Made-up pictures of stripes in one colour on black, synthetic_pixels square; the caption names the colour.
RowTable open_stripes(const SourceConfig& config);

}  // namespace lockstep::data
