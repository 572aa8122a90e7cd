#pragma once
#include <cmath>
#include <string>

#include "analysis/cells.h"

namespace lockstep::predict {

/// A predicted number, rounded to the digits that it is good for: "148,500", "0.9876".
inline std::string figure(double value, int digits = 4) {
  if (value == 0 || !std::isfinite(value)) return analysis::figure_text(value, digits);
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - (digits - 1));
  return analysis::figure_text(unit > 1 ? std::round(value / unit) * unit : value, digits);
}

}  // namespace lockstep::predict
