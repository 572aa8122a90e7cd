#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "analysis/resource_estimate.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Nothing when the curve has no rate or no size (missing_estimate says which). Of a curve over devices every "node" is
/// a device, and job size and node-hours for tests, which are given in nodes, do not apply. Ranks on shared cores cost
/// the hours of their one machine, to which the node-hours for tests are added.
std::optional<ResourceEstimate> estimate_resources(const Curve& curve, const Analysis& analysis,
                                                   const ProposalOptions& options);

/// Why there is no estimate of a curve for which estimate_resources gives nothing.
std::string missing_estimate(const Curve& curve);

/// What an estimate needs and the user has not said, with the flag that says it.
std::vector<std::string> missing_for_proposal(const Analysis& analysis, const ProposalOptions& options);

/// Efficiency and step that are predicted of the size applied for, a sentence for each curve that was not measured
/// there.
std::vector<std::string> predicted_sizes(const Analysis& analysis, const ProposalOptions& options);

/// The evidence pack for computing-time applications: scaling table, plots,
/// estimate, alternatives, method text, manifest.
draw::Document make_proposal(const Analysis& analysis, const ProposalOptions& options);

}  // namespace lockstep::analysis
