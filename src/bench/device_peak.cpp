#include "bench/device_peak.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/gemm_peak.h"
#include "core/error.h"
#include "core/json.h"
#include "hw/counters.h"
#include "hw/device.h"
#include "hw/device_specs.h"

namespace lockstep::bench {
namespace {

DevicePeak read_measured_peak(const std::string& path, const std::string& type) {
  const core::Json document = core::read_json_file(path);
  const auto place = core::Json::json_pointer("/summary/measured_peak_tflops/" + type);
  if (!document.contains(place) || !document.at(place).is_number())
    throw DataError(
        fmt::format("bench: '{}' has no number at {}", path, place.to_string()),
        fmt::format("write it with `lockstep bench op --ops gemm --precisions {} --output {}` on this device", type,
                    path));
  return {.tflops = document.at(place), .source = fmt::format("measured: {}", path)};
}

}  // namespace

std::string device_name(at::Device device) {
  if (device.is_cpu()) return hw::cpu_name();
  const auto gpus = hw::CounterReader().gpu_names();
  return gpus.empty()
             ? "CUDA device"
             : gpus.at(std::min<size_t>(gpus.size() - 1, static_cast<size_t>(std::max<int>(0, device.index()))));
}

std::optional<DevicePeak> find_device_peak(const commands::BenchOptions& options, at::Device device) {
  const std::string& precision = options.train.precision;
  if (options.peak_tflops) return DevicePeak{.tflops = *options.peak_tflops, .source = "--peak-tflops"};
  if (!options.peak_file.empty()) return read_measured_peak(options.peak_file, product_type(precision, device));
  const auto match = hw::find_device(device_name(device));
  const auto type = hw::compute_type_of_precision(precision, !device.is_cpu() && options.train.gpu_math.tf32);
  if (match.spec == nullptr || !type) return std::nullopt;
  const auto tflops = hw::peak_tflops(*match.spec, *type);
  if (!tflops) return std::nullopt;
  return DevicePeak{
      .tflops = *tflops,
      .source = fmt::format("{}, dense {}: {}", match.spec->name, hw::compute_type_name(*type), match.spec->source)};
}

}  // namespace lockstep::bench
