#include "predict/run_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/analyse.h"
#include "analysis/megatron_flops.h"
#include "analysis/sources.h"
#include "config/gpt_params.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::predict {
namespace {

constexpr double kSameRunWork = 0.02;  // batches may be rounded

bool is_usable(const analysis::Point& point) {
  return point.size > 0 && point.has_step_time && !point.is_of_table && std::isfinite(point.estimate.median_ms) &&
         point.estimate.median_ms > 0;
}

double devices_of(const analysis::Point& point, double devices_per_node) {
  return point.devices > 0 ? static_cast<double>(point.devices) : static_cast<double>(point.nodes) * devices_per_node;
}

/// Samples of a device and step; nothing where the runs do not tell.
std::optional<double> samples_of(const analysis::Point& point, double devices_per_node) {
  if (!std::isfinite(point.samples_per_step) || point.samples_per_step <= 0) return std::nullopt;
  return point.samples_per_step / devices_of(point, devices_per_node);
}

void take_machine(const std::vector<analysis::Point>& points, const TableRequest& request, MeasuredCurve& curve) {
  const record::RunSetup& setup = points.front().setup;
  curve.machine = request.machine;
  if (const hw::SystemSpec* system = find_system_in(setup.system); !curve.machine && system != nullptr)
    curve.machine = machine_of(*system, setup.system);
  curve.devices_per_node = 1;
  curve.devices_per_node_source = request.devices_per_node ? "--devices-per-node" : "records of the runs";
  for (const analysis::Point& point : points)
    if (point.nodes > 0 && point.devices > 0)
      curve.devices_per_node =
          std::max(curve.devices_per_node, static_cast<double>(point.devices) / static_cast<double>(point.nodes));
  if (request.devices_per_node) curve.devices_per_node = static_cast<double>(*request.devices_per_node);
  if (curve.machine)
    curve.work.facts.push_back({"system", curve.machine->name, request.machine ? "--system" : "named in the record"});
}

/// The model whose shape the arguments of a run tell, in a log of Megatron or in our record.
void take_logged_shape(const std::map<std::string, std::string>& options, const char* source, WorkFacts& work) {
  const auto shape = analysis::megatron_shape(options);
  if (!shape) return;
  work.model = fmt::format("GPT of {} layers of {}", shape->layers, shape->hidden);
  work.parameters = static_cast<double>(config::gpt_cost(*shape).parameters);
  work.are_parameters_certain = true;
  work.layers = shape->layers, work.hidden = shape->hidden;
  work.key_width = shape->query_groups * shape->head_width;
  work.facts.push_back(
      {"parameters", core::format_count(*work.parameters), fmt::format("counted from the shape in {}", source)});
}

/// Layout and shape of a model with experts, of which the arguments in a log of Megatron tell no parameters.
void take_logged_experts(const std::map<std::string, std::string>& options, WorkFacts& work) {
  const auto count = [&](const char* name) {
    const auto found = options.find(name);
    const auto value = found == options.end() ? std::nullopt : core::parse_int(found->second);
    return value && *value > 0 ? value : std::nullopt;
  };
  work.num_experts = count("num_experts");
  if (work.num_experts.value_or(1) == 1) return;
  work.has_experts = true;
  work.top_k = count("moe_router_topk");
  work.ep = count("expert_model_parallel_size").value_or(1);
  work.layers = count("num_layers"), work.hidden = count("hidden_size");
}

void take_work(const analysis::RunSummary& run, const TableRequest& request, WorkFacts& work) {
  const record::RunSetup& setup = run.setup;
  const std::string& model = request.model.empty() ? setup.model : request.model;
  if (!model.empty()) take_model(model, request.model.empty() ? "record of the runs" : "--model", work);
  if (!work.parameters && (run.format != "lockstep" || setup.task == "gpt"))
    take_logged_shape(run.options, run.format == "lockstep" ? "the record's options" : "the log's arguments", work);
  take_logged_experts(run.options, work);
  if (run.format == "lockstep") work.feature_passes = kOwnFeaturePasses;
  read_work_facts(setup.layout, "layout of the record", work);
  if (setup.accum && setup.samples_per_device && *setup.accum > 0 && work.replica_devices() > 1)
    work.micro_batch = std::max<int64_t>(1, *setup.samples_per_device / *setup.accum);
}

MeasuredCurve curve_of(const analysis::Curve& runs, std::vector<analysis::Point> points,
                       const std::vector<analysis::RunSummary>& summaries, const TableRequest& request) {
  MeasuredCurve curve{.name = runs.name, .size_name = runs.is_by_devices ? "devices" : "nodes"};
  take_work(summaries[points.front().runs.front()], request, curve.work);
  take_machine(points, request, curve);
  const auto first_samples = samples_of(points.front(), curve.devices_per_node);
  curve.has_seconds = true;
  curve.clock_s = 1;
  curve.rate_unit = first_samples ? points.front().setup.sample_unit + "/s" : "";
  curve.rate_per_device = first_samples.value_or(1);
  if (const auto& length = points.front().setup.sequence_length) curve.tokens_per_sample = static_cast<double>(*length);
  if (!curve.work.local_batch) curve.work.local_batch = first_samples;
  std::vector<DeviceTokens> tokens;
  for (const analysis::Point& point : points) {
    const double devices = devices_of(point, curve.devices_per_node);
    const auto samples = samples_of(point, curve.devices_per_node);
    double work = samples && first_samples ? *samples / *first_samples : 1;
    if (std::fabs(work - 1) < kSameRunWork) work = 1;
    curve.is_strong = curve.is_strong || work < 1;
    curve.points.push_back({.measured = {.size = {.nodes = devices / curve.devices_per_node,
                                                  .devices = devices,
                                                  .work = work,
                                                  .bubble = bubble_of(curve, samples.value_or(0)),
                                                  .traffic = passes_of(curve, samples.value_or(0)),
                                                  .expert_ranks = static_cast<double>(curve.work.ep)},
                                         .step_s = point.estimate.median_ms / 1000},
                            .size = static_cast<double>(point.size)});
    if (std::isfinite(point.data_wait_share))
      curve.points.back().waited_s = point.data_wait_share * curve.points.back().measured.step_s;
    const double sequence = curve.tokens_per_sample.value_or(0);
    tokens.push_back({.tokens = samples.value_or(0) * sequence,
                      .sequence = sequence,
                      .num_micro = std::max(1.0, num_micro(curve.work, samples.value_or(0)))});
  }
  add_layer_messages(std::vector<WorkFacts>(points.size(), curve.work), tokens, curve);
  for (std::string& note : layout_notes(curve.work)) curve.notes.push_back(std::move(note));
  if (runs.shares_cores)
    curve.notes.emplace_back(
        "These runs share the processor cores of one machine: what they lose to each other is no loss of a network.");
  return curve;
}
}  // namespace

std::vector<MeasuredCurve> curves_of(const analysis::Analysis& runs, const TableRequest& request) {
  std::vector<MeasuredCurve> curves;
  for (const analysis::Curve& curve : runs.curves) {
    std::vector<analysis::Point> usable;
    std::copy_if(curve.points.begin(), curve.points.end(), std::back_inserter(usable), is_usable);
    if (!usable.empty()) curves.push_back(curve_of(curve, std::move(usable), runs.runs, request));
  }
  return curves;
}

std::vector<MeasuredCurve> read_run_curves(const std::vector<std::string>& inputs, const TableRequest& request) {
  analysis::LoadOptions options;
  if (request.devices_per_node)
    options.meta.values.emplace_back("devices_per_node", std::to_string(*request.devices_per_node));
  std::vector<MeasuredCurve> curves = curves_of(
      analysis::analyse(analysis::load_sources(analysis::find_sources(inputs), options), options.analysis), request);
  if (curves.empty())
    throw DataError(
        fmt::format("predict: none of the runs in {} has both a size and step times", core::join(inputs, ", ")),
        "`lockstep report` on the same folders says of each run what it lacks");
  return curves;
}

}  // namespace lockstep::predict
