// Tables of one curve: rates, efficiency, cost.
#include "analysis/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "analysis/cells.h"
#include "analysis/column_table.h"
#include "analysis/work_times.h"
#include "core/strings.h"
#include "stats/series_interval.h"

namespace lockstep::analysis {
namespace {
using Columns = TableColumns<Point>;

draw::Cell size_count(int64_t count) {
  return count > 0 ? count_cell(count) : missing_cell("the source does not tell");
}

/// First columns of every table over sizes.
Columns size_columns(const Curve& curve) {
  Columns columns;
  if (!curve.is_by_devices)
    columns.push_back({column("nodes", "nodes"), [](const Point& point) { return size_count(point.nodes); }});
  const std::string places = std::string(device_word(curve)) + "s";
  columns.push_back({column(places, places), [](const Point& point) { return size_count(point.devices); }});
  return columns;
}

std::string unit_of_rates(const Curve& curve) {
  return curve.points.empty() ? "samples/s" : rate_unit(curve.points.front());
}

bool any_point(const Curve& curve, const std::function<bool(const Point&)>& fits) {
  return std::any_of(curve.points.begin(), curve.points.end(), fits);
}

draw::Cell optional_count(const std::optional<int64_t>& value) {
  return value ? count_cell(*value) : missing_cell("the source does not tell");
}

double per_device(const Point& point, double rate) {
  return point.devices > 0 ? rate / static_cast<double>(point.devices) : NAN;
}

/// "one size only" -> "One size only."
std::string sentence(const std::string& text) { return capitalised(text) + "."; }

std::string base_rate_text(const Curve& curve) {
  if (!curve.base) return sentence(curve.base_reason);
  const Point& base = curve.points[*curve.base];
  const bool is_known = std::isfinite(base.samples_per_s.value);
  return fmt::format(
      "Base: {}{}.", curve.base_reason,
      is_known ? fmt::format(", with {} {}", figure_text(base.samples_per_s.value), rate_unit(base)) : "");
}

constexpr const char* kUnknownRate = "needs the batch: the rate is unknown";

draw::Cell rate_cell(const Point& point, const Estimate& rate) {
  return std::isfinite(point.samples_per_s.value) ? figure_cell(rate) : missing_cell(kUnknownRate);
}

draw::Cell efficiency_cell(const Curve& curve, const Point& point) {
  if (std::isfinite(point.efficiency.value)) return percent_cell(point.efficiency);
  const bool lacks_rate = curve.base && !(std::isfinite(point.samples_per_s.value) &&
                                          std::isfinite(curve.points[*curve.base].samples_per_s.value));
  return missing_cell(lacks_rate ? kUnknownRate : curve.base_reason);
}

/// What rates, and all that follows from them, come from.
const char* rate_source(const Curve& curve) { return is_of_table(curve) ? "the table" : "the median step"; }

/// "M01 M04"
std::string check_codes(const Point& point) {
  std::set<std::string> codes;
  for (const Flag& flag : point.flags) codes.insert(flag.code);
  return core::join(std::vector<std::string>(codes.begin(), codes.end()), " ");
}

/// What the codes mean: "M01 few-steps, M04 single-run".
std::string check_names(const Curve& curve) {
  std::set<std::string> checks;
  for (const Point& point : curve.points)
    for (const Flag& flag : point.flags) checks.insert(flag.code + " " + flag.name);
  return core::join(std::vector<std::string>(checks.begin(), checks.end()), ", ");
}

/// " MFU counts against 989 TFLOP/s, dense bf16 of ...": every peak that the points use.
std::string peaks_text(const Curve& curve) {
  std::vector<std::string> peaks;
  for (const Point& point : curve.points)
    if (std::isfinite(point.mfu) && std::find(peaks.begin(), peaks.end(), point.peak_text) == peaks.end())
      peaks.push_back(point.peak_text);
  return peaks.empty() ? "" : fmt::format(" MFU is against a peak per device of {}.", core::join(peaks, "; "));
}

draw::Cell definition_cell(const Point& point, const char* name, double value) {
  const auto why = point.eff_missing.find(name);
  return why != point.eff_missing.end() ? missing_cell(why->second) : percent_cell(value);
}

double phase_ms(const Point& point, const std::string& phase) {
  const auto found = point.phases_ms.find(phase);
  return found != point.phases_ms.end() && std::isfinite(found->second) ? found->second : 0;
}

double phase_sum_ms(const Point& point, const std::vector<std::string>& phases) {
  double sum = 0;
  for (const std::string& phase : phases) sum += phase_ms(point, phase);
  return sum;
}

/// Phases of all points that took time, the largest at the largest size first; "other" is last.
std::vector<std::string> phases_by_share(const Curve& curve) {
  std::vector<std::string> phases;
  const Point* largest = nullptr;
  for (const Point& point : curve.points) {
    if (!point.phases_ms.empty()) largest = &point;
    for (const auto& [phase, ms] : point.phases_ms)
      if (phase_ms(point, phase) > 0 && std::find(phases.begin(), phases.end(), phase) == phases.end())
        phases.push_back(phase);
  }
  std::stable_sort(phases.begin(), phases.end(), [&](const std::string& a, const std::string& b) {
    const bool is_a_other = a == "other", is_b_other = b == "other";
    return is_a_other != is_b_other ? is_b_other : phase_ms(*largest, a) > phase_ms(*largest, b);
  });
  return phases;
}

/// Percent with one decimal that add up to 100.0 as printed: what rounding down leaves goes to those
/// that lost most by it.
std::vector<double> percents_of(const Point& point, const std::vector<std::string>& phases) {
  constexpr int kTenths = 1000;
  const double sum = phase_sum_ms(point, phases);
  std::vector<double> exact, tenths;
  std::vector<size_t> order;
  int left = kTenths;
  for (const std::string& phase : phases) {
    order.push_back(order.size());
    exact.push_back(sum > 0 ? kTenths * phase_ms(point, phase) / sum : 0);
    tenths.push_back(std::floor(exact.back()));
    left -= static_cast<int>(tenths.back());
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return exact[a] - tenths[a] > exact[b] - tenths[b]; });
  for (const size_t i : order)
    if (sum > 0 && left-- > 0) ++tenths[i];
  for (double& value : tenths) value /= 10;
  return tenths;
}

/// Was something else computed than the nominal figure says?
bool has_other_count(const record::RunSetup& setup) {
  return setup.processed_gflops_per_sample && setup.forward_gflops_per_sample &&
         *setup.processed_gflops_per_sample != *setup.forward_gflops_per_sample;
}

/// MFU with the FLOPs that were computed.
double processed_mfu(const Point& point) {
  return has_other_count(point.setup)
             ? point.mfu * *point.setup.processed_gflops_per_sample / *point.setup.forward_gflops_per_sample
             : point.mfu;
}

/// By how much, and why.
std::string processed_note(const Curve& curve) {
  for (const Point& point : curve.points)
    if (has_other_count(point.setup))
      return fmt::format(" Computed were {:.4g} of {:.4g} GFLOP forward per sample ({}).",
                         *point.setup.processed_gflops_per_sample, *point.setup.forward_gflops_per_sample,
                         point.setup.processed_formula);
  return "";
}

void drop_columns(draw::Table& table, const std::set<std::string>& keys) {
  for (size_t index = table.columns.size(); index-- > 0;) {
    if (!keys.contains(table.columns[index].key)) continue;
    table.columns.erase(table.columns.begin() + static_cast<ptrdiff_t>(index));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<ptrdiff_t>(index));
  }
}

