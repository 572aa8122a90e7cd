#pragma once
#include <optional>
#include <string>

#include "analysis/options.h"
#include "record/run_data.h"

namespace lockstep::analysis {

/// The denominator of MFU, and in words where it is from.
struct Peak {
  double tflops = 0;
  std::string text{};
};

/// What the user gave, else what the run recorded, else the table of devices.
std::optional<Peak> peak_of(const record::RunSetup& setup, const AnalysisOptions& options);
/// The measured ceiling, where one is known.
std::optional<Peak> measured_peak_of(const record::RunSetup& setup, const AnalysisOptions& options);
/// What is wrong with the peak of this device, in one sentence; empty when nothing is.
std::string peak_doubt(const record::RunSetup& setup, const Peak& peak);

}  // namespace lockstep::analysis
