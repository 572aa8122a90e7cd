#include "sweep/sweep_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/clock.h"
#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "sweep/json_values.h"
#include "sweep/plan_table.h"

namespace lockstep::sweep {
namespace fs = std::filesystem;
namespace {
constexpr int kSweepVersion = 1;
constexpr std::array kStatusNames{"planned", "submitting", "queued", "running",  "finished",
                                  "stopped", "failed",     "died",   "cancelled"};
constexpr std::array kScalingNames{"free", "weak", "strong"};
constexpr std::array kHowNames{"jobs", "singleton", "arrays"};

template <typename Enum, size_t kCount>
Enum enum_from_text(const std::array<const char*, kCount>& names, const std::string& text) {
  for (size_t i = 0; i < kCount; ++i)
    if (text == names[i]) return static_cast<Enum>(i);
  throw DataError(
      fmt::format("'{}' is none of {}", text, core::join_or(std::vector<std::string>(names.begin(), names.end()))));
}

std::optional<int64_t> optional_count(const core::Json& json, const char* key) {
  return json.contains(key) && !json.at(key).is_null() ? std::optional(json.at(key).get<int64_t>()) : std::nullopt;
}

core::Json point_json(const PointRecord& point) {
  core::Json axes = core::Json::object(), env = core::Json::object(), tags = core::Json::object(),
             jobs = core::Json::array();
  for (const auto& [key, value] : point.axes) axes[key] = to_json(value);
  for (const auto& [name, value] : point.env) env[name] = value;
  for (const auto& [name, value] : point.tags) tags[name] = value;
  for (const JobRef& job : point.jobs) {
    jobs.push_back({{"id", job.id}, {"submitted_s", job.submitted_s}, {"log", job.log}, {"after", job.after}});
    if (!job.host.empty()) jobs.back().update({{"host", job.host}, {"process_start", job.process_start}});
  }
  return {{"index", point.index},
          {"name", point.name},
          {"axes", axes},
          {"repeat", point.repeat},
          {"tags", tags},
          {"nodes", point.nodes},
          {"ranks_per_node", point.ranks_per_node},
          {"samples_per_replica", or_null(point.samples_per_replica)},
          {"global_batch", or_null(point.global_batch)},
          {"time_limit_s", point.time_limit_s},
          {"devices_per_node", point.devices.count},
          {"device_hours_unit", point.devices.unit},
          {"request_digest", point.request_digest},
          {"run", point.run},
          {"script", point.script},
          {"events", point.events},
          {"arguments", point.arguments},
          {"env", env},
          {"state", to_text(point.status)},
          {"message", point.message},
          {"jobs", jobs}};
}

/// An integer in [1, 1000000]: products of two of them are sizes of runs.
int64_t size_of(const core::Json& json, const char* key) {
  constexpr int64_t kMost = 1'000'000;
  const auto number = core::integer_of(json.at(key));
  if (!number || *number < 1 || *number > kMost)
    throw DataError(fmt::format("'{}'={} is no integer in [1, {}]", key, json.at(key).dump().substr(0, 60), kMost));
  return *number;
}

PointRecord point_from_json(const core::Json& json) {
  PointRecord point{
      .index = json.at("index"),
      .name = json.at("name"),
      .repeat = json.at("repeat"),
      .nodes = size_of(json, "nodes"),
      .ranks_per_node = size_of(json, "ranks_per_node"),
      .time_limit_s = json.at("time_limit_s"),
      .devices = {.count = json.value("devices_per_node", int64_t{0}), .unit = json.value("device_hours_unit", "")},
      .request_digest = json.value("request_digest", ""),
      .arguments = json.at("arguments"),
      .samples_per_replica =
          optional_count(json, json.contains("samples_per_rank") ? "samples_per_rank" : "samples_per_replica"),
      .global_batch = optional_count(json, "global_batch"),
      .run = json.at("run"),
      .script = json.at("script"),
      .events = json.at("events"),
      .status = enum_from_text<PointStatus>(kStatusNames, json.at("state")),
      .message = json.at("message")};
  for (const auto& [key, value] : json.at("axes").items()) point.axes.emplace_back(key, scalar_from_json(value));
  for (const auto& [key, value] : json.at("env").items()) point.env.emplace_back(key, value.get<std::string>());
  for (const auto& [key, value] : json.at("tags").items()) point.tags[key] = value.get<std::string>();
  for (const auto& job : json.at("jobs"))
    point.jobs.push_back({.id = job.at("id"),
                          .submitted_s = job.at("submitted_s"),
                          .log = job.at("log"),
                          .after = job.at("after"),
                          .host = job.value("host", ""),
                          .process_start = job.value("process_start", int64_t{0})});
  return point;
}

SweepState state_from_json(const core::Json& json) {
  const core::Json& billing = json.at("billing");
  SweepState state{.name = json.at("name"),
                   .command = json.at("command"),
                   .program = json.at("program"),
                   .digest = json.at("digest"),
                   .mode = json.at("mode"),
                   .working_folder = json.at("working_folder"),
                   .scaling = enum_from_text<Scaling>(kScalingNames, json.at("scaling")),
                   .how = enum_from_text<SubmitHow>(kHowNames, json.at("how")),
                   .in_flight = json.at("in_flight"),
                   .billing_unit = billing.at("unit"),
                   .billing_per_node_hour = billing.at("per_node_hour"),
                   .created_s = json.at("created_s"),
                   .axis_keys = json.at("axes"),
                   .submit_order = json.at("submit_order")};
  for (const auto& point : json.at("points")) state.points.push_back(point_from_json(point));
  if (state.points.empty()) throw DataError("it has no points");
  for (const int64_t index : state.submit_order) state.point(index);
  return state;
}
}  // namespace

std::string to_text(PointStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

bool has_ended(PointStatus status) { return status >= PointStatus::kFinished; }

std::string PointRecord::axes_text() const { return Point{.axes = axes, .repeat = repeat}.axes_text(); }

PointRecord& SweepState::point(int64_t index) {
  for (PointRecord& point : points)
    if (point.index == index) return point;
  throw DataError(fmt::format("no point has the index {}", index));
}

bool has_jobs(const SweepState& state) {
  return std::any_of(state.points.begin(), state.points.end(),
                     [](const PointRecord& point) { return !point.jobs.empty(); });
}

SweepState new_state(const Plan& plan, const fs::path& folder, const std::string& program) {
  SweepState state{.name = plan.name,
                   .command = core::join(plan.command, " "),
                   .program = program,
                   .digest = plan.digest(),
                   .working_folder = fs::current_path().string(),
                   .scaling = plan.scaling,
                   .how = plan.how,
                   .in_flight = plan.in_flight,
                   .billing_unit = plan.billing_unit,
                   .billing_per_node_hour = plan.billing_per_node_hour,
                   .created_s = core::unix_seconds(),
                   .axis_keys = plan.axis_keys};
  for (const Point& point : plan.points) {
    PointRecord record{.index = point.index,
                       .name = point.name,
                       .axes = point.axes,
                       .repeat = point.repeat,
                       .nodes = point.nodes,
                       .ranks_per_node = point.ranks_per_node,
                       .time_limit_s = point.slurm.time_limit_s,
                       .devices = devices_of_node(point),
                       .request_digest = point.request_digest(),
                       .arguments = plan.command,
                       .env = point.env,
                       .tags = point.tags,
                       .samples_per_replica = point.samples_per_replica,
                       .global_batch = point.global_batch,
                       .run = result_path(plan.result, point.name),
                       .script = fmt::format("jobs/{:04}.sh", point.index),
                       .events = fmt::format("jobs/{:04}.events.jsonl", point.index)};
    record.arguments.insert(record.arguments.end(), point.flags.begin(), point.flags.end());
    for (const std::string& flag : result_flags(plan.result, folder, point.name)) record.arguments.push_back(flag);
    state.points.push_back(std::move(record));
  }
  for (const size_t position : plan.submit_order) state.submit_order.push_back(plan.points[position].index);
  return state;
}

fs::path state_file(const fs::path& folder) { return folder / "sweep.json"; }

void write_state(const fs::path& folder, const SweepState& state) {
  core::Json points = core::Json::array();
  for (const PointRecord& point : state.points) points.push_back(point_json(point));
  const core::Json json = {{"sweep_version", kSweepVersion},
                           {"name", state.name},
                           {"command", state.command},
                           {"program", state.program},
                           {"digest", state.digest},
                           {"mode", state.mode},
                           {"working_folder", state.working_folder},
                           {"created_s", state.created_s},
                           {"scaling", kScalingNames[static_cast<size_t>(state.scaling)]},
                           {"how", kHowNames[static_cast<size_t>(state.how)]},
                           {"in_flight", state.in_flight},
                           {"billing", {{"unit", state.billing_unit}, {"per_node_hour", state.billing_per_node_hour}}},
                           {"axes", state.axis_keys},
                           {"submit_order", state.submit_order},
                           {"points", points}};
  core::write_file_atomic(state_file(folder), json.dump(1, ' ', false, core::Json::error_handler_t::replace) + "\n");
}

SweepState read_state(const fs::path& folder) {
  const fs::path file = state_file(folder);
  if (!fs::exists(file))
    throw UsageError(fmt::format("sweep: '{}' is no sweep: it has no sweep.json", folder.string()),
                     "give the folder that `lockstep sweep FILE.toml` wrote");
  const std::string hint = fmt::format(
      "the scripts under jobs/ and the runs are whole: move sweep.json away and call `lockstep sweep {} --output {}` "
      "(with the --set of the first time); it writes "
      "sweep.json anew and takes the runs for what their records say",
      (folder / "sweep.toml").string(), fs::absolute(folder).lexically_normal().parent_path().string());
  try {
    const core::Json json = core::read_json_file(file);
    const int version = json.at("sweep_version");
    if (version > kSweepVersion)
      throw DataError(fmt::format("sweep: '{}' has sweep_version {}, this lockstep knows {}", file.string(), version,
                                  kSweepVersion),
                      "use a newer lockstep");
    return state_from_json(json);
  } catch (const core::Json::exception& error) {
    throw DataError(fmt::format("sweep: '{}' is damaged: {}", file.string(), error.what()), hint);
  } catch (const DataError& error) {
    if (!error.hint().empty()) throw;
    throw DataError(fmt::format("sweep: '{}' is damaged: {}", file.string(), error.what()), hint);
  }
}

}  // namespace lockstep::sweep
