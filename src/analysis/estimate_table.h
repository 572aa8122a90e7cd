#pragma once
#include <optional>
#include <string>

#include "analysis/cells.h"
#include "analysis/resource_estimate.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// "nodes", "devices", "cores"
std::string unit_of(const Curve& curve);
/// Ranks that share the cores of one machine take that machine, however many they are.
bool is_one_machine(const Curve& curve);
/// Do its sizes count devices, whose hours are told then?
bool is_in_device_hours(const Curve& curve);
/// "node-hours", "core-hours"
std::string hours_of(const Curve& curve);
/// What a site may bill by beside the hours of a curve's sizes, and how many of it they are; nothing where it is the
/// same.
std::optional<BilledUnit> billed_per_hour(const Curve& curve, const Point& point);

/// "8.7", with the interval as its note; the numbers times `scale`.
draw::Cell predicted_cell(const PredictedNumber& number, double scale, int decimals);
/// "Predicted for 32 nodes, not measured: an efficiency of 87.4 % ..."; empty where nothing is predicted.
std::string predicted_size_text(const Curve& curve, const ResourceEstimate& estimate);

/// Item by item, each with its source.
draw::Table estimate_table(const Curve& curve, const ResourceEstimate& estimate, const AnalysisOptions& analysis,
                           const ProposalOptions& options);

}  // namespace lockstep::analysis
