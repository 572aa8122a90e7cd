// The analysis for programs.
#include <cmath>

#include "analysis/json.h"
#include "core/json.h"

namespace lockstep::analysis {
namespace {
using core::Json;

/// JSON has no NaN: what is unknown is null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <typename T> Json optional_json(const std::optional<T>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const Flag& flag) {
  return {{"code", flag.code},
          {"check", flag.name},
          {"subject", flag.subject},
          {"sentence", flag.sentence},
          {"fix", flag.fix}};
}

Json to_json(const Estimate& estimate) {
  Json json{{"value", number(estimate.value)}};
  if (estimate.has_range) json["low"] = estimate.low, json["high"] = estimate.high;
  return json;
}

Json to_json(const record::RunSetup& setup) {
  return {{"task", setup.task},
          {"model", setup.model},
          {"precision", setup.precision},
          {"system", setup.system},
          {"device", setup.device},
          {"layout", setup.layout},
          {"nodes", optional_json(setup.nodes)},
          {"devices", optional_json(setup.devices)},
          {"global_batch", optional_json(setup.global_batch)},
          {"samples_per_device", optional_json(setup.samples_per_device)},
          {"accum", optional_json(setup.accum)},
          {"sequence_length", optional_json(setup.sequence_length)},
          {"sample_unit", setup.sample_unit},
          {"forward_gflops_per_sample", optional_json(setup.forward_gflops_per_sample)},
          {"flops_formula", setup.flops_formula},
          {"processed_gflops_per_sample", optional_json(setup.processed_gflops_per_sample)},
          {"peak_tflops_per_device", optional_json(setup.peak_tflops_per_device)},
          {"peak_source", setup.peak_source},
          {"is_synthetic", optional_json(setup.is_synthetic)},
          {"is_profiled", setup.is_profiled},
          {"tags", setup.tags}};
}

Json to_json(const stats::SeriesSummary& series) {
  Json json{{"steps", series.num_steps},
            {"warmup_steps", series.num_warmup_steps},
            {"measured_steps", series.num_measured_steps},
            {"effective_steps", number(series.effective_steps)},
            {"median_ms", number(series.median_ms)},
            {"mean_ms", number(series.mean_ms)},
            {"trimmed_mean_ms", number(series.trimmed_mean_ms)},
            {"p90_ms", number(series.p90_ms)},
            {"p95_ms", number(series.p95_ms)},
            {"p99_ms", optional_json(series.p99_ms)},
            {"cv", number(series.coefficient_of_variation)},
            {"elbow", number(series.elbow)},
            {"tail_cost", number(series.tail_cost)},
            {"drift_per_1000_steps", optional_json(series.drift_per_1000_steps)},
            {"outliers", series.outliers.size()},
            {"is_steady", series.is_steady}};
  if (series.median_interval)
    json["median_interval_ms"] = {number(series.median_interval->low), number(series.median_interval->high)},
    json["median_interval_method"] = series.median_interval->method;
  return json;
}

Json to_json(const RunSummary& run) {
  Json json{{"name", run.name},
            {"source", run.source.string()},
            {"format", run.format},
            {"state", run.state},
            {"message", run.message},
            {"job", run.allocation},
            {"attempts", run.num_attempts},
            {"only_evaluated", run.only_evaluated},
            {"setup", to_json(run.setup)},
            {"steps", run.num_steps},
            {"rejected_lines", run.num_rejected_lines},
            {"problems", run.problems},
            {"software", run.software},
            {"command", run.command}};
  if (!run.series) {
    json["unusable"] = run.unusable;
    return json;
  }
  json["series"] = to_json(*run.series);
  json["samples_per_step"] = number(run.samples_per_step);
  json["measured_s"] = run.measured_s;
  json["measured_samples"] = number(run.measured_samples);
  json["billed_s"] = number(run.billed_s);
  Json quantiles = Json::array();  // from the least to the largest, half a percent of the steps apart
  for (int i = 0; i <= 200; ++i) quantiles.push_back(number(stats::weighted_percentile(run.distribution, 0.5 * i)));
  json["step_ms_quantiles"] = std::move(quantiles);
  return json;
}

/// NaN where the count is unknown.
double per(double rate, int64_t count) { return count > 0 ? rate / static_cast<double>(count) : NAN; }

/// Of rank 0's step; NaN where the phase is unknown.
double phase_share(const Point& point, const char* name) {
  const auto found = point.phases_ms.find(name);
  double sum = 0;
  for (const auto& [phase, ms] : point.phases_ms) sum += std::isfinite(ms) ? ms : 0;
  return found != point.phases_ms.end() && sum > 0 ? found->second / sum : NAN;
}

/// Rates, efficiencies, costs and shares of a point.
void add_rates(Json& json, const Point& point) {
  json.update({{"samples_per_s", to_json(point.samples_per_s)},
               {"mean_samples_per_s", number(point.mean_samples_per_s)},
               {"billed_samples_per_s", number(point.billed_samples_per_s)},
               {"stall_ratio", number(point.samples_per_s.value / point.billed_samples_per_s)},
               {"samples_per_s_per_device", number(per(point.samples_per_s.value, point.devices))},
               {"samples_per_s_per_node", number(per(point.samples_per_s.value, point.nodes))},
               {"tokens_per_s", number(point.tokens_per_s)},
               {"tokens_per_s_per_device", number(per(point.tokens_per_s, point.devices))},
               {"tflops_per_device", number(point.tflops_per_device)},
               {"peak_tflops", number(point.peak_tflops)},
               {"mfu", number(point.mfu)},
               {"mfu_measured_peak", number(point.mfu_measured)},
               {"logged_tflops_per_device", number(point.logged_tflops_per_device)},
               {"logged_mfu", number(point.logged_mfu)},
               {"speedup", number(point.speedup)},
               {"efficiency", to_json(point.efficiency)},
               {"epoch_s", number(point.epoch_s)},
               {"epoch_train_s", number(point.epoch_train_s)},
               {"eff_epoch", number(point.eff_epoch)},
               {"eff_train", number(point.eff_train)},
               {"eff_batch", number(point.eff_batch)},
               {"eff_tput", number(point.eff_tput)},
               {"karp_flatt", number(point.karp_flatt)},
               {"node_hours_per_sample", number(point.node_hours_per_sample)},
               {"budget_days", number(point.budget_days)},
               {"budget_node_hours", number(point.budget_node_hours)},
               {"data_wait_share", number(point.data_wait_share)},
               {"exposed_comm_share", number(phase_share(point, "exposed_comm"))},
               {"optimizer_share", number(phase_share(point, "optimizer"))},
               {"telemetry_share", number(phase_share(point, "telemetry"))},
               {"skew_ms", number(point.skew_ms)},
               {"skew_share", number(point.skew_share)},
               {"straggler_share", number(point.straggler_share)}});
}

/// Memory, network, losses, phases and energy of a point, as far as they are known.
void add_measured(Json& json, const Point& point) {
  if (!point.no_interval.empty()) json["no_interval"] = point.no_interval;
  json["host_memory_bytes"] = optional_json(point.memory.host_bytes);
  json["device_memory_bytes"] = optional_json(point.memory.device_bytes);
  Json network = Json::object();
  for (const auto& [name, use] : point.network_per_step)
    network[name] = {{"received", number(use.received_bytes)}, {"sent", number(use.sent_bytes)}};
  json["network_bytes_per_step"] = std::move(network);
  if (!point.loss_verdict.empty()) {
    const auto or_null = [](const std::optional<Estimate>& estimate) {
      return estimate ? to_json(*estimate) : Json(nullptr);
    };
    json["samples_to_loss"] = or_null(point.samples_to_loss);
    json["samples_to_loss_ratio"] = or_null(point.samples_to_loss_ratio);
    json["samples_to_loss_verdict"] = point.loss_verdict;
  }
  Json phases = Json::object();
  for (const auto& [phase, ms] : point.phases_ms) phases[phase] = number(ms);
  json["phases_ms"] = std::move(phases);
  if (point.energy) json["joules_per_sample"] = number(point.energy->joules / point.energy->samples);
}

Json to_json(const Point& point, const std::vector<RunSummary>& runs) {
  Json names = Json::array(), codes = Json::array();
  for (const size_t index : point.runs) names.push_back(runs[index].name);
  for (const Flag& flag : point.flags) codes.push_back(flag.code);
  Json json{{"size", point.size},
            {"nodes", point.nodes > 0 ? Json(point.nodes) : Json(nullptr)},
            {"devices", point.devices > 0 ? Json(point.devices) : Json(nullptr)},
            {"global_batch", optional_json(point.setup.global_batch)},
            {"samples_per_device", optional_json(point.setup.samples_per_device)},
            {"runs", std::move(names)},
            {"jobs", point.num_allocations ? Json(*point.num_allocations) : Json(nullptr)},
            {"step_p50_ms", number(point.has_step_time ? point.estimate.median_ms : NAN)},
            {"step_mean_ms", number(point.has_step_time ? point.estimate.mean_ms : NAN)},
            {"step_p95_ms", number(point.p95_ms)},
            {"step_p99_ms", number(point.p99_ms)},
            {"olympic_mean_ms", optional_json(point.estimate.olympic_mean_ms)}};
  add_rates(json, point);
  if (point.work_time) {
    json["work_time"] = number(work_seconds(point).value);
    json["work_time_unit"] = point.work_time->unit_s > 0 ? Json("s") : Json(nullptr);
  }
  json["checks"] = std::move(codes);
  add_measured(json, point);
  return json;
}
}  // namespace

