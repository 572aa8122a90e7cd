#include "record/run_setup.h"

#include <fmt/format.h>

#include <cmath>

namespace lockstep::record {
namespace {

using core::Json;

/// One key of `setup`: where it lies in RunSetup.
template <typename Visit> void for_each_key(auto& setup, const Visit& visit) {
  visit("task", setup.task), visit("model", setup.model), visit("precision", setup.precision),
      visit("system", setup.system);
  visit("device", setup.device), visit("layout", setup.layout);
  visit("nodes", setup.nodes), visit("devices", setup.devices), visit("global_batch", setup.global_batch);
  visit("samples_per_device", setup.samples_per_device), visit("accum", setup.accum),
      visit("sequence_length", setup.sequence_length);
  visit("sample_unit", setup.sample_unit);
  visit("forward_gflops_per_sample", setup.forward_gflops_per_sample), visit("flops_formula", setup.flops_formula);
  visit("processed_gflops_per_sample", setup.processed_gflops_per_sample),
      visit("processed_formula", setup.processed_formula);
  visit("peak_tflops_per_device", setup.peak_tflops_per_device), visit("peak_source", setup.peak_source);
  visit("is_synthetic", setup.is_synthetic), visit("is_profiled", setup.is_profiled);
}

void read_value(const Json& value, std::string& place) {
  if (value.is_string()) place = value.get<std::string>();
}
void read_value(const Json& value, bool& place) {
  if (value.is_boolean()) place = value.get<bool>();
}
void read_value(const Json& value, std::optional<bool>& place) {
  if (value.is_boolean()) place = value.get<bool>();
}
void read_value(const Json& value, std::optional<int64_t>& place) {  // counts: nothing below 1 makes sense
  if (const auto number = core::integer_of(value); number && *number > 0) place = number;
}
void read_value(const Json& value, std::optional<double>& place) {
  if (value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0) place = value.get<double>();
}

bool is_known(const std::string& value) { return !value.empty(); }
bool is_known(bool value) { return value; }
template <typename Value> bool is_known(const std::optional<Value>& value) { return value.has_value(); }

template <typename Value> const Value& plain(const Value& value) { return value; }
template <typename Value> const Value& plain(const std::optional<Value>& value) { return *value; }

const Json& member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

/// Fills `place` where the newer `setup` did not.
template <typename Value> void read_if_unknown(const Json& value, Value& place) {
  if (!is_known(place)) read_value(value, place);
}

/// Floating-point operations of both towers that records of version 0.1 list per model.
void derive_flops(const Json& model, RunSetup& setup) {
  const Json &image = member(model, "image_forward_flops"), &text = member(model, "text_forward_flops");
  if (setup.forward_gflops_per_sample || !image.is_number() || !text.is_number()) return;
  constexpr double kGiga = 1e9;
  const double gflops = (image.get<double>() + text.get<double>()) / kGiga;
  if (!std::isfinite(gflops) || gflops <= 0) return;
  setup.forward_gflops_per_sample = gflops;
  setup.flops_formula = "lockstep's count of the matrix products of both towers";
}

}  // namespace

Json to_json(const RunSetup& setup) {
  Json object = Json::object();
  for_each_key(setup, [&](const char* key, const auto& value) {
    if (is_known(value)) object[key] = plain(value);
  });
  if (!setup.tags.empty()) object["tags"] = setup.tags;
  return object;
}

RunSetup setup_from_json(const Json& object) {
  RunSetup setup;
  if (!object.is_object()) return setup;
  for_each_key(setup, [&](const char* key, auto& value) { read_value(member(object, key), value); });
  if (const Json& tags = member(object, "tags"); tags.is_object())
    for (const auto& [name, value] : tags.items())
      if (value.is_string()) setup.tags[name] = value.get<std::string>();
  return setup;
}

RunSetup setup_of_attempt(const Json& attempt) {
  RunSetup setup = setup_from_json(member(attempt, "setup"));
  const Json &options = member(attempt, "options"), &model = member(attempt, "model"), &plan = member(attempt, "plan");
  read_if_unknown(member(attempt, "task"), setup.task);
  read_if_unknown(member(model, "name"), setup.model);
  read_if_unknown(member(options, "model"), setup.model);
  read_if_unknown(member(options, "precision"), setup.precision);
  read_if_unknown(member(attempt, "device"), setup.device);
  read_if_unknown(member(attempt, "world_size"), setup.devices);
  if (const Json& device = member(attempt, "device"); !setup.is_on_cpu && device.is_string())
    setup.is_on_cpu = device.get<std::string>() == "cpu";
  if (setup.is_on_cpu.value_or(false)) read_if_unknown(member(attempt, "threads_per_rank"), setup.threads_per_device);
  if (setup.devices == 1) read_if_unknown(Json(1), setup.nodes);
  read_if_unknown(member(plan, "global_batch"), setup.global_batch);
  read_if_unknown(member(plan, "accum_freq"), setup.accum);
  if (!setup.samples_per_device && setup.global_batch && setup.devices && setup.layout.empty() &&
      *setup.global_batch % *setup.devices == 0)
    setup.samples_per_device = *setup.global_batch / *setup.devices;
  if (setup.layout.empty() && setup.devices) setup.layout = fmt::format("dp={}", *setup.devices);
  if (!setup.is_synthetic && member(options, "dataset_type").is_string())
    setup.is_synthetic = member(options, "dataset_type").get<std::string>() == "synthetic";
  derive_flops(model, setup);
  return setup;
}

std::map<std::string, std::string> options_of_attempt(const Json& attempt) {
  std::map<std::string, std::string> texts;
  const Json& options = member(attempt, "options");
  if (!options.is_object()) return texts;
  for (const auto& [name, value] : options.items()) {
    // A count that was left to the data (--num-classes) is the one that the run found there.
    const Json& found = member(member(attempt, "model"), name.c_str());
    const Json& told = value.is_null() && found.is_number_integer() ? found : value;
    texts[name] = told.is_string() ? told.get<std::string>() : told.dump();
  }
  return texts;
}

}  // namespace lockstep::record
