// Tables of one curve: rates, efficiency, cost.
#include "analysis/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/cells.h"
#include "core/strings.h"
#include "stats/series_interval.h"

namespace lockstep::analysis {
namespace {
/// First columns of every table over sizes.
void add_size_columns(draw::Table& table, const Curve& curve) {
  if (!curve.is_by_devices) table.columns.push_back(column("nodes", "nodes"));
  table.columns.push_back(column("devices", "devices"));
}

std::vector<draw::Cell> size_cells(const Curve& curve, const Point& point) {
  std::vector<draw::Cell> cells;
  if (!curve.is_by_devices)
    cells.push_back(point.nodes > 0 ? count_cell(point.nodes) : missing_cell("the source does not tell"));
  cells.push_back(point.devices > 0 ? count_cell(point.devices) : missing_cell("the source does not tell"));
  return cells;
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

/// Percent with one decimal that add up to 100.0 as printed: what rounding down leaves goes to those that lost most by
/// it.
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
}  // namespace

namespace {
void drop_columns(draw::Table& table, const std::set<std::string>& keys) {
  for (size_t index = table.columns.size(); index-- > 0;) {
    if (!keys.contains(table.columns[index].key)) continue;
    table.columns.erase(table.columns.begin() + static_cast<ptrdiff_t>(index));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<ptrdiff_t>(index));
  }
}

/// What the numbers of a curve's sizes are, in sentences.
std::string values_text(const Curve& curve) {
  const bool has_range = std::any_of(curve.points.begin(), curve.points.end(), [](const Point& point) {
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
  const std::string unit = curve.points.empty() ? "samples/s" : rate_unit(curve.points.front());
  draw::Table table{
      .id = "scaling-" + curve.id, .title = fmt::format("{}: {}", curve.name, scaling_name(curve.kind)), .caption = {}};
  table.caption = fmt::format("{} {} {}", sentence(curve.kind_reason), base_rate_text(curve), values_text(curve));
  if (curve.shares_cores)
    table.caption += " The ranks shared the cores of one machine: this is the efficiency of shared cores.";
  table.caption += peaks_text(curve);
  add_size_columns(table, curve);
  for (const auto& [title, key] : {std::pair{"global batch", "global_batch"}, {"local batch", "local_batch"}})
    table.columns.push_back(column(title, key));
  table.columns.push_back(column(unit, "rate_per_s"));
  table.columns.push_back(column(unit + " per device", "rate_per_device_per_s"));
  for (const auto& [title, key] : {std::pair{"speed-up", "speedup"},
                                   {"efficiency (%)", "efficiency_pct"},
                                   {"MFU (%)", "mfu_pct"},
                                   {"step p50 (ms)", "step_p50_ms"},
                                   {"runs", "runs"}})
    table.columns.push_back(column(title, key));
  table.columns.push_back(text_column("checks", "checks"));
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = size_cells(curve, point);
    row.push_back(optional_count(point.setup.global_batch));
    row.push_back(optional_count(point.setup.samples_per_device));
    row.push_back(rate_cell(point, point.samples_per_s));
    row.push_back(rate_cell(point, {.value = per_device(point, point.samples_per_s.value)}));
    row.push_back(fixed_cell(speedup_estimate(point), 2));
    row.push_back(efficiency_cell(curve, point));
    const char* no_mfu =
        std::isfinite(point.logged_mfu)
            ? "needs FLOPs per sample; the table of rates has the MFU by the TFLOP/s that the program itself printed"
            : "needs FLOPs per sample, a peak and the number of devices";
    row.push_back(std::isfinite(point.mfu) ? percent_cell(proportional(point.mfu, point.samples_per_s))
                                           : missing_cell(no_mfu));
    row.push_back(figure_cell(step_estimate(point)));
    row.back().note = point.no_interval;
    row.push_back(count_cell(static_cast<int64_t>(point.runs.size())));
    row.push_back(text_cell(check_codes(point)));
    table.rows.push_back(std::move(row));
  }
  if (const std::string names = check_names(curve); !names.empty()) table.notes.push_back("Checks: " + names);
  if (is_of_table(curve)) {
    if (std::none_of(curve.points.begin(), curve.points.end(), [](const Point& point) { return point.has_step_time; }))
      drop_columns(table, {"step_p50_ms"});
    for (draw::Column& one : table.columns) {
      if (one.key == "runs") one.title = "rows";
      if (one.key == "step_p50_ms") one.title = "step (ms)";
    }
  }
  return table;
}

draw::Table short_scaling_table(const Curve& curve) {
  std::set<std::string> dropped = {"local_batch", "rate_per_device_per_s", "speedup", "checks"};
  draw::Table table = scaling_table(curve);
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (std::none_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[i].value; }))
      dropped.insert(table.columns[i].key);
  drop_columns(table, dropped);
  table.notes.clear();  // on the checks
  return table;
}

draw::Table quantile_table(const Curve& curve) {
  draw::Table table{.id = "quantiles-" + curve.id, .title = "Step times by size: " + curve.name, .caption = {}};
  if (is_of_table(curve)) return table;
  table.caption = "Quantiles over the steps of all runs of a size, warm-up left out; p99 from 100 of them on.";
  for (const Point& point : curve.points)
    if (point.steps_per_row > 1) {
      table.caption += fmt::format(" The logs tell means over {:.0f} steps: the quantiles are those of such means.",
                                   point.steps_per_row);
      break;
    }
  add_size_columns(table, curve);
  for (const auto& [title, key] : {std::pair{"p50 (ms)", "step_p50_ms"},
                                   {"p95 (ms)", "step_p95_ms"},
                                   {"p99 (ms)", "step_p99_ms"},
                                   {"runs", "runs"},
                                   {"jobs", "jobs"},
                                   {"steps", "steps"}})
    table.columns.push_back(column(title, key));
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = size_cells(curve, point);
    for (const double ms : {point.p50_ms, point.p95_ms, point.p99_ms}) row.push_back(figure_cell(ms));
    row.push_back(count_cell(static_cast<int64_t>(point.runs.size())));
    row.push_back(point.num_allocations ? count_cell(static_cast<int64_t>(*point.num_allocations))
                                        : missing_cell("the runs do not all name their job"));
    row.push_back(count_cell(point.num_steps));
    table.rows.push_back(std::move(row));
  }
  return table;
}

