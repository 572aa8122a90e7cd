#include "predict/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/units.h"
#include "predict/figure.h"
#include "predict/machine_notes.h"

namespace lockstep::predict {
namespace {
draw::Cell figure_cell(double value, int digits = 4) { return {.text = figure(value, digits), .value = value}; }

const char* in_time_text(const GoalCost& cost) {
  if (!cost.exists) return "does not exist";
  if (!cost.fits) return "does not fit";
  return cost.meets_deadline ? "yes" : "no";
}
}  // namespace

std::vector<GoalCost> goal_costs(const CurvePrediction& prediction, const std::optional<Machine>& machine,
                                 const Budget& budget, const std::vector<bool>& fits) {
  std::vector<GoalCost> costs;
  for (size_t i = 0; i < prediction.targets.size(); ++i) {
    const Size& size = prediction.targets[i].at;
    const Interval& step = prediction.forecast.steps[i].step_s;
    const double samples_per_step =
        budget.is_run_a_step ? 1 : prediction.curve.rate_per_device * size.work * size.devices;
    const double units_per_step = samples_per_step * budget.units_per_sample;
    const double num_steps = budget.units / units_per_step;
    GoalCost cost{.size = prediction.targets[i].size,
                  .hours = num_steps * step.p50 / 3600,
                  .hours95 = num_steps * step.p95 / 3600};
    cost.node_hours = cost.hours * size.nodes;
    if (machine && machine->node_watts.value > 0) cost.kwh = cost.node_hours * machine->node_watts.value / 1000;
    if (budget.price_per_node_hour) cost.price = cost.node_hours * *budget.price_per_node_hour;
    cost.fits = fits.empty() || fits.at(i);
    cost.exists = has_nodes(machine, size.nodes);
    cost.meets_deadline = cost.fits && cost.exists && budget.deadline_hours && cost.hours95 <= *budget.deadline_hours;
    costs.push_back(cost);
  }
  return costs;
}

draw::Table goal_table(const std::vector<GoalCost>& costs, const Budget& budget) {
  draw::Table table{.id = "goal",
                    .title = fmt::format("What {} {} take", core::format_count(budget.units), budget.unit)};
  const bool has_energy = !costs.empty() && costs.front().kwh;
  table.columns = {{budget.size_name, budget.size_name},
                   {"hours", "hours_p50"},
                   {"95 %", "hours_p95"},
                   {"node-hours", "node_hours"}};
  if (has_energy) table.columns.push_back({"kWh", "kwh"});
  if (budget.price_per_node_hour)
    table.columns.push_back({budget.currency.empty() ? "price" : "price (" + budget.currency + ")", "price"});
  if (budget.deadline_hours) table.columns.push_back({"in time", "meets_deadline", true});
  for (const GoalCost& one : costs) {
    std::vector<draw::Cell> row = {{.text = fmt::format("{:g}", one.size), .value = one.size},
                                   figure_cell(one.hours),
                                   figure_cell(one.hours95),
                                   figure_cell(one.node_hours, 5)};
    if (has_energy) row.push_back(figure_cell(*one.kwh));
    if (one.price) row.push_back(figure_cell(*one.price, 5));
    if (budget.deadline_hours) row.push_back({.text = in_time_text(one)});
    table.rows.push_back(std::move(row));
  }
  if (budget.price_per_node_hour && budget.currency.empty())
    table.notes.emplace_back(
        "The price is in the unit of --price-per-node-hour; --currency (for example EUR) names it.");
  table.notes.emplace_back(
      budget.unit == "runs" ? "Whole runs, with all that the measured times hold."
                            : "Training steps alone: start-up, evaluation, checkpoints and restarts come on top, and "
                              "convergence at other batches is not predicted.");
  return table;
}

std::vector<std::string> goal_texts(const std::vector<GoalCost>& costs, const Budget& budget) {
  std::vector<std::string> texts;
  if (costs.empty()) return texts;
  if (budget.is_run_a_step) return {"A run's work grows with its size here, so sizes are not compared."};
  if (budget.deadline_hours) {
    const auto smallest =
        std::find_if(costs.begin(), costs.end(), [](const GoalCost& one) { return one.meets_deadline; });
    texts.push_back(
        smallest != costs.end()
            ? fmt::format("{:g} {} are the fewest of these that end within {:g} hours with 95 % "
                          "probability: {} hours, {} node-hours.",
                          smallest->size, budget.size_name, *budget.deadline_hours, figure(smallest->hours),
                          figure(smallest->node_hours, 5))
            : fmt::format("None of these sizes ends within {:g} hours with 95 % probability.", *budget.deadline_hours));
  }
  const GoalCost* cheapest = nullptr;
  for (const GoalCost& one : costs)
    if (one.fits && one.exists && (cheapest == nullptr || one.node_hours < cheapest->node_hours)) cheapest = &one;
  const bool exist = std::any_of(costs.begin(), costs.end(), [](const GoalCost& one) { return one.exists; });
  if (cheapest != nullptr)
    texts.push_back(fmt::format("The least node-hours of sizes that fit: {} on {:g} {}.",
                                figure(cheapest->node_hours, 5), cheapest->size, budget.size_name));
  else if (exist)
    texts.emplace_back("No size fits the memory: split the model further, recompute, or take smaller micro-batches.");
  else
    texts.emplace_back("The machine has none of these sizes: give smaller ones (--nodes).");
  return texts;
}

core::Json goal_json(const std::vector<GoalCost>& costs) {
  core::Json json = core::Json::array();
  for (const GoalCost& one : costs) {
    json.push_back({{"size", one.size},
                    {"hours_p50", one.hours},
                    {"hours_p95", one.hours95},
                    {"node_hours", one.node_hours},
                    {"fits", one.fits},
                    {"exists", one.exists},
                    {"meets_deadline", one.meets_deadline}});
    if (one.kwh) json.back()["kwh"] = *one.kwh;
    if (one.price) json.back()["price"] = *one.price;
  }
  return json;
}

}  // namespace lockstep::predict
