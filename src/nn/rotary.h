#pragma once
#include <ATen/core/TensorBody.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "config/gpt_shape.h"

namespace lockstep::nn {

/// Angle per position of each pair of turned elements (Su et al. 2021): base^(-2 i / width), stretched where the shape
/// says so.
std::vector<double> rotary_frequencies(int64_t width, double base, const std::optional<config::RotaryScaling>& scaling);

/// Cosine and sine of position x frequency, each [T, B or 1, 1, 1, width / 2].
struct RotaryTable {
  at::Tensor cosine, sine;
  bool is_defined() const { return cosine.defined(); }
};

/// `position_TB`: integers, [T, B] or [T, 1]. Angles and table in fp64.
RotaryTable make_rotary_table(const std::vector<double>& frequencies, const at::Tensor& position_TB);

/// Tables of one set of frequencies, which go to a device once; making a table then does not wait for it.
class RotaryCache {
 public:
  explicit RotaryCache(std::vector<double> frequencies = {}) : frequencies_(std::move(frequencies)) {}
  bool is_empty() const { return frequencies_.empty(); }
  /// As make_rotary_table.
  RotaryTable table(const at::Tensor& position_TB);
  /// Of positions 0, 1, ... in `type`, rounded once: [T, 1, 1, 1, width / 2]. Made when a length, device or type is
  /// new, and kept: a recorded step goes on reading it.
  const RotaryTable& table(int64_t tokens, const at::Device& device, at::ScalarType type);

 private:
  std::vector<double> frequencies_;
  at::Tensor rates_;
  std::map<std::array<int64_t, 4>, RotaryTable> firsts_;  // by tokens, kind and number of the device, type
};

/// Turns the first `width` elements of the last dim of x [T, B, groups, heads, K], element i with element i + width /
/// 2; in x's type.
at::Tensor rotate(const at::Tensor& x_TBGHK, const RotaryTable& table);

}  // namespace lockstep::nn
