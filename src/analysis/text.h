#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// What the measurements say of one curve, in sentences with their numbers.
std::vector<std::string> conclusions_of(const Curve& curve, const AnalysisOptions& options);
/// What cannot be concluded from it, in sentences; empty when nothing is in the way.
std::vector<std::string> limits_of(const Curve& curve);
/// The part of them that no check and no table of runs tells: on the configuration and the kind of scaling.
std::vector<std::string> scaling_limits(const Curve& curve);
/// How everything was computed, for the method section of a paper or an application.
std::vector<std::string> method_of(const Analysis& analysis);
/// What was wrong with the sources, for a terminal: equal problems of several sources share a line, and of more than
/// `max_lines` the rest is counted.
std::vector<std::string> source_problems(const std::vector<RunSummary>& runs, size_t max_lines = 12);
/// What is in no point and why, for a terminal, with what can still be concluded or without: runs of
/// one reason share a line.
std::vector<std::string> left_out_lines(const Analysis& analysis, bool has_conclusions = true);
/// What the honesty checks found, for a terminal: a line for each kind, with its first finding.
std::vector<std::string> check_lines(const Analysis& analysis);
/// The first size above the base whose efficiency, at its lower bound where there is one, is above what is possible
/// (M09): no size is recommended then.
const Point* superlinear_point(const Curve& curve);
/// The largest size whose efficiency, at its lower bound where there is one, meets the target; nothing when none does.
const Point* recommended_point(const Curve& curve, double target);

}  // namespace lockstep::analysis
