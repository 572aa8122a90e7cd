#include "predict/input_rates.h"

#include <fmt/format.h>

#include "core/strings.h"

namespace lockstep::predict {
namespace {

constexpr double kSame = 1.01;  // steps beside what their input takes

std::string rates_text(const InputRates& rates) {
  std::vector<std::string> texts;
  if (rates.node_samples_per_s) texts.push_back(fmt::format("{:g} samples/s of a node", *rates.node_samples_per_s));
  if (rates.storage_samples_per_s)
    texts.push_back(fmt::format("{:g} samples/s of all nodes", *rates.storage_samples_per_s));
  return core::join(texts, ", ");
}
}  // namespace

KnownFact input_fact(const InputRates& rates, const std::string& unknown) {
  if (rates.is_known()) return {"input", rates_text(rates), "--input-samples-per-s, --storage-samples-per-s"};
  return {"input", "not known", unknown};
}

std::string input_limit(const MeasuredCurve& curve, const PredictedStep& step) {
  if (step.size.input_s <= 0 || step.step_s.p50 > kSame * step.size.input_s) return "";
  return curve.input.limits_by_node(step.size.nodes / static_cast<double>(curve.work.pp)) ? "loader" : "storage";
}

std::string input_limit_text(const MeasuredCurve& curve, std::span<const double> sizes,
                             std::span<const PredictedStep> steps) {
  std::vector<std::string> texts;
  const auto tell = [&](const std::string& limit, const std::optional<double>& rate, const char* whose) {
    std::vector<std::string> limited;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (input_limit(curve, steps[i]) == limit) limited.push_back(fmt::format("{:g}", sizes[i]));
    if (!limited.empty())
      texts.push_back(
          fmt::format("at {} {} by {} ({:g} samples/s)", core::join(limited, ", "), curve.size_name, whose, *rate));
  };
  tell("loader", curve.input.node_samples_per_s, "the loader of a node");
  tell("storage", curve.input.storage_samples_per_s, "the storage that all nodes share");
  if (texts.empty()) return "";
  return fmt::format("The input is the limit {}: devices wait for data, and faster ones would wait longer.",
                     core::join(texts, "; "));
}

std::string input_doubt_text(const MeasuredCurve& curve, const std::vector<CurvePoint>& points) {
  std::vector<std::string> limited, shorter;
  for (const CurvePoint& point : points) {
    const std::string size = fmt::format("{:g}", point.size);
    if (point.measured.is_input_bound())
      limited.push_back(size);
    else if (point.measured.step_s < point.measured.size.input_s)
      shorter.push_back(size);
  }
  std::vector<std::string> texts;
  if (!limited.empty())
    texts.push_back(fmt::format("The steps at {} {} took as long as their input takes by the given rates. {}",
                                core::join(limited, ", "), curve.size_name,
                                limited.size() < points.size()
                                    ? "They are left out of the calibration: devices waited."
                                    : "Devices waited: what they compute has an upper bound, and no more is known."));
  if (!shorter.empty())
    texts.push_back(
        fmt::format("The steps that calibrate at {} {} took no longer than their input takes by the given "
                    "rates: the input was faster than was given.",
                    core::join(shorter, ", "), curve.size_name));
  return core::join(texts, " ");
}

}  // namespace lockstep::predict