std::string analysis_json(const Analysis& analysis) {
  Json curves = Json::array(), runs = Json::array(), left = Json::array(), flags = Json::array();
  for (const Curve& curve : analysis.curves) {
    Json points = Json::array();
    for (const Point& point : curve.points) points.push_back(to_json(point, analysis.runs));
    curves.push_back({{"name", curve.name},
                      {"scaling", scaling_name(curve.kind)},
                      {"why", curve.kind_reason},
                      {"remarks", curve.remarks},
                      {"sizes_are", curve.is_by_devices ? "devices" : "nodes"},
                      {"shares_cores", curve.shares_cores},
                      {"base", curve.base ? Json(curve.points[*curve.base].size) : Json(nullptr)},
                      {"target_loss", curve.losses ? number(curve.losses->target) : Json(nullptr)},
                      {"points", std::move(points)}});
  }
  for (const RunSummary& run : analysis.runs) runs.push_back(to_json(run));
  for (const LeftOut& one : analysis.left_out)
    left.push_back({{"run", analysis.runs[one.run].name}, {"reason", one.reason}, {"conclusion", one.conclusion}});
  for (const Flag& flag : analysis.flags) flags.push_back(to_json(flag));
  const Json json{{"curves", std::move(curves)},
                  {"left_out", std::move(left)},
                  {"checks", std::move(flags)},
                  {"missing", analysis.missing},
                  {"runs", std::move(runs)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::analysis