draw::Table efficiency_table(const Curve& curve) {
  draw::Table table{
      .id = "efficiency-" + curve.id, .title = "Efficiency by each definition: " + curve.name, .caption = {}};
  table.caption = fmt::format("E = rate per {0} / rate per {0} of the base, at the rates of {1}. ", unit_name(curve),
                              rate_source(curve));
  table.caption +=
      "eff_epoch = T_ep(N0) N0 / (n T_ep(n)) and eff_train the same for the training part (validation left out): these "
      "need epochs of a fixed data set. eff_batch = tb(N0) / tb(n), median step times at equal local batch. eff_tput = "
      "x(n) / x(N0), x = total samples / total step seconds per device. Serial fraction after Karp and Flatt = (1/S - "
      "1/p) / (1 - 1/p), p = n/N0: flat over n means a fixed serial part, rising means communication.";
  add_size_columns(table, curve);
  for (const auto& [title, key] : {std::pair{"E (%)", "efficiency_pct"},
                                   {"low", "efficiency_low_pct"},
                                   {"high", "efficiency_high_pct"},
                                   {"eff_epoch (%)", "eff_epoch_pct"},
                                   {"eff_train (%)", "eff_train_pct"},
                                   {"eff_batch (%)", "eff_batch_pct"},
                                   {"eff_tput (%)", "eff_tput_pct"},
                                   {"serial fraction", "karp_flatt"}})
    table.columns.push_back(column(title, key));
  if (!curve.base || curve.points.size() < 2) return table;
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = size_cells(curve, point);
    row.push_back(percent_cell(point.efficiency.value));
    row.push_back(point.efficiency.has_range ? percent_cell(point.efficiency.low) : draw::Cell{});
    row.push_back(point.efficiency.has_range ? percent_cell(point.efficiency.high) : draw::Cell{});
    row.push_back(definition_cell(point, "eff_epoch", point.eff_epoch));
    row.push_back(definition_cell(point, "eff_train", point.eff_train));
    row.push_back(definition_cell(point, "eff_batch", point.eff_batch));
    row.push_back(percent_cell(point.eff_tput));
    row.push_back(figure_cell(point.karp_flatt, 3));
    table.rows.push_back(std::move(row));
  }
  if (std::none_of(curve.points.begin(), curve.points.end(),
                   [](const Point& point) { return point.efficiency.has_range; }))
    drop_columns(table, {"efficiency_low_pct", "efficiency_high_pct"});
  return table;
}

