#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// Facts that the sources lack and that a report needs, each with what it is for and how to give it.
std::vector<std::string> missing_facts_of(const Analysis& analysis);

}  // namespace lockstep::analysis
