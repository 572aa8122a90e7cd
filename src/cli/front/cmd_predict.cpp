#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "cli/front/unread_flags.h"
#include "core/error.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "draw/render.h"
#include "logs/column_names.h"
#include "predict/advise.h"
#include "predict/budget.h"
#include "predict/describe_machine.h"
#include "predict/document.h"
#include "predict/input_rates.h"
#include "predict/machine_file.h"
#include "predict/machine_notes.h"
#include "predict/page.h"
#include "predict/plan_sizes.h"
#include "predict/plan_step.h"
#include "predict/run_curves.h"
#include "predict/size_list.h"
#include "predict/table_curves.h"
#include "predict/validation.h"
#include "published/time_columns.h"

namespace lockstep::cli {
namespace {

struct PredictFlags {
  std::vector<std::string> inputs;
  std::string nodes, system, model, output, scaling = "auto";
  std::optional<double> calibrate_up_to, samples_per_device;
  std::optional<int64_t> devices_per_node;
  std::vector<std::string> measured;
  std::string change, currency;
  predict::InputRates input;
  std::optional<double> budget_samples, budget_tokens, budget_runs, deadline_hours, price_per_node_hour;
  bool validate = false, advise = false, advise_batches = false, systems = false, describe = false, json = false;
};

core::OptionSet declare_predict(PredictFlags& flags) {
  core::OptionSet set("predict", "Step time, efficiency and cost at sizes that were not measured, with intervals.");
  set.add_positional("inputs", &flags.inputs,
                     {.help = "CSV tables of results over sizes; or run folders and logs, as `report` takes them; or a "
                              "recipe, whose name begins with its task (gpt_mine.toml), and behind -- more flags of "
                              "`lockstep train`.",
                      .metavar = "TABLE.csv|RUN|RECIPE.toml"});
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
          {.help = "System to predict for: a name of --systems, or a file that describes it (docs/predict.md).",
           .metavar = "NAME|FILE.toml",
           .unset_text = "as the table tells"});
  set.add("model", &flags.model,
          {.help = "Model of the table: a name, or its parameters (1.3B).",
           .metavar = "NAME",
           .unset_text = "as the table tells"});
  set.add("samples-per-device", &flags.samples_per_device,
          {.help = "Batch of a device and step, where the table lacks it; in strong scaling that of its smallest size.",
           .unit = "samples",
           .min = 0,
           .is_min_excluded = true});
  set.add("scaling", &flags.scaling,
          {.help = "Whether the batch of a device (weak) or of all devices (strong) stays, where the table has no "
                   "batches; auto: by its words, else strong where its times fall, else weak.",
           .choices = {"auto", "weak", "strong"}});
  set.add("devices-per-node", &flags.devices_per_node, {.help = "Where the table lacks it.", .min = 1});
  set.add("measured", &flags.measured,
          {.help = "Steps of a recipe that were measured on few nodes: they calibrate the rest, for example 1=0.98 "
                   "2=1.01.",
           .unit = "seconds",
           .metavar = "NODES=S"});
  set.add("change", &flags.change,
          {.help = "Predict the recipe with these flags changed, from steps that were --measured without them, for "
                   "example --change='--micro-batch-size=8 --tensor-model-parallel-size=2'.",
           .metavar = "FLAGS"});
  set.add("advise", &flags.advise,
          {.help = "Search the legal layouts of a recipe on one size: the fastest that fit, with their flags."});
  set.add("advise-batches", &flags.advise_batches,
          {.help = "The same, and apart from them the best layout of a quarter, half, twice and four times the global "
                   "batch; takes several times as long."});
  set.add(
      "input-samples-per-s", &flags.input.node_samples_per_s,
      {.help = "What the loaders of one node deliver, as `bench loader` by all of its ranks shows: no step is shorter "
               "than its samples take.",
       .unit = "samples/s",
       .unset_text = "assumed free",
       .min = 0,
       .is_min_excluded = true});
  set.add("storage-samples-per-s", &flags.input.storage_samples_per_s,
          {.help = "What shared storage delivers to all nodes together.",
           .unit = "samples/s",
           .unset_text = "assumed free",
           .min = 0,
           .is_min_excluded = true});
  set.group("Goal");
  set.add("budget-samples", &flags.budget_samples,
          {.help = "Work that hours, node-hours and energy are told for.",
           .unit = "samples",
           .min = 0,
           .is_min_excluded = true});
  set.add("budget-tokens", &flags.budget_tokens,
          {.help = "The same for language models.", .unit = "tokens", .min = 0, .is_min_excluded = true});
  set.add("budget-runs", &flags.budget_runs,
          {.help = "The same for a table of times of whole runs: how often its work is to be done.",
           .unit = "runs",
           .min = 0,
           .is_min_excluded = true});
  set.add("deadline-hours", &flags.deadline_hours,
          {.help = "Name the fewest nodes that reach the goal in time.",
           .unit = "hours",
           .min = 0,
           .is_min_excluded = true});
  set.add("price-per-node-hour", &flags.price_per_node_hour,
          {.help = "Adds a column of prices, in the unit of --currency.", .min = 0});
  set.add("currency", &flags.currency,
          {.help = "What --price-per-node-hour counts, for example EUR.", .metavar = "NAME", .unset_text = "not told"});
  set.group("Output");
  set.add("output", &flags.output,
          {.help = "Folder for a page with plots and tables (report.html).",
           .metavar = "DIR",
           .unset_text = "no files",
           .aliases = {"o"}});
  set.add("systems", &flags.systems, {.help = "List the systems that are known, and end."});
  set.add("describe-this-machine", &flags.describe,
          {.help = "Print a system file of the machine that the inputs, documents of `lockstep bench op` and `bench "
                   "collective`, were measured on."});
  set.add("json", &flags.json, {.help = "Machine-readable output on standard output."});
  return set;
}

predict::TableRequest table_request(const PredictFlags& flags) {
  predict::TableRequest request{
      .model = flags.model, .local_batch = flags.samples_per_device, .devices_per_node = flags.devices_per_node};
  request.largest_known = flags.calibrate_up_to;
  if (flags.scaling != "auto") request.is_strong = flags.scaling == "strong";
  if (!flags.system.empty()) request.machine = predict::find_machine(flags.system);
  return request;
}

void write_page(const draw::Document& document, const PredictFlags& flags) {
  if (flags.output.empty()) return;
  const auto files = draw::write_document(document, flags.output, {"html", "csv", "svg"});
  draw::replace_report(flags.output, files);
  if (flags.json) return;  // standard output is the document
  core::print("{}\n", std::filesystem::absolute(files.front()).lexically_normal().string());
}

void print_steps(const predict::CurvePrediction& prediction) {
  core::print("{}", draw::wrapped("", predict::calibration_text(prediction)));
  core::print("{}\n", draw::to_text(predict::steps_table(prediction)));
  if (const draw::Table rates = predict::rates_table(prediction); !rates.columns.empty())
    core::print("{}\n", draw::to_text(rates));
}

void print_prediction(const predict::CurvePrediction& prediction) {
  core::print("{}\n", draw::to_text(predict::parts_table(prediction)));
  core::print("{}\n", draw::wrapped("", predict::limit_text(prediction)));
  core::print("{}\n", draw::to_text(predict::facts_table(prediction)));
  if (!prediction.calibration.empty()) core::print("{}\n", draw::to_text(predict::learned_table(prediction)));
  for (const std::string& note : prediction.curve.notes) core::print("{}", draw::wrapped("note: ", note));
}

/// What `work` makes of every curve. A curve of several that the request does not fit (no size small enough) is left
/// out by name; the error of the only one stays an error.
template <class Work>
auto of_each(const std::vector<predict::MeasuredCurve>& curves, std::vector<std::string>& left_out, const Work& work) {
  std::vector<decltype(work(curves.front()))> results;
  for (const predict::MeasuredCurve& curve : curves) {
    try {
      results.push_back(work(curve));
    } catch (const UsageError& error) {
      if (results.empty() && &curve == &curves.back()) throw;
      left_out.emplace_back(error.what());
    }
  }
  return results;
}

/// Flags of recipes that a table or runs would pass over in silence.
void refuse_flags_of_recipes(const core::OptionSet& set, const PredictFlags& flags) {
  refuse_given(set, {"advise", "advise-batches", "measured", "change"},
               "is for recipes: a table or runs bring their own measured steps",
               "leave it out, or give a recipe and --system NAME");
  if (flags.validate)
    refuse_given(set,
                 {"nodes", "budget-samples", "budget-tokens", "budget-runs", "deadline-hours", "price-per-node-hour",
                  "currency"},
                 "says nothing to --validate, which judges the rows above --calibrate-up-to",
                 "leave it out, or leave --validate out to predict other sizes");
}

/// Flags of tables that a recipe would pass over, and flags that say nothing to --advise.
void refuse_flags_of_tables(const core::OptionSet& set, const PredictFlags& flags) {
  refuse_given(set, {"validate", "calibrate-up-to"}, "needs a table with rows", "give a CSV table");
  refuse_given(set, {"model"}, "is for tables and runs: a recipe names its model",
               "give flags of `lockstep train` behind --, for example `-- --model ViT-B-32`");
  refuse_given(set, {"scaling"}, "is for tables: a recipe tells its batch",
               "--samples-per-device N is weak scaling, `-- --global-batch-size N` strong scaling");
  refuse_given(set, {"devices-per-node"}, "is for tables and runs: a recipe runs on the nodes of --system",
               "give a system file with the key devices-per-node (docs/predict.md): --system FILE.toml");
  refuse_given(set, {"budget-runs"}, "is for tables of times of whole runs: a recipe counts samples or tokens",
               "give --budget-samples, or --budget-tokens of a language model");
  if (!flags.advise && !flags.advise_batches) return;
  refuse_given(set, {"change"}, "says nothing to --advise, which seeks layouts of the recipe as it is given",
               "put the flags behind --, or leave --advise out");
  refuse_given(set, {"budget-samples", "budget-tokens", "deadline-hours", "price-per-node-hour", "currency", "output"},
               "says nothing to --advise, which lists layouts of one size", "leave it out, or leave --advise out");
}

int validate_tables(const std::vector<predict::MeasuredCurve>& curves, const PredictFlags& flags) {
  if (!flags.calibrate_up_to)
    throw UsageError("predict: --validate needs --calibrate-up-to N",
                     "rows up to N calibrate, the rows above are judged; for example --calibrate-up-to 8");
  std::vector<std::string> left_out;
  auto validations = of_each(curves, left_out,
                             [&](const auto& curve) { return predict::validate_curve(curve, *flags.calibrate_up_to); });
  for (predict::Validation& one : validations)
    predict::note_machine(one.prediction.curve.machine, !flags.system.empty(), one.prediction);
  if (flags.json) {
    for (const std::string& text : left_out) core::log_warning("predict: left out: {}", text);
    core::Json json = core::Json::array();
    for (const predict::Validation& one : validations) json.push_back(predict::validation_json(one));
    core::print("{}\n", json.dump(2));
    write_page(predict::validations_document(validations), flags);
    return 0;
  }
  for (const predict::Validation& one : validations) {
    core::print("{}", draw::wrapped("", predict::calibration_text(one.prediction)));
    core::print("{}\n", draw::to_text(predict::judged_table(one)));
    print_prediction(one.prediction);
  }
  core::print("{}\n", draw::to_text(predict::score_table(validations)));
  for (const predict::Validation& one : validations) core::print("{}", draw::wrapped("", predict::score_text(one)));
  for (const std::string& text : left_out) core::print("{}", draw::wrapped("left out: ", text));
  write_page(predict::validations_document(validations), flags);
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

/// The flags alone.
std::optional<predict::Budget> asked_budget(const PredictFlags& flags) {
  predict::Budget budget{.deadline_hours = flags.deadline_hours,
                         .price_per_node_hour = flags.price_per_node_hour,
                         .currency = flags.currency};
  for (const auto& [units, unit] :
       {std::pair{flags.budget_samples, "samples"}, {flags.budget_tokens, "tokens"}, {flags.budget_runs, "runs"}}) {
    if (!units) continue;
    if (!budget.unit.empty())
      throw UsageError(fmt::format("predict: --budget-{} and --budget-{} are both given", budget.unit, unit),
                       "give one of them");
    budget.units = *units, budget.unit = unit;
  }
  if (!budget.unit.empty()) return budget;
  if (flags.deadline_hours || flags.price_per_node_hour)
    throw UsageError("predict: --deadline-hours and --price-per-node-hour need a goal",
                     "add --budget-samples or --budget-tokens, or --budget-runs for a table of times of whole runs");
  return std::nullopt;
}

std::optional<predict::Budget> budget_of(const PredictFlags& flags, const predict::PlannedStep& step) {
  std::optional<predict::Budget> budget = asked_budget(flags);
  if (!budget || budget->unit != "tokens") return budget;
  if (!step.tokens_per_sample)
    throw UsageError(fmt::format("predict: --budget-tokens is for language models, not for `train {}`", step.task),
                     "give --budget-samples");
  budget->units_per_sample = static_cast<double>(*step.tokens_per_sample);
  return budget;
}

/// What a goal lacks in a curve that tells other units.
std::string missing_for_goal(const predict::MeasuredCurve& curve, const std::string& unit) {
  const std::string length = "a column seq_len or a comment `# seq_len = N` tells the tokens of a sample";
  if (!curve.time_name.empty())
    return unit == "runs" ? fmt::format("the unit of '{}' is not told: call it walltime_s, _min or _h", curve.time_name)
                          : "its times are of whole runs: give --budget-runs, how often that work is to be done";
  if (curve.rate_unit == "tokens/s") return unit == "runs" ? "give --budget-tokens" : "give --budget-tokens; " + length;
  if (curve.rate_unit == "samples/s" || curve.rate_unit == "sequences/s")
    return unit == "runs" ? "give --budget-samples" : "give --budget-samples; " + length;
  return "add a column samples_per_s or tokens_per_s, or global_batch beside step times";
}

/// A goal counts what the curve's rate counts, or what follows from it by the length of a sample.
std::optional<predict::Budget> budget_of(const PredictFlags& flags, const predict::MeasuredCurve& curve) {
  std::optional<predict::Budget> budget = asked_budget(flags);
  if (!budget) return budget;
  budget->size_name = curve.size_name;
  const bool counts_tokens = curve.rate_unit == "tokens/s",
             counts_samples = curve.rate_unit == "samples/s" || curve.rate_unit == "sequences/s";
  if ((budget->unit == "tokens" && counts_tokens) || (budget->unit == "samples" && counts_samples)) return budget;
  if (budget->unit == "runs") {
    const double unit_s = curve.time_name.empty() ? 0 : published::solution_unit_s(curve.time_name);
    budget->units_per_sample = unit_s > 0 ? 1 / unit_s : 0;
    budget->is_run_a_step = curve.has_growing_work;
    if (unit_s > 0) return budget;
  } else if ((counts_samples || counts_tokens) && curve.tokens_per_sample) {
    budget->units_per_sample = counts_samples ? *curve.tokens_per_sample : 1 / *curve.tokens_per_sample;
    return budget;
  }
  throw UsageError(fmt::format("predict: curve '{}' tells {}, which --budget-{} cannot be counted by", curve.name,
                               !curve.time_name.empty()  ? fmt::format("times ('{}')", curve.time_name)
                               : curve.rate_unit.empty() ? "no rate"
                                                         : curve.rate_unit,
                               budget->unit),
                   missing_for_goal(curve, budget->unit));
}

int predict_tables(const std::vector<predict::MeasuredCurve>& curves, const PredictFlags& flags) {
  std::vector<std::string> left_out;
  auto predictions = of_each(curves, left_out, [&](const auto& curve) {
    return predict::predict_curve(curve, flags.calibrate_up_to, targets_of(curve, flags));
  });
  for (predict::CurvePrediction& one : predictions) {
    if (!flags.nodes.empty()) predict::note_size_unit(one);
    predict::note_machine(one.curve.machine, !flags.system.empty(), one);
  }
  core::Json json = core::Json::array();
  std::vector<draw::Table> goals;
  for (const predict::CurvePrediction& prediction : predictions) {
    const auto budget = budget_of(flags, prediction.curve);
    const auto costs =
        budget ? predict::goal_costs(prediction, prediction.curve.machine, *budget) : std::vector<predict::GoalCost>{};
    if (budget) goals.push_back(predict::goal_table(costs, *budget));
    if (flags.json) {
      json.push_back(predict::prediction_json(prediction));
      if (budget) json.back()["goal"] = predict::goal_json(costs);
      continue;
    }
    print_steps(prediction);
    if (budget) core::print("{}\n", draw::to_text(goals.back()));
    print_prediction(prediction);
    if (budget)
      for (const std::string& text : predict::goal_texts(costs, *budget)) core::print("{}", draw::wrapped("", text));
  }
  for (const std::string& text : left_out) core::log_warning("predict: left out: {}", text);
  if (flags.json) core::print("{}\n", json.dump(2));
  write_page(predict::predictions_document(predictions, goals), flags);
  return 0;
}

/// Curves of all tables, and of all runs together.
std::vector<predict::MeasuredCurve> read_curves(const PredictFlags& flags, const predict::TableRequest& request) {
  std::vector<predict::MeasuredCurve> curves;
  std::vector<std::string> runs;
  for (const std::string& input : flags.inputs) {
    if (!logs::is_result_table(input)) {
      runs.push_back(input);
      continue;
    }
    for (predict::MeasuredCurve& curve : predict::read_table_curves(input, request)) curves.push_back(std::move(curve));
  }
  if (runs.empty()) return curves;
  try {
    for (predict::MeasuredCurve& curve : predict::read_run_curves(runs, request)) curves.push_back(std::move(curve));
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(fmt::format("predict: '{}' is no CSV table of results over sizes and holds no runs: {}",
                                 core::join(runs, "', '"), error.what()),
                     "give a .csv with a column nodes or gpus and one of step times or rates, or run folders");
  }
  return curves;
}

int list_systems(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (word != "--systems" && word != "--json")
      throw UsageError(fmt::format("predict: --systems takes nothing but --json, got '{}'", word), "leave it out");
  if (words.size() > 1)
    core::print("{}\n", predict::machines_json().dump(2));
  else
    core::print("{}", draw::to_text(predict::machines_table()));
  return 0;
}

/// "1=0.98": seconds on so many nodes.
std::vector<predict::MeasuredStep> parse_measured(const std::vector<std::string>& words) {
  std::vector<predict::MeasuredStep> measured;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const auto nodes = core::parse_int(word.substr(0, equals));
    const auto seconds = equals == std::string::npos ? std::nullopt : core::parse_double(word.substr(equals + 1));
    if (!nodes || !seconds || *nodes < 1 || !(*seconds > 0 && std::isfinite(*seconds)))
      throw UsageError(fmt::format("predict: --measured got '{}', expected NODES=SECONDS", word),
                       "for example --measured 1=0.98 2=1.01");
    measured.push_back({*nodes, *seconds});
  }
  std::sort(measured.begin(), measured.end(), [](const auto& a, const auto& b) { return a.nodes < b.nodes; });
  return measured;
}

/// `train TASK --config RECIPE ...` of a recipe whose name begins with its task.
predict::PlannedCommand command_of(const std::string& recipe, const PredictFlags& flags,
                                   const std::vector<std::string>& more) {
  const std::string name = std::filesystem::path(recipe).filename().string(), task = name.substr(0, name.find('_'));
  const commands::CommandInfo* info = commands::find_command("train " + task);
  if (info == nullptr || !info->is_implemented) {
    std::vector<std::string> tasks;
    for (const tasks::FrontTaskRow& row : tasks::front_tasks()) tasks.push_back(row.name);
    throw UsageError(fmt::format("predict: the name of recipe '{}' does not begin with a task", recipe),
                     fmt::format("tasks are {}; call it {}_mine.toml, for example", core::join_or(tasks), tasks[0]));
  }
  predict::PlannedCommand command{.words = {"train", task, "--config", recipe},
                                  .samples_per_device = flags.samples_per_device};
  command.words.insert(command.words.end(), more.begin(), more.end());
  return command;
}

/// The changed steps by what was measured of the recipe as it is.
predict::CurvePrediction predict_changed_recipe(const predict::PlannedCommand& command, const predict::Machine& machine,
                                                const std::vector<predict::MeasuredStep>& measured,
                                                const std::vector<predict::PlannedStep>& changed) {
  if (measured.empty())
    throw UsageError("predict: --change needs steps that were measured without it",
                     "add --measured NODES=SECONDS, or put the flags behind --");
  std::vector<int64_t> nodes;
  for (const predict::MeasuredStep& one : measured) nodes.push_back(one.nodes);
  std::vector<std::string> refused;
  const auto base = predict::plan_steps(command, machine, nodes, refused);
  return predict::predict_changed(base, measured, changed, machine);
}

int advise_recipe(const predict::PlannedCommand& command, const predict::Machine& machine, const PredictFlags& flags) {
  const std::vector<int64_t> sizes = predict::parse_sizes(flags.nodes.empty() ? "1" : flags.nodes);
  if (sizes.size() != 1)
    throw UsageError(fmt::format("predict: --advise takes one size, --nodes names {}", sizes.size()),
                     "for example --nodes 256");
  predict::AdviseRequest request{.words = predict::words_for(command, sizes[0] * machine.devices_per_node),
                                 .nodes = sizes[0],
                                 .measured = parse_measured(flags.measured),
                                 .with_other_batches = flags.advise_batches};
  try {
    std::vector<std::string> refused;
    request.steps = predict::plan_sizes(command, machine, sizes, request.measured, refused);
  } catch (const UsageError& error) {
    throw UsageError(error.what(), error.hint() +
                                       "; here flags of `train` stand behind `--`, and --samples-per-device makes "
                                       "the global batch follow the devices");
  }
  const predict::AdviceList list = predict::advise(request, machine);
  std::vector<std::string> notes;
  if (!predict::has_nodes(machine, static_cast<double>(sizes[0])))
    notes.push_back(predict::missing_nodes_text(machine, fmt::format("{} nodes", sizes[0])));
  if (flags.json) {
    core::Json json = predict::advice_json(list);
    json["notes"] = notes;
    json["input"] = predict::input_fact(machine.input, "assumed free").value;
    core::print("{}\n", json.dump(2));
    return 0;
  }
  core::print("{}", draw::to_text(predict::advice_table(list, machine)));
  if (!list.other_batches.empty()) core::print("\n{}", draw::to_text(predict::batch_table(list, machine)));
  for (const std::string& note : notes) core::print("{}", draw::wrapped("note: ", note));
  return 0;
}

int predict_recipe(const core::OptionSet& set, const PredictFlags& flags, const std::vector<std::string>& more) {
  refuse_flags_of_tables(set, flags);
  if (flags.system.empty())
    throw UsageError("predict: a recipe needs --system NAME", "`lockstep predict --systems` lists them");
  predict::Machine machine = predict::find_machine(flags.system);
  machine.input = flags.input;
  const predict::PlannedCommand command = command_of(flags.inputs[0], flags, more);
  if (flags.advise || flags.advise_batches) return advise_recipe(command, machine, flags);
  std::vector<std::string> refused;
  const std::vector<predict::MeasuredStep> measured = parse_measured(flags.measured);
  predict::PlannedCommand asked = command;
  for (const std::string& word : core::split(flags.change, " "))
    if (!word.empty()) asked.words.push_back(word);
  if (flags.change.find("--global-batch-size") != std::string::npos) asked.samples_per_device.reset();
  const std::vector<int64_t> sizes = predict::parse_sizes(flags.nodes.empty() ? "1-64*2" : flags.nodes);
  // What was measured is of the recipe without the change, which may not fit so few devices.
  const auto steps = flags.change.empty() ? predict::plan_sizes(asked, machine, sizes, measured, refused)
                                          : predict::plan_steps(asked, machine, sizes, refused);
  predict::CurvePrediction prediction = flags.change.empty()
                                            ? predict::predict_steps(predict::model_of(steps, machine), steps, measured)
                                            : predict_changed_recipe(command, machine, measured, steps);
  predict::note_machine(machine, false, prediction);
  if (std::string text = predict::bubble_text(steps); !text.empty()) prediction.curve.notes.push_back(std::move(text));
  const auto budget = budget_of(flags, steps.front());
  auto costs = budget ? predict::goal_costs(prediction, machine, *budget, predict::fit_memory(steps, machine))
                      : std::vector<predict::GoalCost>{};
  std::erase_if(costs, [&](const predict::GoalCost& cost) {
    return std::find(sizes.begin(), sizes.end(), static_cast<int64_t>(cost.size)) == sizes.end();
  });
  std::vector<draw::Table> tables = {predict::memory_table(steps, machine)};
  if (budget) tables.push_back(predict::goal_table(costs, *budget));
  const auto write = [&] { write_page(predict::predictions_document({prediction}, tables), flags); };
  if (flags.json) {
    core::Json json = predict::prediction_json(prediction);
    json["system"] = predict::machine_json(machine);
    json["plan"] = predict::memory_json(steps, machine);
    json["refused"] = refused;
    if (budget) json["goal"] = predict::goal_json(costs);
    core::print("{}\n", json.dump(2));
    write();
    return 0;
  }
  print_steps(prediction);
  core::print("{}\n", draw::to_text(predict::memory_table(steps, machine)));
  if (budget) core::print("{}\n", draw::to_text(predict::goal_table(costs, *budget)));
  print_prediction(prediction);
  for (const std::string& text : refused) core::print("{}", draw::wrapped("left out: ", text));
  if (budget)
    for (const std::string& text : predict::goal_texts(costs, *budget)) core::print("{}", draw::wrapped("", text));
  write();
  return 0;
}
}  // namespace

