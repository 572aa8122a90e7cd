#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// Longest name of a curve, in characters.
inline constexpr size_t kMaxNameLength = 70;

/// Names each curve by model and precision and by what tells it from the others (Curve::traits): its program, device or
/// batch where no option does. No two names are equal and none is longer than kMaxNameLength; what a name has no room
/// for becomes a remark.
void name_curves(std::vector<Curve>& curves, const std::vector<RunSummary>& runs);

/// Takes the name of a curve out of a title or subject: "Cost: ViT-B-32, bf16" -> "Cost", "ViT-B-32, bf16, 4 nodes" ->
/// "4 nodes".
std::string without_name(const std::string& text, const std::string& name);

}  // namespace lockstep::analysis
