#pragma once
#include <string>
#include <vector>

#include "analysis/curve.h"
#include "predict/table_curves.h"

namespace lockstep::predict {

/// The curves of an analysis that have sizes and step times.
std::vector<MeasuredCurve> curves_of(const analysis::Analysis& runs, const TableRequest& request = {});

/// Curves of measured runs: run folders, folders of them, sweeps, or logs of other programs (whatever `report` reads).
/// A point is the median step of all runs of one configuration at one size; model, layout and system are those of the
/// records. EnvironmentError where nothing is found; DataError where no run has a usable size and step.
std::vector<MeasuredCurve> read_run_curves(const std::vector<std::string>& inputs, const TableRequest& request = {});

}  // namespace lockstep::predict
