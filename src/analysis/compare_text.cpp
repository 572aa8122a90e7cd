// What a comparison says: its verdicts, its table and its JSON.
#include <fmt/format.h>

#include <cmath>

#include "analysis/cells.h"
#include "analysis/compare.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
std::string size_verdict(const SizeComparison& one, bool is_per_sample) {
  const auto& interval = one.comparison.interval;
  if (one.is_across_sizes)
    return is_per_sample ? fmt::format(
                               "The sizes differ ({}): a sample takes {} ms in A and {} ms in B (A/B {:.4f}). That "
                               "follows from the size too and says nothing about which setting is faster.",
                               one.size, figure_text(one.a_ms), figure_text(one.b_ms), one.comparison.ratio)
                         : fmt::format(
                               "The sizes differ ({}) and the samples of a step are unknown: their step times cannot "
                               "be compared.",
                               one.size);
  const double percent = 100 * std::abs(one.comparison.ratio - 1);
  if (!interval)
    return fmt::format(
        "At {} A took {:.2f} % {} time than B, but there are too few values to tell noise from a difference.", one.size,
        percent, one.comparison.ratio < 1 ? "less" : "more");
  const auto& rank_p = one.comparison.rank_p;
  const std::string range =
      fmt::format("A/B {:.4f}, 95 % interval {:.4f} to {:.4f}{}", one.comparison.ratio, interval->low, interval->high,
                  rank_p ? fmt::format(", rank test p = {:.2g}", *rank_p) : "");
  const bool is_slower = interval->low > 1, is_faster = interval->high < 1;
  if (one.only_about.empty()) {
    constexpr double kUsualLevel = 0.05;
    if (is_slower || is_faster)
      return fmt::format(
          "At {} A is {} than B: {:.2f} % {} time ({}).{}", one.size, is_slower ? "slower" : "faster", percent,
          is_slower ? "more" : "less", range,
          rank_p.value_or(0) > kUsualLevel ? " The rank test alone does not confirm it; more runs would." : "");
    return fmt::format("At {} no difference between A and B can be shown ({}).", one.size, range);
  }
  const std::string found = is_slower || is_faster
                                ? fmt::format("these two {} differ: that of A took {:.2f} % {} time", one.only_about,
                                              percent, is_slower ? "more" : "less")
                                : fmt::format("no difference between these two {} can be shown", one.only_about);
  return fmt::format("At {} {} ({}). Nothing is concluded about A and B themselves: repeats may differ by more.",
                     one.size, found, range);
}

std::string conclusion_of(const SizeComparison& one) {
  const auto& interval = one.comparison.interval;
  if (one.is_across_sizes || !one.only_about.empty() || !interval) return "none";
  return interval->low > 1 ? "b_faster" : interval->high < 1 ? "a_faster" : "no_difference";
}

