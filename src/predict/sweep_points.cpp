#include "predict/sweep_points.h"

#include <fmt/format.h>

namespace lockstep::predict {

std::vector<PredictedPoint> predict_points(const std::vector<SweepPoint>& points, const Machine& machine) {
  std::vector<PredictedPoint> predicted;
  for (const SweepPoint& point : points) {
    Machine nodes = machine;
    nodes.devices_per_node = point.ranks_per_node;
    const std::vector<PlannedStep> plan = {plan_one(point.words, point.nodes, point.ranks_per_node)};
    PredictedPoint one{.point = point, .plan = plan[0]};
    one.step_s = predict_steps(model_of(plan, nodes), plan, {}).forecast.steps.front().step_s;
    one.fits = fit_memory(plan, nodes).front();
    if (one.plan.num_steps) {
      one.hours = static_cast<double>(*one.plan.num_steps) * one.step_s.p50 / 3600;
      one.node_hours = *one.hours * static_cast<double>(point.nodes);
    }
    predicted.push_back(std::move(one));
  }
  return predicted;
}

draw::Table sweep_table(const std::vector<PredictedPoint>& points, const Machine& machine) {
  draw::Table table{.id = "predicted_points", .title = "Predicted on " + machine.name};
  table.columns = {
      {"point", "point", true}, {"nodes", "nodes"}, {"step (s)", "step_s_p50"},   {"90 % interval", "interval90", true},
      {"steps", "steps"},       {"hours", "hours"}, {"node-hours", "node_hours"}, {"fits", "fits", true}};
  const auto cell = [](const std::optional<double>& value) {
    return value ? draw::Cell{.text = fmt::format("{:.4g}", *value), .value = *value} : draw::Cell{};
  };
  double sum = 0;
  size_t num_known = 0;
  for (const PredictedPoint& one : points) {
    const auto steps = one.plan.num_steps ? std::optional(static_cast<double>(*one.plan.num_steps)) : std::nullopt;
    table.rows.push_back({{.text = one.point.name},
                          cell(static_cast<double>(one.point.nodes)),
                          cell(one.step_s.p50),
                          {.text = fmt::format("{:.3g}-{:.3g}", one.step_s.p5, one.step_s.p95)},
                          cell(steps),
                          cell(one.hours),
                          cell(one.node_hours),
                          {.text = fits_text(one.plan, machine)}});
    sum += one.node_hours.value_or(0);
    num_known += one.node_hours.has_value();
  }
  const std::string hours =
      num_known == 0 ? "Node-hours are not known: no point tells its number of steps"
                     : fmt::format("{:.4g} node-hours {}, for the steps alone", sum,
                                   num_known == points.size()
                                       ? "in all"
                                       : fmt::format("for {} of {} points, the others tell no number of steps",
                                                     num_known, points.size()));
  table.notes.push_back(hours + ". Nothing was measured: plan, system and priors (docs/predict.md).");
  return table;
}

core::Json sweep_json(const std::vector<PredictedPoint>& points) {
  core::Json json = core::Json::array();
  for (const PredictedPoint& one : points) {
    json.push_back({{"point", one.point.name},
                    {"nodes", one.point.nodes},
                    {"step_s", {{"p5", one.step_s.p5}, {"p50", one.step_s.p50}, {"p95", one.step_s.p95}}},
                    {"memory_bytes", one.plan.memory_bytes},
                    {"fits", one.fits}});
    if (one.hours) json.back()["hours"] = *one.hours, json.back()["node_hours"] = *one.node_hours;
  }
  return json;
}

}  // namespace lockstep::predict