draw::Cell mfu_cell(const Point& point) {
  if (std::isfinite(point.mfu)) return percent_cell(proportional(point.mfu, point.samples_per_s));
  return missing_cell(
      std::isfinite(point.logged_mfu)
          ? "needs FLOPs per sample; the table of rates has the MFU by the TFLOP/s that the program itself printed"
          : "needs FLOPs per sample, a peak and the number of devices");
}

draw::Cell num_runs_cell(const Point& point) { return count_cell(static_cast<int64_t>(point.runs.size())); }

/// What the numbers of a curve's sizes are, in sentences.
std::string values_text(const Curve& curve) {
  const bool has_range = any_point(curve, [](const Point& point) {
    return point.samples_per_s.has_range || point.efficiency.has_range || step_estimate(point).has_range;
  });
  return fmt::format(
      "Rates are those of {}; efficiency is the rate per {} over that of the base. {}{}", rate_source(curve),
      unit_name(curve),
      is_of_table(curve) ? "Several rows of one size have their geometric mean."
                         : "A step of several runs is the geometric mean of their medians.",
      has_range ? " +- is half of a 95 % interval; where its arms differ by more than a fifth, both ends are shown."
                : "");
}
}  // namespace

draw::Table scaling_table(const Curve& curve) {
  if (is_of_times(curve)) return work_time_table(curve);
  const bool has_rows = is_of_table(curve);
  draw::Table table{.id = "scaling-" + curve.id, .title = fmt::format("{}: {}", curve.name, scaling_name(curve.kind))};
  table.caption = fmt::format("{} {} {}", sentence(curve.kind_reason), base_rate_text(curve), values_text(curve));
  if (curve.shares_cores)
    table.caption += " The ranks shared the cores of one machine: this is the efficiency of shared cores.";
  table.caption += peaks_text(curve);
  Columns columns = size_columns(curve);
  const auto add = [&](std::string title, std::string key, std::function<draw::Cell(const Point&)> cell) {
    columns.push_back({column(std::move(title), std::move(key)), std::move(cell)});
  };
  const std::string unit = unit_of_rates(curve);
  add("global batch", "global_batch", [](const Point& point) { return optional_count(point.setup.global_batch); });
  add("local batch", "local_batch", [](const Point& point) { return optional_count(point.setup.samples_per_device); });
  add(unit, "rate_per_s", [](const Point& point) { return rate_cell(point, point.samples_per_s); });
  add(unit + " per device", "rate_per_device_per_s",
      [](const Point& point) { return rate_cell(point, {.value = per_device(point, point.samples_per_s.value)}); });
  if (any_point(curve, is_token_task))
    add("tokens/s per device", "tokens_per_s_per_device",
        [](const Point& point) { return figure_cell(per_device(point, point.tokens_per_s)); });
  add("speed-up", "speedup", [](const Point& point) { return fixed_cell(speedup_estimate(point), 2); });
  add("efficiency (%)", "efficiency_pct", [&](const Point& point) { return efficiency_cell(curve, point); });
  add("MFU (%)", "mfu_pct", mfu_cell);
  if (!has_rows || any_point(curve, [](const Point& point) { return point.has_step_time; }))
    add(has_rows ? "step (ms)" : "step p50 (ms)", "step_p50_ms", [](const Point& point) {
      draw::Cell cell = figure_cell(step_estimate(point));
      cell.note = point.no_interval;
      return cell;
    });
  add(has_rows ? "rows" : "runs", "runs", num_runs_cell);
  columns.push_back(
      {text_column("checks", "checks"), [](const Point& point) { return text_cell(check_codes(point)); }});
  fill_table(table, columns, curve.points);
  if (const std::string names = check_names(curve); !names.empty()) table.notes.push_back("Checks: " + names);
  return table;
}