draw::Table comparison_table(const SideComparison& sides) {
  draw::Table table{.id = "comparison",
                    .title = fmt::format("A = {}, B = {}", sides.name_a, sides.name_b),
                    .caption = comparison_method(sides)};
  const std::string unit = sides.is_per_sample ? "ms per sample" : "ms per step";
  table.columns = {text_column("size", "size"), column("runs A", "runs_a"), column("runs B", "runs_b")};
  if (sides.is_per_sample)
    for (const auto& [title, key] : {std::pair("A ({})", "a_samples_per_s"), std::pair("B ({})", "b_samples_per_s")})
      table.columns.push_back(column(fmt::format(fmt::runtime(title), sides.rate_unit), key));
  for (const auto& [title, key] : {std::pair(fmt::format("A ({})", unit), "a_ms"),
                                   {fmt::format("B ({})", unit), "b_ms"},
                                   {"A/B", "ratio"},
                                   {"low", "ratio_low"},
                                   {"high", "ratio_high"}})
    table.columns.push_back(column(title, key));
  table.columns.push_back(text_column("compared", "basis"));
  for (const SizeComparison& one : sides.sizes) {
    const auto& interval = one.comparison.interval;
    std::vector<draw::Cell> row = {text_cell(one.size), count_cell(static_cast<int64_t>(one.num_a)),
                                   count_cell(static_cast<int64_t>(one.num_b))};
    if (sides.is_per_sample) row.insert(row.end(), {figure_cell(1e3 / one.a_ms), figure_cell(1e3 / one.b_ms)});
    row.insert(row.end(),
               {figure_cell(one.a_ms), figure_cell(one.b_ms), fixed_cell(one.comparison.ratio, 4),
                interval ? fixed_cell(interval->low, 4) : missing_cell("too few values"),
                interval ? fixed_cell(interval->high, 4) : missing_cell("too few values"), text_cell(one.basis)});
    table.rows.push_back(std::move(row));
    if (!std::isfinite(one.a_billed_ms) || !std::isfinite(one.b_billed_ms)) continue;
    table.rows.push_back({text_cell(one.size + ", billed"), count_cell(static_cast<int64_t>(one.num_a)),
                          count_cell(static_cast<int64_t>(one.num_b)), figure_cell(1e3 / one.a_billed_ms),
                          figure_cell(1e3 / one.b_billed_ms), figure_cell(one.a_billed_ms),
                          figure_cell(one.b_billed_ms), fixed_cell(one.a_billed_ms / one.b_billed_ms, 4),
                          missing_cell("not estimated"), missing_cell("not estimated"),
                          text_cell("wall clock, pauses included")});
  }
  return table;
}
}  // namespace

void tell_verdicts(SideComparison& sides) {
  std::vector<std::string> verdicts;
  for (SizeComparison& one : sides.sizes) {
    one.verdict = size_verdict(one, sides.is_per_sample);
    one.conclusion = conclusion_of(one);
    verdicts.push_back(one.verdict);
  }
  sides.verdict = core::join(verdicts, "\n");
  sides.table = comparison_table(sides);
}

std::string comparison_method(const SideComparison& sides) {
  return fmt::format(
      "{} are capability, as in `report`: of the median step after warm-up, pauses between steps left out. Of several "
      "runs (of each job first) they are the geometric mean; A/B is of times, and its interval is of the same "
      "values.{}",
      sides.is_per_sample ? "Rates and times per sample" : "Times per step",
      sides.is_per_sample ? " Rows named billed are of the wall clock, pauses included." : "");
}

std::string comparison_json(const SideComparison& sides) {
  core::Json sizes = core::Json::array();
  for (const SizeComparison& one : sides.sizes) {
    core::Json json{{"size", one.size},
                    {"runs_a", one.num_a},
                    {"runs_b", one.num_b},
                    {"basis", one.basis},
                    {"a_ms", one.a_ms},
                    {"b_ms", one.b_ms},
                    {"ratio", one.comparison.ratio},
                    {"verdict", one.verdict},
                    {"sizes_differ", one.is_across_sizes},
                    {"conclusion", one.conclusion}};
    if (sides.is_per_sample) json["a_samples_per_s"] = 1e3 / one.a_ms, json["b_samples_per_s"] = 1e3 / one.b_ms;
    if (std::isfinite(one.a_billed_ms)) json["a_billed_samples_per_s"] = 1e3 / one.a_billed_ms;
    if (std::isfinite(one.b_billed_ms)) json["b_billed_samples_per_s"] = 1e3 / one.b_billed_ms;
    if (const auto& interval = one.comparison.interval)
      json["interval"] = {interval->low, interval->high}, json["method"] = interval->method;
    if (one.comparison.rank_p) json["rank_test_p"] = *one.comparison.rank_p;
    sizes.push_back(std::move(json));
  }
  return core::Json{{"a", sides.name_a},
                    {"b", sides.name_b},
                    {"per", sides.is_per_sample ? "sample" : "step"},
                    {"sizes", std::move(sizes)},
                    {"notes", sides.notes}}
      .dump(1, ' ', false, core::Json::error_handler_t::replace);
}

}  // namespace lockstep::analysis
