#include "sweep/plan_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/options.h"
#include "core/strings.h"
#include "core/units.h"

namespace lockstep::sweep {
namespace {
double node_hours(const Point& point) {
  return static_cast<double>(point.nodes) * static_cast<double>(point.slurm.time_limit_s) / 3600;
}

std::string count_or_dash(const std::optional<int64_t>& value) { return value ? fmt::format("{}", *value) : "-"; }

std::string memory_cell(const std::optional<PointFit>& fit) {
  return fit ? core::format_bytes(fit->memory_bytes) : "-";
}

std::string fits_cell(const std::optional<PointFit>& fit) {
  if (!fit || !fit->device_bytes) return "-";
  return fit->is_doubtful ? "doubtful" : fit->fits() ? "yes" : "no";
}

/// The GPUs of a list that an option of sbatch asks for at each node: "gpu", "gpu:4", "gpu:a100:4" among other generic
/// resources ("gpu:4,tmpfs:200g"), and "4", "a100:4" of --gpus-per-node. Several types add up.
int64_t gpus_of_request(const std::string& option) {
  constexpr std::string_view kGres = "--gres=", kGpus = "--gpus-per-node=";
  const bool is_gres = core::starts_with(option, kGres);
  if (!is_gres && !core::starts_with(option, kGpus)) return 0;
  int64_t num_gpus = 0;
  for (const std::string& entry : core::split(option.substr(is_gres ? kGres.size() : kGpus.size()), ",")) {
    const auto fields = core::split(core::trim(entry), ":");
    if (!is_gres || fields[0] == "gpu") num_gpus += core::parse_int(fields.back()).value_or(1);
  }
  return num_gpus;
}

std::string cost_text(const Plan& plan) {
  const PlannedCost cost = planned_cost(plan);
  std::string text =
      fmt::format("{}; at most {:.2f} node-hours", core::counted(plan.points.size(), "point"), cost.node_hours);
  if (!plan.billing_unit.empty())
    text += fmt::format(" = {:.1f} {}", cost.node_hours * plan.billing_per_node_hour, plan.billing_unit);
  if (cost.device_hours.size() == 1 && cost.device_hours.begin()->first != plan.billing_unit)
    text += fmt::format(" = {:.2f} {}", cost.device_hours.begin()->second, cost.device_hours.begin()->first);
  if (cost.num_without_limit > 0)
    text += fmt::format(", and {} without a time limit", core::counted(cost.num_without_limit, "point"));
  if (plan.in_flight > 0) text += fmt::format("; {} at a time", plan.in_flight);
  return text + "\n";
}
}  // namespace

NodeDevices devices_of_node(const Point& point) {
  for (const std::string& option : point.slurm.sbatch) {
    if (const int64_t num_gpus = gpus_of_request(option); num_gpus > 0) return {.count = num_gpus, .unit = "GPU-hours"};
  }
  if (point.slurm.cpus_per_task)
    return {.count = *point.slurm.cpus_per_task * point.ranks_per_node, .unit = "core-hours"};
  return {};
}

PlannedCost planned_cost(const Plan& plan) {
  PlannedCost cost;
  for (const Point& point : plan.points) {
    const NodeDevices devices = devices_of_node(point);
    cost.device_hours[devices.unit] += node_hours(point) * static_cast<double>(devices.count);
    cost.node_hours += node_hours(point);
    cost.num_without_limit += point.slurm.time_limit_s == 0 ? 1 : 0;
  }
  if (cost.device_hours.contains("")) cost.device_hours.clear();  // of some points it is not known
  return cost;
}

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  constexpr size_t kMaxWidth = 80, kGap = 2;
  const size_t num_columns = rows.empty() ? 0 : rows[0].size();
  std::vector<size_t> widths(num_columns);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (size_t begin = 1, end = 1; begin < std::max<size_t>(2, num_columns);
       begin = end) {  // columns that fit beside the first, which leads each part
    size_t width = num_columns > 0 ? widths[0] : 0;
    while (end < num_columns && (end == begin || width + kGap + widths[end] <= kMaxWidth))
      width += kGap + widths[end++];
    if (end == begin) ++end;  // one column
    if (begin > 1) text += "\n";
    for (const auto& row : rows) {
      std::string line;
      for (size_t i = 0; i < std::min(end, num_columns); i = i == 0 ? begin : i + 1) {
        const bool is_number = core::parse_double(rows.back()[i]).has_value();
        line += (i == 0 ? "" : std::string(kGap, ' ')) +
                (is_number ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]));
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

std::string plan_table(const Plan& plan) {
  std::vector<std::vector<std::string>> rows{{"point"}};
  for (const std::string& key : plan.axis_keys) rows[0].push_back(key);
  for (const char* head :
       {"repeat", "ranks", "local batch", "global batch", "memory/rank", "fits", "time limit", "node-hours"})
    rows[0].emplace_back(head);
  const bool asks_device = std::any_of(plan.points.begin(), plan.points.end(),
                                       [](const Point& point) { return point.fit && point.fit->device_bytes; });
  if (!asks_device) std::erase(rows[0], "fits");
  for (const size_t position : plan.submit_order) {
    const Point& point = plan.points[position];
    std::vector<std::string> row{fmt::format("{:04}", point.index)};
    for (const auto& [key, value] : point.axes) row.push_back(to_text(value));
    const bool has_limit = point.slurm.time_limit_s > 0;
    for (std::string& cell : std::vector<std::string>{
             fmt::format("{}", point.repeat), fmt::format("{}", point.num_ranks()),
             count_or_dash(point.samples_per_replica), count_or_dash(point.global_batch), memory_cell(point.fit)})
      row.push_back(std::move(cell));
    if (asks_device) row.push_back(fits_cell(point.fit));
    row.push_back(has_limit ? time_limit_text(point.slurm.time_limit_s) : "-");
    row.push_back(has_limit ? fmt::format("{:.2f}", node_hours(point)) : "-");
    rows.push_back(std::move(row));
  }
  std::string text = text_table(rows) + "\n" + cost_text(plan);
  constexpr size_t kWidth = 80, kIndent = 9;
  for (const std::string& warning : plan.warnings) {
    std::string begin = "warning: ";
    for (const std::string& line : core::wrap_text(warning, kWidth - kIndent)) {
      text += begin + line + "\n";
      begin = std::string(kIndent, ' ');
    }
  }
  return text;
}

core::Json plan_json(const Plan& plan) {
  core::Json points = core::Json::array();
  for (const size_t position : plan.submit_order) {
    const Point& point = plan.points[position];
    core::Json axes = core::Json::object(), env = core::Json::object();
    for (const auto& [key, value] : point.axes) axes[key] = to_json(value);
    for (const auto& [name, value] : point.env) env[name] = value;
    points.push_back({{"index", point.index},
                      {"name", point.name},
                      {"axes", axes},
                      {"repeat", point.repeat},
                      {"nodes", point.nodes},
                      {"ranks", point.num_ranks()},
                      {"samples_per_replica", point.samples_per_replica.value_or(0)},
                      {"global_batch", point.global_batch.value_or(0)},
                      {"time_limit_s", point.slurm.time_limit_s},
                      {"flags", point.flags},
                      {"env", env},
                      {"sbatch", point.slurm.sbatch},
                      {"srun", point.slurm.srun},
                      {"tags", point.tags}});
    if (const auto& fit = point.fit) {
      core::Json& json = points.back()["memory_per_rank"] = {{"bytes", fit->memory_bytes}};
      if (fit->device_bytes)
        json.update({{"device_bytes", *fit->device_bytes}, {"fits", fit->fits()}, {"is_doubtful", fit->is_doubtful}});
      points.back()["nodes_of_tensor_group"] = fit->nodes_of_tensor_group;
    }
  }
  const PlannedCost cost = planned_cost(plan);
  return {{"name", plan.name},
          {"command", core::join(plan.command, " ")},
          {"points", points},
          {"node_hours", cost.node_hours},
          {"device_hours", cost.device_hours},
          {"without_time_limit", cost.num_without_limit},
          {"billing", {{"unit", plan.billing_unit}, {"amount", cost.node_hours * plan.billing_per_node_hour}}},
          {"warnings", plan.warnings}};
}

}  // namespace lockstep::sweep