draw::Table short_scaling_table(const Curve& curve) {
  std::set<std::string> dropped = {"local_batch", "rate_per_device_per_s", "speedup", "checks"};
  if (any_point(curve, is_token_task)) dropped.insert("rate_per_s");  // tokens say the same
  draw::Table table = scaling_table(curve);
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (std::none_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[i].value; }))
      dropped.insert(table.columns[i].key);
  drop_columns(table, dropped);
  table.notes.clear();  // on the checks
  return table;
}

draw::Table quantile_table(const Curve& curve) {
  draw::Table table{.id = "quantiles-" + curve.id, .title = "Step times by size: " + curve.name};
  if (is_of_table(curve)) return table;
  table.caption = "Quantiles over the steps of all runs of a size, warm-up left out; p99 from 100 of them on.";
  for (const Point& point : curve.points)
    if (point.steps_per_row > 1) {
      table.caption += fmt::format(" The logs tell means over {:.0f} steps: the quantiles are those of such means.",
                                   point.steps_per_row);
      break;
    }
  Columns columns = size_columns(curve);
  for (const auto& [title, key, ms] : {std::tuple{"p50 (ms)", "step_p50_ms", &Point::p50_ms},
                                       {"p95 (ms)", "step_p95_ms", &Point::p95_ms},
                                       {"p99 (ms)", "step_p99_ms", &Point::p99_ms}})
    columns.push_back({column(title, key), [ms = ms](const Point& point) { return figure_cell(point.*ms); }});
  columns.push_back({column("runs", "runs"), num_runs_cell});
  columns.push_back({column("jobs", "jobs"), [](const Point& point) {
                       return point.num_allocations ? count_cell(static_cast<int64_t>(*point.num_allocations))
                                                    : missing_cell("the runs do not all name their job");
                     }});
  columns.push_back({column("steps", "steps"), [](const Point& point) { return count_cell(point.num_steps); }});
  fill_table(table, columns, curve.points);
  return table;
}

