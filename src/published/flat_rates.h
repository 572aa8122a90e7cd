#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "published/formulas.h"

namespace lockstep::published {

/// Two rows of a curve and the devices (or nodes) of each.
struct FlatRate {
  std::string column{};  ///< Of rates of all devices, by its known name.
  size_t first = 0, last = 0;
  double first_size = 0, last_size = 0;
  const char* size_name = "devices";
};

/// Says that a rate which names no owner was read as that of one device; or asks, where it was read as that of all and
/// hardly changes while the devices grow. Else "".
std::string flat_rate_text(const FormulaContext& context, const FlatRate& rate, bool is_read_as_device);

/// That question for each curve of a table whose rates are read as those of all devices.
std::vector<std::string> flat_rate_texts(const FormulaContext& context);

}  // namespace lockstep::published
