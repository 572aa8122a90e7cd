#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "core/error.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "draw/render.h"
#include "logs/column_names.h"
#include "predict/page.h"
#include "predict/size_list.h"
#include "predict/table_curves.h"
#include "predict/validation.h"

namespace lockstep::cli {
namespace {

struct PredictFlags {
  std::vector<std::string> inputs;
  std::string nodes, system, model, scaling = "auto";
  std::optional<double> calibrate_up_to, samples_per_device;
  std::optional<int64_t> devices_per_node;
  bool validate = false, json = false;
};

core::OptionSet declare_predict(PredictFlags& flags) {
  core::OptionSet set("predict", "Step time, efficiency and cost at sizes that were not measured, with intervals.");
  set.add_positional("inputs", &flags.inputs, {.help = "CSV tables of results over sizes.", .metavar = "TABLE.csv"});
  set.add("nodes", &flags.nodes,
          {.help = "Sizes to predict: '16,32', '1-1024*2' (doubling), '8-64+8'. In the unit of the table: nodes, or "
                   "devices where it has no nodes.",
           .metavar = "LIST",
           .unset_text = "four doublings beyond the table"});
  set.add("calibrate-up-to", &flags.calibrate_up_to,
          {.help = "Largest size that calibration may see, in the unit of the table.",
           .metavar = "N",
           .unset_text = "all rows",
           .min = 0,
           .is_min_excluded = true});
  set.add("validate", &flags.validate,
          {.help = "Judge the prediction on the rows above --calibrate-up-to, beside naive rivals on the same split."});
  set.add("system", &flags.system,
          {.help = "System of the table.", .metavar = "NAME", .unset_text = "as the table tells"});
  set.add("model", &flags.model,
          {.help = "Model of the table: a name, or its parameters (1.3B).",
           .metavar = "NAME",
           .unset_text = "as the table tells"});
  set.add("samples-per-device", &flags.samples_per_device,
          {.help = "Batch of a device and step, where the table lacks it.",
           .unit = "samples",
           .min = 0,
           .is_min_excluded = true});
  set.add("scaling", &flags.scaling,
          {.help = "Whether the batch of a device (weak) or of all devices (strong) stays, where the table has no "
                   "batches; auto: by its words, else weak.",
           .choices = {"auto", "weak", "strong"}});
  set.add("devices-per-node", &flags.devices_per_node, {.help = "Where the table lacks it.", .min = 1});
  set.add("json", &flags.json, {.help = "Machine-readable output on standard output."});
  return set;
}

predict::TableRequest table_request(const PredictFlags& flags) {
  predict::TableRequest request{
      .model = flags.model, .local_batch = flags.samples_per_device, .devices_per_node = flags.devices_per_node};
  if (flags.scaling != "auto") request.is_strong = flags.scaling == "strong";
  if (flags.system.empty()) return request;
  const hw::SystemSpec* system = hw::find_system(flags.system);
  if (system == nullptr) {
    std::vector<std::string> names;
    for (const hw::SystemSpec& one : hw::system_specs()) names.emplace_back(one.name);
    const auto nearest = core::nearest_name(flags.system, names);
    throw UsageError(fmt::format("predict: --system '{}' is no system of the table", flags.system),
                     nearest ? fmt::format("did you mean '{}'?", *nearest) : "known are " + core::join_or(names));
  }
  request.machine = predict::machine_of(*system);
  return request;
}

void print_prediction(const predict::CurvePrediction& prediction) {
  core::print("{}\n", draw::to_text(predict::parts_table(prediction)));
  core::print("{}\n", draw::to_text(predict::facts_table(prediction)));
  core::print("{}\n", draw::to_text(predict::learned_table(prediction)));
  for (const std::string& note : prediction.curve.notes) core::print("{}", draw::wrapped("note: ", note));
}

int validate_tables(const std::vector<predict::MeasuredCurve>& curves, const PredictFlags& flags) {
  if (!flags.calibrate_up_to)
    throw UsageError("predict: --validate needs --calibrate-up-to N",
                     "rows up to N calibrate, the rows above are judged; for example --calibrate-up-to 8");
  std::vector<predict::Validation> validations;
  for (const predict::MeasuredCurve& curve : curves)
    validations.push_back(predict::validate_curve(curve, *flags.calibrate_up_to));
  if (flags.json) {
    core::Json json = core::Json::array();
    for (const predict::Validation& one : validations) json.push_back(predict::validation_json(one));
    core::print("{}\n", json.dump(2));
    return 0;
  }
  for (const predict::Validation& one : validations) {
    core::print("{}", draw::wrapped("", predict::calibration_text(one.prediction)));
    core::print("{}\n", draw::to_text(predict::judged_table(one)));
    print_prediction(one.prediction);
  }
  core::print("{}\n", draw::to_text(predict::score_table(validations)));
  for (const predict::Validation& one : validations) core::print("{}", draw::wrapped("", predict::score_text(one)));
  return 0;
}

/// The sizes asked for, or the doublings behind the curve's largest.
std::vector<predict::Target> targets_of(const predict::MeasuredCurve& curve, const PredictFlags& flags) {
  constexpr int kDoublings = 4;
  std::vector<double> sizes;
  if (!flags.nodes.empty()) {
    for (const int64_t size : predict::parse_sizes(flags.nodes)) sizes.push_back(static_cast<double>(size));
  } else {
    for (int i = 1; i <= kDoublings; ++i) sizes.push_back(curve.points.back().size * std::exp2(i));
  }
  std::vector<predict::Target> targets;
  for (const double size : sizes) targets.push_back({size, predict::size_of(curve, size)});
  return targets;
}

int predict_tables(const std::vector<predict::MeasuredCurve>& curves, const PredictFlags& flags) {
  core::Json json = core::Json::array();
  for (const predict::MeasuredCurve& curve : curves) {
    const predict::CurvePrediction prediction =
        predict::predict_curve(curve, flags.calibrate_up_to, targets_of(curve, flags));
    if (flags.json) {
      json.push_back(predict::prediction_json(prediction));
      continue;
    }
    core::print("{}", draw::wrapped("", predict::calibration_text(prediction)));
    core::print("{}\n", draw::to_text(predict::steps_table(prediction)));
    print_prediction(prediction);
  }
  if (flags.json) core::print("{}\n", json.dump(2));
  return 0;
}
}  // namespace

int cmd_predict(const commands::ParsedCommand& command) {
  PredictFlags flags;
  core::OptionSet set = declare_predict(flags);
  set.parse(command.rest);
  if (set.wants_help()) {
    core::print("{}", set.help_text());
    return 0;
  }
  const predict::TableRequest request = table_request(flags);
  std::vector<predict::MeasuredCurve> curves;
  for (const std::string& input : flags.inputs) {
    if (!logs::is_result_table(input))
      throw UsageError(fmt::format("predict: '{}' is no CSV table of results over sizes", input),
                       "give a .csv with a column nodes or gpus and one of step times or rates");
    for (predict::MeasuredCurve& curve : predict::read_table_curves(input, request)) curves.push_back(std::move(curve));
  }
  return flags.validate ? validate_tables(curves, flags) : predict_tables(curves, flags);
}

}  // namespace lockstep::cli
