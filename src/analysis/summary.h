#pragma once
#include <string>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Every run in a line: name, state, size, steps, rate of its median step, last loss, and its curve, by name or by
/// number, or why it is in none. Of more than 40 the rest is counted in a note.
draw::Table run_overview(const Analysis& analysis, bool names_curves);

inline constexpr size_t kMaxFullCurves = 3, kMaxSummaryLines = 118;

/// The report for a terminal, in at most kMaxSummaryLines lines of at most 80 columns: the runs, a screen or less for
/// each curve, then what stands in the way of trusting them. Of more than kMaxFullCurves curves the details are left to
/// the page, and where that is not enough each has two or three lines.
std::string summary_text(const Analysis& analysis);

}  // namespace lockstep::analysis
