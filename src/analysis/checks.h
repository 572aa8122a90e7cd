#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "analysis/curve.h"

namespace lockstep::analysis {

/// A check as the pages list it.
struct CheckInfo {
  std::string_view code{};        ///< "M12"
  std::string_view names{};       ///< Of its flags: "straggler, slow-node".
  std::string_view fires_when{};  ///< In Markdown.
  /// Flags one point, which may be of a table of results. nullptr: one of the checks that run together, in this folder.
  void (*check)(const Curve& curve, Point& point) = nullptr;
};

/// All checks, by code.
std::span<const CheckInfo> known_checks();

/// All checks of a curve, into its points' flags and, for those of the curve, the result.
std::vector<Flag> check_curve(Curve& curve, const std::vector<RunSummary>& runs);

}  // namespace lockstep::analysis
