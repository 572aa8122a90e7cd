#pragma once
#include <array>
#include <cstddef>
#include <vector>

namespace lockstep::data {

/// A number for each colour from an option that has one for each, one for all, or none: then it is `unset`.
template <typename Number>
std::array<Number, 3> per_colour(const std::vector<double>& values, const std::array<Number, 3>& unset) {
  if (values.empty()) return unset;
  std::array<Number, 3> out{};
  for (size_t colour = 0; colour < out.size(); ++colour)
    out[colour] = static_cast<Number>(values.size() == 1 ? values[0] : values.at(colour));
  return out;
}

}  // namespace lockstep::data