void visit_predict_options(const OptionVisitor& visit) {
  PredictFlags flags;
  visit(declare_predict(flags));
}

int cmd_predict(const commands::ParsedCommand& command) {
  PredictFlags flags;
  core::OptionSet set = declare_predict(flags);
  const std::vector<std::string>& words = command.rest;
  if (std::find(words.begin(), words.end(), "--systems") != words.end()) return list_systems(words);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  set.parse(std::span(words.begin(), dashes));
  if (!flags.price_per_node_hour)
    refuse_given(set, {"currency"}, "says what a price counts, and there is none", "add --price-per-node-hour N");
  const std::vector<std::string> more(dashes == words.end() ? dashes : dashes + 1, words.end());
  if (set.wants_help()) {
    core::print("{}", set.help_text());
    return 0;
  }
  if (flags.describe) {
    core::print("{}", predict::describe_machine(flags.inputs));
    return 0;
  }
  if (flags.inputs.size() == 1 && core::ends_with(flags.inputs[0], ".toml")) return predict_recipe(set, flags, more);
  if (!more.empty())
    throw UsageError("predict: flags behind -- belong to `lockstep train`, which a table does not run",
                     "leave them out, or give a recipe");
  refuse_flags_of_recipes(set, flags);
  const predict::TableRequest request = table_request(flags);
  std::vector<predict::MeasuredCurve> curves = read_curves(flags, request);
  for (predict::MeasuredCurve& curve : curves) predict::take_input(flags.input, curve);
  return flags.validate ? validate_tables(curves, flags) : predict_tables(curves, flags);
}

}  // namespace lockstep::cli
