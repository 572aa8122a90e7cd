#pragma once
#include <vector>

#include "record/run_data.h"
#include "report/analysis_run.h"

namespace lockstep::report {

/// What the estimators named in options.protocols say of the run.
std::vector<ProtocolNumber> protocol_numbers(const record::RunData& run, const AnalysisOptions& options);

}  // namespace lockstep::report