draw::Table efficiency_table(const Curve& curve) {
  draw::Table table{.id = "efficiency-" + curve.id, .title = "Efficiency by each definition: " + curve.name};
  table.caption = fmt::format("E = rate per {0} / rate per {0} of the base, at the rates of {1}. ", unit_name(curve),
                              rate_source(curve));
  table.caption +=
      "eff_epoch = T_ep(N0) N0 / (n T_ep(n)) and eff_train the same for the training part (validation left out): these "
      "need epochs of a fixed data set. eff_batch = tb(N0) / tb(n), median step times at equal local batch. eff_tput = "
      "x(n) / x(N0), x = total samples / total step seconds per device. Serial fraction after Karp and Flatt = (1/S - "
      "1/p) / (1 - 1/p), p = n/N0: flat over n means a fixed serial part, rising means communication.";
  if (!curve.base || curve.points.size() < 2) return table;
  Columns columns = size_columns(curve);
  const auto add = [&](const char* title, const char* key, std::function<draw::Cell(const Point&)> cell) {
    columns.push_back({column(title, key), std::move(cell)});
  };
  add("E (%)", "efficiency_pct", [](const Point& point) { return percent_cell(point.efficiency.value); });
  if (any_point(curve, [](const Point& point) { return point.efficiency.has_range; }))
    for (const auto& [title, key, end] :
         {std::tuple{"low", "efficiency_low_pct", &Estimate::low}, {"high", "efficiency_high_pct", &Estimate::high}})
      add(title, key, [end = end](const Point& point) {
        return point.efficiency.has_range ? percent_cell(point.efficiency.*end) : draw::Cell{};
      });
  for (const auto& [name, value] :
       {std::pair{"eff_epoch", &Point::eff_epoch}, {"eff_train", &Point::eff_train}, {"eff_batch", &Point::eff_batch}})
    columns.push_back(
        {column(fmt::format("{} (%)", name), fmt::format("{}_pct", name)),
         [name = name, value = value](const Point& point) { return definition_cell(point, name, point.*value); }});
  add("eff_tput (%)", "eff_tput_pct", [](const Point& point) { return percent_cell(point.eff_tput); });
  add("serial fraction", "karp_flatt", [](const Point& point) { return figure_cell(point.karp_flatt, 3); });
  fill_table(table, columns, curve.points);
  return table;
}

draw::Table interval_table(const Curve& curve) {
  draw::Table table{.id = "intervals-" + curve.id, .title = "95 % intervals: " + curve.name};
  table.caption = fmt::format(
      "All from the interval of the step time. Of a single run: {}. Of several: Student's t on the logarithms of the "
      "values of jobs, or of the runs of one job, around their geometric mean. Speed-up and efficiency add the "
      "relative uncertainties of size and base in quadrature.",
      stats::kMedianIntervalMethod);
  Columns columns = size_columns(curve);
  const auto add = [&](const std::string& title, const char* key, double factor,
                       const std::function<Estimate(const Point&)>& estimate) {
    for (const auto& [name, end] : {std::pair{"low", &Estimate::low}, {"high", &Estimate::high}})
      columns.push_back({column(fmt::format("{}, {}", title, name), fmt::format("{}_{}", key, name)),
                         [factor, estimate, end = end](const Point& point) {
                           const Estimate of_point = estimate(point);
                           return of_point.has_range ? figure_cell(factor * of_point.*end) : draw::Cell{};
                         }});
  };
  add("step (ms)", "step_ms", 1, step_estimate);
  add(unit_of_rates(curve), "rate_per_s", 1, [](const Point& point) { return point.samples_per_s; });
  add("MFU (%)", "mfu_pct", 100, [](const Point& point) { return proportional(point.mfu, point.samples_per_s); });
  add("speed-up", "speedup", 1, speedup_estimate);
  add("efficiency (%)", "efficiency_pct", 100, [](const Point& point) { return point.efficiency; });
  std::vector<Point> with_range = curve.points;
  std::erase_if(with_range, [](const Point& point) { return !step_estimate(point).has_range; });
  fill_table(table, columns, with_range);
  return table;
}