draw::Table interval_table(const Curve& curve) {
  draw::Table table{.id = "intervals-" + curve.id, .title = "95 % intervals: " + curve.name, .caption = {}};
  table.caption = fmt::format(
      "All from the interval of the step time. Of a single run: {}. Of several: Student's t on the logarithms of the "
      "values of jobs, or of the runs of one job, around their geometric mean. Speed-up and efficiency add the "
      "relative uncertainties of size and base in quadrature.",
      stats::kMedianIntervalMethod);
  add_size_columns(table, curve);
  const std::string unit = curve.points.empty() ? "samples/s" : rate_unit(curve.points.front());
  for (const auto& [title, key] : {std::pair{std::string("step (ms)"), "step_ms"},
                                   {unit, "rate_per_s"},
                                   {std::string("MFU (%)"), "mfu_pct"},
                                   {std::string("speed-up"), "speedup"},
                                   {std::string("efficiency (%)"), "efficiency_pct"}})
    for (const char* end : {"low", "high"})
      table.columns.push_back(column(fmt::format("{}, {}", title, end), fmt::format("{}_{}", key, end)));
  for (const Point& point : curve.points) {
    if (!step_estimate(point).has_range) continue;
    std::vector<draw::Cell> row = size_cells(curve, point);
    const auto add = [&](const Estimate& estimate, double factor) {
      row.push_back(estimate.has_range ? figure_cell(factor * estimate.low) : draw::Cell{});
      row.push_back(estimate.has_range ? figure_cell(factor * estimate.high) : draw::Cell{});
    };
    add(step_estimate(point), 1), add(point.samples_per_s, 1), add(proportional(point.mfu, point.samples_per_s), 100);
    add(speedup_estimate(point), 1), add(point.efficiency, 100);
    table.rows.push_back(std::move(row));
  }
  return table;
}

draw::Table rate_table(const Curve& curve) {
  const std::string unit = curve.points.empty() ? "samples/s" : rate_unit(curve.points.front());
  draw::Table table{.id = "rates-" + curve.id, .title = "Rates and utilisation: " + curve.name, .caption = {}};
  table.caption =
      "Capability comes from the median step; the mean is total samples over total step seconds; billed is total "
      "samples over wall seconds of the same window, pauses included.";
  if (!curve.points.empty() && !curve.points[0].peak_text.empty())
    table.caption += " MFU = model FLOPs / (seconds x devices x peak); peak: " + curve.points[0].peak_text + ".";
  if (!curve.points.empty() && !curve.points[0].setup.flops_formula.empty())
    table.caption += " FLOPs: " + curve.points[0].setup.flops_formula + ".";
  table.caption += processed_note(curve);
  add_size_columns(table, curve);
  for (const auto& [title, key] :
       {std::pair{"capability", "capability_per_s"}, {"mean", "mean_per_s"}, {"billed", "billed_per_s"}})
    table.columns.push_back(column(fmt::format("{} ({})", title, unit), key));
  table.columns.push_back(column("tokens/s", "tokens_per_s"));
  table.columns.push_back(column("TFLOP/s per device", "tflops_per_device"));
  table.columns.push_back(column("MFU, table peak (%)", "mfu_pct"));
  table.columns.push_back(column("MFU, measured peak (%)", "mfu_measured_pct"));
  const bool has_processed = std::any_of(curve.points.begin(), curve.points.end(),
                                         [](const Point& point) { return has_other_count(point.setup); });
  if (has_processed) table.columns.push_back(column("MFU, computed FLOPs (%)", "mfu_processed_pct"));
  const bool has_logged = std::any_of(curve.points.begin(), curve.points.end(),
                                      [](const Point& point) { return std::isfinite(point.logged_tflops_per_device); });
  if (has_logged) {
    table.caption +=
        " Logged TFLOP/s are those that the program itself printed, by its own count of FLOPs (median of the measured "
        "lines), and the MFU by them is their share of the peak.";
    table.columns.push_back(column("logged TFLOP/s per device", "logged_tflops_per_device"));
    table.columns.push_back(column("MFU by logged (%)", "logged_mfu_pct"));
  }
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = size_cells(curve, point);
    for (const double rate : {point.samples_per_s.value, point.mean_samples_per_s, point.billed_samples_per_s,
                              point.tokens_per_s, point.tflops_per_device})
      row.push_back(figure_cell(rate));
    row.push_back(percent_cell(point.mfu));
    row.push_back(percent_cell(point.mfu_measured));
    if (has_processed) row.push_back(percent_cell(processed_mfu(point)));
    if (has_logged)
      row.insert(row.end(), {figure_cell(point.logged_tflops_per_device), percent_cell(point.logged_mfu)});
    table.rows.push_back(std::move(row));
  }
  return table;
}

