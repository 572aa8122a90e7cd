#include "analysis/peak.h"

#include <fmt/format.h>

#include "core/strings.h"
#include "hw/device_specs.h"

namespace lockstep::analysis {
namespace {
bool is_measured(const record::RunSetup& setup) {
  return core::starts_with(core::to_lower_ascii(setup.peak_source), "measured");
}

/// The device by its own name, else that of the system.
const hw::DeviceSpec* device_spec(const record::RunSetup& setup) {
  if (const hw::DeviceMatch match = hw::find_device(setup.device); match.spec != nullptr) return match.spec;
  const hw::SystemSpec* system = setup.device.empty() ? hw::find_system(setup.system) : nullptr;
  return system == nullptr ? nullptr : &hw::device_of(*system);
}
}  // namespace

std::optional<Peak> peak_of(const record::RunSetup& setup, const AnalysisOptions& options) {
  if (options.peak_tflops) return Peak{*options.peak_tflops, fmt::format("{:g} TFLOP/s, given", *options.peak_tflops)};
  if (setup.peak_tflops_per_device && !is_measured(setup))
    return Peak{*setup.peak_tflops_per_device,
                fmt::format("{:g} TFLOP/s, {}", *setup.peak_tflops_per_device,
                            setup.peak_source.empty() ? "as recorded" : setup.peak_source)};
  const hw::DeviceSpec* spec = device_spec(setup);
  const auto type = hw::compute_type_of_precision(setup.precision);
  if (spec == nullptr || !type) return std::nullopt;
  const auto tflops = hw::peak_tflops(*spec, *type);
  if (!tflops) return std::nullopt;
  return Peak{*tflops, fmt::format("{:g} TFLOP/s, dense {} of {} ({})", *tflops, hw::compute_type_name(*type),
                                   spec->name, spec->source)};
}

std::optional<Peak> measured_peak_of(const record::RunSetup& setup, const AnalysisOptions& options) {
  if (options.measured_peak_tflops)
    return Peak{*options.measured_peak_tflops,
                fmt::format("{:g} TFLOP/s, measured, given", *options.measured_peak_tflops)};
  if (setup.peak_tflops_per_device && is_measured(setup))
    return Peak{*setup.peak_tflops_per_device,
                fmt::format("{:g} TFLOP/s, {}", *setup.peak_tflops_per_device, setup.peak_source)};
  return std::nullopt;
}

std::string peak_doubt(const record::RunSetup& setup, const Peak& peak) {
  const hw::DeviceSpec* spec = device_spec(setup);
  const auto type = hw::compute_type_of_precision(setup.precision);
  return spec == nullptr || !type ? "" : hw::explain_peak_mismatch(*spec, *type, peak.tflops);
}

}  // namespace lockstep::analysis
