#include <fmt/format.h>

#include <set>

#include "core/csv_table.h"
#include "core/strings.h"
#include "core/units.h"
#include "sweep/collect.h"
#include "sweep/json_values.h"
#include "sweep/plan_table.h"

namespace lockstep::sweep {
namespace {
/// Names of all tags of a sweep.
std::set<std::string> tag_names(const SweepState& state) {
  std::set<std::string> names;
  for (const PointRecord& point : state.points)
    for (const auto& [name, value] : point.tags) names.insert(name);
  return names;
}

/// Columns after the axes, in this order in CSV and JSON.
core::Json measured_json(const PointResult& result) {
  const PointRecord& point = *result.point;
  return {{"repeat", point.repeat},
          {"nodes", point.nodes},
          {"ranks", point.nodes * point.ranks_per_node},
          {"samples_per_replica", or_null(point.samples_per_replica)},
          {"global_batch", or_null(point.global_batch)},
          {"state", point.state_text()},
          {"steps", result.num_steps},
          {"measured_steps", result.num_measured},
          {"step_ms", or_null(result.step_ms)},
          {"step_ms_low", or_null(result.step_ms_low)},
          {"step_ms_high", or_null(result.step_ms_high)},
          {"samples_per_s", or_null(result.samples_per_s)},
          {"last_loss", or_null(result.last_loss)},
          {"startup_s", or_null(result.startup_s)},
          {"ran_s", or_null(result.ran_s)},
          {"queue_wait_s", or_null(result.view.queue_wait_s)},
          {"node_hours", result.view.node_hours},
          {"jobs", point.jobs.size()},
          {"requeues", result.num_requeues},
          {"run", point.run},
          {"message", point.message},
          {"problems", core::join(result.problems, "; ")}};
}

std::string csv_cell(const core::Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  return core::csv_field(value.get_ref<const std::string&>());
}

std::string duration_or_dash(const std::optional<double>& seconds) {
  return seconds ? core::format_duration(*seconds) : "-";
}

std::string billed(const SweepState& state, double node_hours) {
  std::string text = fmt::format("{:.3f} node-hours", node_hours);
  if (!state.billing_unit.empty())
    text += fmt::format(" = {:.2f} {}", node_hours * state.billing_per_node_hour, state.billing_unit);
  return text;
}

std::string sizes_text(const Collection& collection) {
  std::vector<std::vector<std::string>> rows{{"nodes", "points", "finished", "wait (median)", "wait (max)",
                                              "start-up (max)", "ran (max)", "limit", "proposed limit",
                                              "node-hours used"}};
  for (const SizeSummary& size : collection.sizes)
    rows.push_back({fmt::format("{}", size.nodes), fmt::format("{}", size.num_points),
                    fmt::format("{}", size.num_finished), duration_or_dash(size.median_wait_s),
                    duration_or_dash(size.max_wait_s), duration_or_dash(size.max_startup_s),
                    duration_or_dash(size.max_ran_s), size.time_limit_s > 0 ? time_limit_text(size.time_limit_s) : "-",
                    size.proposed_limit_s ? time_limit_text(*size.proposed_limit_s) : "-",
                    fmt::format("{:.3f}", size.node_hours_used)});
  return text_table(rows);
}
}  // namespace

std::string collection_csv(const SweepState& state, const Collection& collection) {
  std::string text = "point";
  for (const std::string& key : state.axis_keys)
    if (key != "nodes") text += "," + csv_cell(key);
  const std::set<std::string> tags = tag_names(state);
  for (const std::string& name : tags) text += "," + csv_cell("tag." + name);
  const core::Json heads = measured_json(PointResult{.point = &state.points[0]});
  for (const auto& [key, value] : heads.items()) text += "," + key;
  text += "\n";
  for (const PointResult& result : collection.results) {
    text += fmt::format("{}", result.point->index);
    for (const auto& [key, value] : result.point->axes)
      if (key != "nodes") text += "," + csv_cell(to_json(value));
    for (const std::string& name : tags) {
      const auto found = result.point->tags.find(name);
      text += "," + (found == result.point->tags.end() ? "" : csv_cell(found->second));
    }
    const core::Json row = measured_json(result);
    for (const auto& [key, value] : row.items()) text += "," + csv_cell(value);
    text += "\n";
  }
  return text;
}

core::Json collection_json(const SweepState& state, const Collection& collection) {
  core::Json points = core::Json::array(), sizes = core::Json::array();
  for (const PointResult& result : collection.results) {
    core::Json axes = core::Json::object();
    for (const auto& [key, value] : result.point->axes) axes[key] = to_json(value);
    core::Json row = {
        {"index", result.point->index}, {"name", result.point->name}, {"axes", axes}, {"tags", result.point->tags}};
    row.update(measured_json(result));
    row["startup_ms"] = result.startup_ms;
    if (!result.bench.empty()) row["bench"] = result.bench;
    points.push_back(std::move(row));
  }
  for (const SizeSummary& size : collection.sizes)
    sizes.push_back({{"nodes", size.nodes},
                     {"points", size.num_points},
                     {"finished", size.num_finished},
                     {"queue_wait_median_s", or_null(size.median_wait_s)},
                     {"queue_wait_max_s", or_null(size.max_wait_s)},
                     {"startup_max_s", or_null(size.max_startup_s)},
                     {"ran_max_s", or_null(size.max_ran_s)},
                     {"time_limit_s", size.time_limit_s},
                     {"proposed_time_limit_s", or_null(size.proposed_limit_s)},
                     {"node_hours_planned", size.node_hours_planned},
                     {"node_hours_used", size.node_hours_used}});
  return {{"name", state.name},
          {"command", state.command},
          {"mode", state.mode},
          {"points", points},
          {"sizes", sizes},
          {"node_hours_planned", collection.node_hours_planned},
          {"node_hours_used", collection.node_hours_used},
          {"device_hours_used", collection.device_hours_used},
          {"job_starts", collection.num_jobs},
          {"failed_job_starts", collection.num_failed_jobs},
          {"billing",
           {{"unit", state.billing_unit},
            {"planned", collection.node_hours_planned * state.billing_per_node_hour},
            {"used", collection.node_hours_used * state.billing_per_node_hour}}}};
}

std::string collection_text(const SweepState& state, const Collection& collection) {
  std::vector<std::vector<std::string>> rows{{"point"}};
  for (const std::string& key : state.axis_keys) rows[0].push_back(key);
  for (const char* head :
       {"repeat", "state", "steps", "step_ms", "samples/s", "last loss", "start-up", "waited", "node-hours"})
    rows[0].emplace_back(head);
  for (const PointResult& result : collection.results) {
    std::vector<std::string> row{fmt::format("{:04}", result.point->index)};
    for (const auto& [key, value] : result.point->axes) row.push_back(to_text(value));
    const auto number = [](const std::optional<double>& value, int digits) {
      return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
    };
    for (std::string& cell : std::vector<std::string>{
             fmt::format("{}", result.point->repeat), result.point->state_text(), fmt::format("{}", result.num_steps),
             number(result.step_ms, 2), number(result.samples_per_s, 1), number(result.last_loss, 4),
             duration_or_dash(result.startup_s), duration_or_dash(result.view.queue_wait_s),
             fmt::format("{:.3f}", result.view.node_hours)})
      row.push_back(std::move(cell));
    rows.push_back(std::move(row));
  }
  std::string text = text_table(rows) + "\n" + sizes_text(collection) + "\n";
  text += fmt::format("planned at most {}, used {}", billed(state, collection.node_hours_planned),
                      billed(state, collection.node_hours_used));
  for (const auto& [unit, hours] : collection.device_hours_used)
    if (unit != state.billing_unit) text += fmt::format(" = {:.2f} {}", hours, unit);
  text += "\n";
  const double share = collection.num_jobs > 0 ? 100.0 * collection.num_failed_jobs / collection.num_jobs : 0;
  if (state.mode == "local")
    text +=
        "every point ran on this one machine: node-hours are of one node, and the sizes show how its ranks shared it, "
        "not how nodes scale\n";
  return text +
         fmt::format("{} of {} job starts failed ({:.0f} %)\n", collection.num_failed_jobs, collection.num_jobs, share);
}

}  // namespace lockstep::sweep