draw::Table cost_table(const Curve& curve, const AnalysisOptions& options) {
  draw::Table table{.id = "cost-" + curve.id, .title = "Cost: " + curve.name, .caption = {}};
  const std::string budget = curve.points.empty() ? "" : work_text(curve.points[0], options);
  table.caption = fmt::format(
      "Days and node-hours are those of {} at the rate of {}, without start-up, evaluation, checkpoints and restarts. "
      "Node-hours per million samples = N / (3600 X) x 10^6.",
      budget, rate_source(curve));
  if (!curve.points.empty()) table.caption += work_note(curve.points[0], options);
  if (curve.is_by_devices && !curve.points.empty() && curve.points[0].nodes == 1)
    table.caption += " N is 1 at every size: all devices are of one node.";
  add_size_columns(table, curve);
  table.columns.push_back(column("node-h per 10^6 samples", "node_hours_per_million"));
  table.columns.push_back(column(fmt::format("days for {}", budget), "budget_days"));
  table.columns.push_back(column("node-hours", "budget_node_hours"));
  const auto unit = curve.points.empty() ? std::nullopt : billed_unit(curve.points[0]);
  if (unit) table.columns.push_back(column(unit->name, "budget_device_hours"));
  if (options.price_per_node_hour)
    table.columns.push_back(column(fmt::format("price at {:g} per node-hour", *options.price_per_node_hour), "price"));
  table.columns.push_back(column("J per sample", "joules_per_sample"));
  table.columns.push_back(column("W per device", "watts_per_device"));
  for (const Point& point : curve.points) {
    std::vector<draw::Cell> row = size_cells(curve, point);
    for (const double value : {point.node_hours_per_sample * 1e6, point.budget_days, point.budget_node_hours})
      row.push_back(figure_cell(value));
    if (unit) {
      const auto own = billed_unit(point);
      row.push_back(own ? figure_cell(point.budget_days * 24 * own->count) : draw::Cell{});
    }
    if (options.price_per_node_hour) row.push_back(figure_cell(point.budget_node_hours * *options.price_per_node_hour));
    if (point.energy) {
      draw::Cell joules = figure_cell(point.energy->joules / point.energy->samples);
      joules.note = fmt::format(
          "meters added up: {}, on {} hosts; evaluations and checkpoints between the steps are in it, cooling is not",
          point.energy->scope, point.energy->num_hosts);
      row.push_back(joules);
      row.push_back(figure_cell(per_device(point, point.energy->joules / point.energy->seconds), 3));
    } else {
      row.push_back(missing_cell("no energy meter was read"));
      row.push_back(missing_cell("no energy meter was read"));
    }
    table.rows.push_back(std::move(row));
  }
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
