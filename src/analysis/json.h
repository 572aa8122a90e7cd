#pragma once
#include <string>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// The analysis as JSON: every number of the page, so that each can be recomputed or read by a program.
std::string analysis_json(const Analysis& analysis);

}  // namespace lockstep::analysis
