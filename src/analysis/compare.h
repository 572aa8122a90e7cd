#pragma once
#include <string>
#include <vector>

#include "analysis/run.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// A against B at one size, of one configuration where a side has several. Below 1: A needs less time for a sample, it
/// is faster.
struct SizeComparison {
  std::string size{};
  bool is_across_sizes = false;  ///< A and B have different sizes: no verdict, only times per sample.
  size_t num_a = 0, num_b = 0;   ///< Runs.
  std::string basis{};           ///< What was compared: run medians, or the steps of one run each.
  double a_ms = 0, b_ms = 0;     ///< Per step or per sample, as in a report: of one run the median step, else
                                 ///< stats::centre_of_runs.
  /// Wall clock per sample, pauses included; NaN where no run tells it, and of times per step.
  double a_billed_ms = record::kUnknown, b_billed_ms = record::kUnknown;
  std::string only_about{};  ///< "runs" or "jobs": one of each stands behind the interval, which then says nothing
                             ///< about A and B themselves.
  stats::Comparison comparison{};
  std::string conclusion{};  ///< "a_faster", "b_faster", "no_difference" or "none".
  std::string verdict{};     ///< One plain sentence with names.
};

struct SideComparison {
  std::string name_a{}, name_b{};
  bool is_per_sample = false;
  std::string rate_unit = "samples/s";
  std::vector<SizeComparison> sizes{};
  std::vector<std::string> notes{};  ///< What differs between the sides, and what was left out.
  std::string verdict{};             ///< All sizes.
  draw::Table table{};
};

/// Compares two sides size by size and, where a side has several configurations at one size, each with the same one of
/// the other side; paired takes run i of A with run i of B of that configuration. DataError when a side has no usable
/// run or no size and configuration is on both. `given_a` and `given_b` are the paths that the user named: their last
/// parts name the sides; empty: by the runs.
SideComparison compare_sides(const std::vector<RunSummary>& a, const std::vector<RunSummary>& b, bool is_paired,
                             const std::string& given_a = "", const std::string& given_b = "");

/// Fills in the verdicts and the table; the last step of compare_sides.
void tell_verdicts(SideComparison& comparison);

/// What its rates and times are, in sentences.
std::string comparison_method(const SideComparison& comparison);

std::string comparison_json(const SideComparison& comparison);

}  // namespace lockstep::analysis
