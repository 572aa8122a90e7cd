#include "report/analysis_peak.h"

#include <fmt/format.h>

#include "core/strings.h"

namespace lockstep::report {
namespace {
bool is_measured(const record::RunSetup& setup) { return core::starts_with(core::to_lower_ascii(setup.peak_source), "measured"); }
}  // namespace

std::optional<Peak> peak_of(const record::RunSetup& setup, const AnalysisOptions& options) {
  if (options.peak_tflops) return Peak{*options.peak_tflops, fmt::format("{:g} TFLOP/s, given", *options.peak_tflops)};
  if (setup.peak_tflops_per_device && !is_measured(setup))
    return Peak{*setup.peak_tflops_per_device, fmt::format("{:g} TFLOP/s, {}", *setup.peak_tflops_per_device, setup.peak_source.empty() ? "as recorded" : setup.peak_source)};
  return std::nullopt;
}

std::optional<Peak> measured_peak_of(const record::RunSetup& setup, const AnalysisOptions& options) {
  if (options.measured_peak_tflops) return Peak{*options.measured_peak_tflops, fmt::format("{:g} TFLOP/s, measured, given", *options.measured_peak_tflops)};
  if (setup.peak_tflops_per_device && is_measured(setup)) return Peak{*setup.peak_tflops_per_device, fmt::format("{:g} TFLOP/s, {}", *setup.peak_tflops_per_device, setup.peak_source)};
  return std::nullopt;
}

std::string peak_doubt(const record::RunSetup&, const Peak& peak) {
  if (peak.tflops > 0 && peak.tflops < 1e5) return "";
  return fmt::format("a peak of {:g} TFLOP/s is none of a single device", peak.tflops);
}

}  // namespace lockstep::report
