#include "record/steps.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace lockstep::record {
namespace {

using core::Json;

constexpr const char* kNonfinite = "nonfinite";

template <typename Value> void put_if(Json& object, const char* key, const std::optional<Value>& value) {
  if (!value) return;
  if constexpr (std::is_same_v<Value, double>)
    put_number(object, key, *value);
  else
    object[key] = *value;
}

void put_numbers(Json& object, const char* key, const NamedNumbers& numbers) {
  if (numbers.empty()) return;
  Json inner = Json::object();
  for (const auto& [name, value] : numbers) put_number(inner, name, value);
  object[key] = std::move(inner);
}

void put_list(Json& object, const char* key, const std::vector<double>& values) {
  if (values.empty()) return;
  Json list = Json::array();
  for (const double value : values) std::isfinite(value) ? list.push_back(value) : list.push_back(nullptr);
  object[key] = std::move(list);
}

NamedNumbers get_numbers(const Json& object, const char* key) {
  NamedNumbers numbers;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return numbers;
  for (const auto& [name, value] : found->items()) {
    if (name == kNonfinite) continue;
    if (const auto number = get_number(*found, name)) numbers.emplace_back(name, *number);
  }
  return numbers;
}

}  // namespace

void put_number(Json& object, const std::string& key, double value) {
  if (std::isfinite(value)) {
    object[key] = value;
    return;
  }
  object[key] = nullptr;
  object[kNonfinite][key] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> get_number(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  const auto kinds = object.find(kNonfinite);
  if (!found->is_null() || kinds == object.end() || !kinds->is_object()) return std::nullopt;
  const auto kind = kinds->find(key);
  if (kind == kinds->end() || !kind->is_string()) return std::nullopt;
  const std::string text = kind->get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Json to_json(const StepRecord& record) {
  Json object{{"attempt", record.attempt}, {"step", record.step}};
  put_if(object, "epoch", record.epoch);
  object["samples"] = record.samples;
  object["samples_seen"] = record.samples_seen;
  put_if(object, "tokens", record.tokens);
  put_number(object, "step_ms", record.step_ms);
  put_number(object, "data_wait_ms", record.data_wait_ms);
  put_if(object, "exposed_comm_ms", record.exposed_comm_ms);
  put_number(object, "samples_per_s", record.samples_per_s);
  put_number(object, "loss", record.loss);
  put_numbers(object, "losses", record.losses);
  put_number(object, "lr", record.lr);
  put_if(object, "grad_norm", record.grad_norm);
  put_if(object, "num_zeros", record.num_zeros);
  put_if(object, "params_norm", record.params_norm);
  put_if(object, "scale", record.scale);
  put_if(object, "loss_scale", record.loss_scale);
  put_if(object, "cached_share", record.cached_share);
  if (record.is_skipped) object["skipped"] = true;
  put_if(object, "device_memory_bytes", record.device_memory_bytes);
  put_if(object, "host_memory_bytes", record.host_memory_bytes);
  put_numbers(object, "phases_ms", record.phases_ms);
  put_if(object, "time_s", record.time_s);
  return object;
}

Json to_json(const RankTimesRecord& record) {
  Json object{{"attempt", record.attempt}, {"step", record.step}, {"num_steps", record.num_steps}};
  put_list(object, "step_ms", record.step_ms);
  put_list(object, "data_wait_ms", record.data_wait_ms);
  if (!record.compute_ms.empty()) put_list(object, "compute_ms", record.compute_ms);
  if (!record.comm_wait_ms.empty()) put_list(object, "comm_wait_ms", record.comm_wait_ms);
  if (!record.hosts.empty()) object["hosts"] = record.hosts;
  return object;
}

Json to_json(const CommRecord& record) {
  Json object{{"attempt", record.attempt},       {"step", record.step},   {"kind", record.kind},  {"axis", record.axis},
              {"group_size", record.group_size}, {"bytes", record.bytes}, {"count", record.count}};
  put_number(object, "time_ms", record.time_ms);
  put_number(object, "blocked_ms", record.blocked_ms);
  return object;
}

Json to_json(const ResultRecord& record) {
  Json object{{"attempt", record.attempt}, {"step", record.step}};
  put_if(object, "epoch", record.epoch);
  object["name"] = record.name;
  put_numbers(object, "metrics", record.metrics);
  put_if(object, "seconds", record.seconds);
  return object;
}

Json to_json(const SystemInterval& record) {
  Json object{
      {"attempt", record.attempt}, {"step", record.step}, {"num_steps", record.num_steps}, {"host", record.host}};
  const auto put = [&](const char* key, const std::map<std::string, double>& amounts) {
    put_numbers(object, key, NamedNumbers(amounts.begin(), amounts.end()));
  };
  put("received_bytes", record.received_bytes);
  put("sent_bytes", record.sent_bytes);
  put("energy_j", record.energy_j);
  put_if(object, "seconds", record.seconds);
  return object;
}

Json to_json(const StartupTimes& record) {
  Json object{{"attempt", record.attempt}};
  put_numbers(object, "phases_ms", record.phases_ms);
  return object;
}

StepRecord step_from_json(const Json& object, std::string_view where) {
  const auto fail = [&](const char* key) {
    throw DataError(fmt::format("record: {}: '{}' is missing or of the wrong type", where, key),
                    "see docs/record.md for the layout");
  };
  if (!object.is_object()) throw DataError(fmt::format("record: {}: expected a JSON object", where));
  const auto need_integer = [&](const char* key) {
    const auto value = core::integer_at(object, key);
    if (!value) fail(key);
    return *value;
  };
  const auto need_number = [&](const char* key) {
    const auto value = get_number(object, key);
    if (!value) fail(key);
    return *value;
  };
  StepRecord record;
  const int64_t attempt = need_integer("attempt");
  if (attempt < 0 || attempt > std::numeric_limits<int>::max()) fail("attempt");
  record.attempt = static_cast<int>(attempt);
  record.step = need_integer("step");
  record.epoch = core::integer_at(object, "epoch");
  record.samples = need_integer("samples");
  record.samples_seen = core::integer_at(object, "samples_seen").value_or(0);
  record.tokens = core::integer_at(object, "tokens");
  record.step_ms = need_number("step_ms");
  record.data_wait_ms = need_number("data_wait_ms");
  record.exposed_comm_ms = get_number(object, "exposed_comm_ms");
  record.samples_per_s = need_number("samples_per_s");
  record.loss = need_number("loss");
  record.losses = get_numbers(object, "losses");
  record.lr = need_number("lr");
  record.grad_norm = get_number(object, "grad_norm");
  record.num_zeros = core::integer_at(object, "num_zeros");
  record.params_norm = get_number(object, "params_norm");
  record.scale = get_number(object, "scale");
  record.loss_scale = get_number(object, "loss_scale");
  record.cached_share = get_number(object, "cached_share");
  record.is_skipped = object.contains("skipped") && object["skipped"] == true;
  record.device_memory_bytes = core::integer_at(object, "device_memory_bytes");
  record.host_memory_bytes = core::integer_at(object, "host_memory_bytes");
  record.phases_ms = get_numbers(object, "phases_ms");
  record.time_s = get_number(object, "time_s");
  return record;
}

}  // namespace lockstep::record