draw::Table rate_table(const Curve& curve) {
  const std::string unit = unit_of_rates(curve);
  draw::Table table{.id = "rates-" + curve.id, .title = "Rates and utilisation: " + curve.name};
  table.caption =
      "Capability comes from the median step; the mean is total samples over total step seconds; billed is total "
      "samples over wall seconds of the same window, pauses included.";
  if (!curve.points.empty() && !curve.points[0].peak_text.empty())
    table.caption += " MFU = model FLOPs / (seconds x devices x peak); peak: " + curve.points[0].peak_text + ".";
  if (!curve.points.empty() && !curve.points[0].setup.flops_formula.empty())
    table.caption += " FLOPs: " + curve.points[0].setup.flops_formula + ".";
  table.caption += processed_note(curve);
  Columns columns = size_columns(curve);
  const auto add_share = [&](const char* title, const char* key, std::function<double(const Point&)> share) {
    columns.push_back({column(title, key), [share](const Point& point) { return percent_cell(share(point)); }});
  };
  const auto add_figure = [&](std::string title, const char* key, double Point::*value) {
    columns.push_back(
        {column(std::move(title), key), [value](const Point& point) { return figure_cell(point.*value); }});
  };
  columns.push_back({column(fmt::format("capability ({})", unit), "capability_per_s"),
                     [](const Point& point) { return figure_cell(point.samples_per_s.value); }});
  add_figure(fmt::format("mean ({})", unit), "mean_per_s", &Point::mean_samples_per_s);
  add_figure(fmt::format("billed ({})", unit), "billed_per_s", &Point::billed_samples_per_s);
  add_figure("tokens/s", "tokens_per_s", &Point::tokens_per_s);
  add_figure("TFLOP/s per device", "tflops_per_device", &Point::tflops_per_device);
  add_share("MFU, table peak (%)", "mfu_pct", [](const Point& point) { return point.mfu; });
  add_share("MFU, measured peak (%)", "mfu_measured_pct", [](const Point& point) { return point.mfu_measured; });
  if (any_point(curve, [](const Point& point) { return has_other_count(point.setup); }))
    add_share("MFU, computed FLOPs (%)", "mfu_processed_pct", processed_mfu);
  if (any_point(curve, [](const Point& point) { return std::isfinite(point.logged_tflops_per_device); })) {
    table.caption +=
        " Logged TFLOP/s are those that the program itself printed, by its own count of FLOPs (median of the measured "
        "lines), and the MFU by them is their share of the peak.";
    add_figure("logged TFLOP/s per device", "logged_tflops_per_device", &Point::logged_tflops_per_device);
    add_share("MFU by logged (%)", "logged_mfu_pct", [](const Point& point) { return point.logged_mfu; });
  }
  fill_table(table, columns, curve.points);
  return table;
}

