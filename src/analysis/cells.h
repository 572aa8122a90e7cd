#pragma once
#include <string>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// 1234567.8 with one decimal: "1,234,567.8".
std::string fixed_text(double value, int decimals);
/// At least `digits` significant digits and no needless decimals: "28,432", "5.21", "0.000123".
std::string figure_text(double value, int digits = 4);

/// A round amount of work: "10^9", "1.3 x 10^10".
std::string power_text(double value);

/// "weak scaling" -> "Weak scaling".
std::string capitalised(std::string text);

draw::Cell text_cell(std::string text, std::string note = "");
draw::Cell count_cell(int64_t value);
draw::Cell fixed_cell(double value, int decimals);     ///< A dash where the value is not finite.
draw::Cell figure_cell(double value, int digits = 4);  ///< Likewise.
/// "3.57 +- 0.02", as many decimals for both; where the arms differ by more than a fifth "60.76 (56.95 to 79.02)".
draw::Cell fixed_cell(const Estimate& estimate, int decimals);
draw::Cell percent_cell(double share, int decimals = 1);
/// "87.3 +- 0.4" in percent; likewise.
draw::Cell percent_cell(const Estimate& share, int decimals = 1);
/// "105.2 +- 0.4", two digits of the half; likewise.
draw::Cell figure_cell(const Estimate& estimate, int digits = 4);
draw::Cell missing_cell(std::string note);

draw::Column column(std::string title, std::string key);
draw::Column text_column(std::string title, std::string key);

/// The work that days and node-hours are given for: "10^12 tokens", "1.3 x 10^10 samples".
std::string work_text(const Point& point, const AnalysisOptions& options);
/// Whether the user gave it.
bool is_work_given(const Point& point, const AnalysisOptions& options);
/// Where that amount is from: "given with --budget-tokens".
std::string work_source(const Point& point, const AnalysisOptions& options);
/// " The amount is the default; --budget-samples changes it."; nothing where it was given.
std::string work_note(const Point& point, const AnalysisOptions& options);

/// What a site may bill by beside nodes, and how many of them a point has at work.
struct BilledUnit {
  const char* name = "";  ///< "GPU-hours" or "core-hours"
  double count = 0;
};
/// Nothing where the devices, or on processors the compute threads of a rank, are not known.
std::optional<BilledUnit> billed_unit(const Point& point);

/// "samples/s" or the sample unit of the point.
std::string rate_unit(const Point& point);

}  // namespace lockstep::analysis
