#pragma once
#include <string>
#include <vector>

#include "report/analysis_curve.h"

namespace lockstep::report {

/// Facts that the sources lack and that a report needs, each with what it is for and how to give it.
std::vector<std::string> missing_facts_of(const Analysis& analysis);

}  // namespace lockstep::report