draw::Table cost_table(const Curve& curve, const AnalysisOptions& options) {
  draw::Table table{.id = "cost-" + curve.id, .title = "Cost: " + curve.name};
  const std::string budget = curve.points.empty() ? "" : work_text(curve.points[0], options);
  const bool has_times = is_of_times(curve);
  table.caption = has_times ? fmt::format(
                                  "Days and node-hours are those of {} by the times of the table, without "
                                  "restarts.",
                                  budget)
                            : fmt::format(
                                  "Days and node-hours are those of {} at the rate of {}, without start-up, "
                                  "evaluation, checkpoints and restarts. "
                                  "Node-hours per million samples = N / (3600 X) x 10^6.",
                                  budget, rate_source(curve));
  if (!curve.points.empty()) table.caption += work_note(curve.points[0], options);
  if (curve.is_by_devices && !curve.points.empty() && curve.points[0].nodes == 1)
    table.caption += " N is 1 at every size: all devices are of one node.";
  Columns columns = size_columns(curve);
  const auto add = [&](const std::string& title, const char* key, std::function<draw::Cell(const Point&)> cell) {
    columns.push_back({column(title, key), std::move(cell)});
  };
  if (!has_times)
    add("node-h per 10^6 samples", "node_hours_per_million",
        [](const Point& point) { return figure_cell(point.node_hours_per_sample * 1e6); });
  add(fmt::format("days for {}", budget), "budget_days",
      [](const Point& point) { return figure_cell(point.budget_days); });
  add("node-hours", "budget_node_hours", [](const Point& point) { return figure_cell(point.budget_node_hours); });
  if (const auto unit = curve.points.empty() ? std::nullopt : billed_unit(curve.points[0]))
    add(unit->name, "budget_device_hours", [](const Point& point) {
      const auto own = billed_unit(point);
      return own ? figure_cell(point.budget_days * 24 * own->count) : draw::Cell{};
    });
  if (options.price_per_node_hour)
    add(fmt::format("price at {:g}{} per node-hour", *options.price_per_node_hour,
                    options.currency.empty() ? "" : " " + options.currency),
        "price", [price = *options.price_per_node_hour](const Point& point) {
          return figure_cell(point.budget_node_hours * price);
        });
  if (has_times) {
    fill_table(table, columns, curve.points);
    return table;
  }
  add("J per sample", "joules_per_sample", [](const Point& point) {
    if (!point.energy) return missing_cell("no energy meter was read");
    draw::Cell joules = figure_cell(point.energy->joules / point.energy->samples);
    joules.note = fmt::format(
        "meters added up: {}, on {} hosts; evaluations and checkpoints between the steps are in it, cooling is not",
        point.energy->scope, point.energy->num_hosts);
    return joules;
  });
  add("W per device", "watts_per_device", [](const Point& point) {
    return point.energy ? figure_cell(per_device(point, point.energy->joules / point.energy->seconds), 3)
                        : missing_cell("no energy meter was read");
  });
  fill_table(table, columns, curve.points);
  return table;
}

draw::Table phase_table(const Curve& curve) {
  draw::Table table{
      .id = "phases-" + curve.id,
      .title = "Phases of a step: " + curve.name,
      .caption =
          "Share of the mean step of rank 0 in the measured window, largest first at the largest size, and "
          "milliseconds; each column of shares adds up to 100 %. What the phases do not name stands under other."};
  const std::vector<std::string> phases = phases_by_share(curve);
  if (phases.empty()) return table;
  std::vector<const Point*> points;
  for (const Point& point : curve.points)
    if (!point.phases_ms.empty()) points.push_back(&point);
  table.columns.push_back(text_column("phase", "phase"));
  std::vector<std::vector<double>> shares;
  for (const Point* point : points) {
    table.columns.push_back(
        column(size_text(curve, point->size) + " (%)", fmt::format("share_{}_percent", point->size)));
    shares.push_back(percents_of(*point, phases));
  }
  for (const Point* point : points)
    table.columns.push_back(column(size_text(curve, point->size) + " (ms)", fmt::format("time_{}_ms", point->size)));
  const auto add_row = [&](const std::string& name, const auto& percent, const auto& ms) {
    std::vector<draw::Cell> row = {text_cell(name)};
    for (size_t i = 0; i < points.size(); ++i) row.push_back(percent(i));
    for (const Point* point : points) row.push_back(ms(*point));
    table.rows.push_back(std::move(row));
  };
  for (size_t phase = 0; phase < phases.size(); ++phase)
    add_row(
        phases[phase], [&](size_t i) { return fixed_cell(shares[i][phase], 1); },
        [&](const Point& point) { return figure_cell(phase_ms(point, phases[phase]), 3); });
  add_row(
      "all", [&](size_t) { return fixed_cell(100, 1); },
      [&](const Point& point) { return figure_cell(phase_sum_ms(point, phases), 3); });
  if (curve.base && points.size() > 1)
    add_row(
        "step, more than at the base", [](size_t) { return draw::Cell{}; },
        [&](const Point& point) {
          return figure_cell(point.estimate.mean_ms - curve.points[*curve.base].estimate.mean_ms, 3);
        });
  return table;
}

}  // namespace lockstep::analysis
