#include "predict/table_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "predict/layer_messages.h"
#include "predict/told_text.h"
#include "published/column_clashes.h"
#include "published/columns.h"
#include "published/formulas.h"

namespace lockstep::predict {
namespace {

using published::FormulaContext;

constexpr double kUnknownDevicesPerNode = 8;
constexpr double kSameWork = 0.02;  // batches may be rounded

/// Nodes where the table has them, else devices; nullptr: no sizes.
/// Parts of one node (1, 2, 4 of its devices) are told apart by their devices.
const char* size_column(const FormulaContext& context) {
  const char* devices = context.device_column();
  if (!context.has("nodes") || devices == nullptr) return context.has("nodes") ? "nodes" : devices;
  std::optional<double> of_one_node;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    if (context.at(row, "nodes").value != 1) continue;
    const double count = context.at(row, devices).value;
    if (of_one_node.value_or(count) != count) return devices;
    of_one_node = count;
  }
  return "nodes";
}

/// Texts of the rows of a curve that say what ran, without repeats.
std::string row_texts(const FormulaContext& context, const std::vector<size_t>& rows) {
  std::vector<std::string> texts;
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& value = context.table.rows[rows.front()][column];
    const bool counts_tokens = core::plain_name(context.table.columns[column]).find("tokens") != std::string::npos;
    const bool is_share = core::ends_with(value, "%") && core::parse_double(value.substr(0, value.size() - 1));
    if (!core::parse_double(value) && !value.empty() && !counts_tokens && !is_share) texts.push_back(value);
  }
  return core::join(texts, "; ");
}

/// A column "tokens per batch" of "16M", in the words of a sentence.
std::string batch_text(const FormulaContext& context, const std::vector<size_t>& rows) {
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& value = context.table.rows[rows.front()][column];
    const bool is_shared =
        std::all_of(rows.begin(), rows.end(), [&](size_t row) { return context.table.rows[row][column] == value; });
    if (!counts_batch_in_tokens(context.table.columns[column]) || !is_shared || core::parse_double(value)) continue;
    return is_batch_of_device(context.table.columns[column]) ? "; batch of " + value + " tokens per device"
                                                             : "; global batch of " + value + " tokens";
  }
  return "";
}

/// A whole number that all rows of a column share.
std::optional<int64_t> shared_count(const FormulaContext& context, const std::vector<size_t>& rows,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (size_t column = 0; column < context.table.columns.size(); ++column) {
      if (published::plain_column(context.table.columns[column]) != name) continue;
      const auto value = core::parse_double(context.table.rows[rows.front()][column]);
      const bool is_shared = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
        return core::parse_double(context.table.rows[row][column]) == value;
      });
      if (value && is_shared && *value >= 1 && *value == std::floor(*value)) return static_cast<int64_t>(*value);
    }
  return std::nullopt;
}

/// A column of all ranks that share a model, "model-parallel size": tensor ranks of a node, and stages for the rest.
void take_model_parallel_size(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  constexpr int64_t kMostTensorRanks = 8;
  if (work.tp > 1 || work.pp > 1) return;
  const auto ranks = shared_count(context, rows, {"model_parallel_size", "model_parallel", "model_parallel_ranks"});
  if (!ranks || *ranks == 1) return;
  work.tp = std::gcd(*ranks, kMostTensorRanks);
  work.pp = *ranks / work.tp;
  work.facts.push_back({"layout", fmt::format("{} tensor ranks x {} stages", work.tp, work.pp),
                        fmt::format("{} ranks in a column of the table", *ranks)});
}

const std::initializer_list<const char*> kContextColumns = {"cp", "context_parallel", "context_parallel_size",
                                                            "cp_size"};
const std::initializer_list<const char*> kExpertColumns = {"ep", "expert_parallel", "expert_parallel_size",
                                                           "expert_model_parallel_size", "ep_size"};

/// The layout of one row, where columns of context or expert ranks grow with the size.
WorkFacts work_at(const FormulaContext& context, size_t row, const WorkFacts& of_curve) {
  WorkFacts work = of_curve;
  const std::vector<size_t> one = {row};
  if (const auto ranks = shared_count(context, one, kContextColumns)) work.cp = *ranks;
  if (const auto ranks = shared_count(context, one, kExpertColumns)) work.ep = *ranks;
  return work;
}

void take_columns(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  const auto take = [&](std::initializer_list<const char*> names, const char* what, auto& field) {
    if (const auto value = shared_count(context, rows, names)) {
      field = *value;
      work.facts.push_back({what, fmt::format("{}", *value), "column of the table"});
    }
  };
  take({"tp", "tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size", "tp_size"}, "tensor ranks",
       work.tp);
  take({"pp", "pipeline_parallel", "pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size"},
       "pipeline stages", work.pp);
  take({"vp", "vpp", "virtual_pipeline_parallel_size", "virtual_stages"}, "virtual stages", work.chunks);
  take_model_parallel_size(context, rows, work);
  take(kContextColumns, "context ranks", work.cp);
  take(kExpertColumns, "expert ranks", work.ep);
  for (const size_t row : rows) {  // columns that grow with the size
    const WorkFacts at_row = work_at(context, row, work);
    work.cp = std::max(work.cp, at_row.cp), work.ep = std::max(work.ep, at_row.ep);
  }
  take({"num_experts", "experts", "n_experts", "num_local_experts", "n_routed_experts", "routed_experts"}, "experts",
       work.num_experts);
  take({"top_k", "topk", "moe_router_topk", "experts_per_token", "num_experts_per_tok"}, "experts of a token",
       work.top_k);
  take({"layers", "num_layers", "n_layers", "number_of_layers"}, "layers", work.layers);
  take({"hidden", "hidden_size", "d_model"}, "width", work.hidden);
  take({"mbs", "micro_batch", "micro_batch_size", "microbatch_size", "microbatchsize", "micro_batch_per_gpu",
        "micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"},
       "micro-batch", work.micro_batch);
}

/// "ZeRO stage" of 1 to 3, and "Zero1" of the ranks of its groups.
void take_sharding_columns(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  const auto stage = shared_count(context, rows, {"zero_stage", "zero"});
  const bool has_states = (stage && *stage < 3) || shared_count(context, rows, {"zero1", "zero_1", "zero2", "zero_2"});
  if (stage == 3)
    work.sharding = Sharding::kFull;
  else if (has_states)
    work.holds_parameters = true;
  else
    return;
  work.facts.push_back(
      {"sharding",
       has_states ? "of the optimizer's states: two passes of the parameters" : "full: three passes of the parameters",
       "column of the table"});
}

/// Parameters that work on each token, of a model with experts: "Active params (B)".
bool is_active(const std::string& name) { return name.find("activ") != std::string::npos; }

/// Parameters that a column counts in each unit: 1 in "NumParams", 1e9 in "Parameters (billion)"; 0: it counts others.
double parameters_per_unit(const std::string& column) {
  const std::string name = core::plain_name(column);
  const bool is_of_model = name.find("param") != std::string::npos || name.find("model_size") != std::string::npos;
  if (!is_of_model || is_active(name)) return 0;
  if (name.find("billion") != std::string::npos || core::ends_with(name, "_b")) return 1e9;
  if (name.find("million") != std::string::npos || core::ends_with(name, "_m")) return 1e6;
  constexpr std::string_view kWords[] = {"parameters", "params", "numparams", "nparams", "number", "num",      "no",
                                         "n",          "of",     "total",     "model",   "count",  "parameter"};
  const std::vector<std::string> words = core::split(name, "_");
  const bool is_plain = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
  });
  return is_plain ? 1 : 0;
}

/// A column of parameters that all rows share wins over what their texts tell: "1b" is 1,315,950,592.
void take_parameters(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  constexpr double kFewest = 1e5;  // fewer have a unit that nothing tells
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const double unit = parameters_per_unit(context.table.columns[column]);
    const auto value = core::parse_double(context.table.rows[rows.front()][column]);
    const bool is_shared = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
      return core::parse_double(context.table.rows[row][column]) == value;
    });
    if (unit <= 0 || !value || !is_shared || *value * unit < kFewest) continue;
    work.parameters = *value * unit;
    work.are_parameters_certain = unit == 1;
    std::erase_if(work.facts, [](const KnownFact& fact) { return fact.name == "parameters"; });
    const char* name = unit == 1 ? "" : unit == 1e6 ? " million" : " billion";
    work.facts.push_back({"parameters", fmt::format("{:.15g}{}", *value, name), "column of the table"});
    return;
  }
}

/// "Active params (B)", "activated parameters (billion)".
void take_active_parameters(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  for (const std::string& column : context.table.columns) {
    const std::string name = core::plain_name(column);
    if (!is_active(name) || name.find("param") == std::string::npos) continue;
    const auto value = core::parse_double(context.table.rows[rows.front()][context.table.column(column)]);
    const double unit = core::ends_with(name, "_b") || name.find("billion") != std::string::npos   ? 1e9
                        : core::ends_with(name, "_m") || name.find("million") != std::string::npos ? 1e6
                                                                                                   : 1;
    if (!value || *value <= 0) continue;
    work.active_parameters = *value * unit;
    work.has_experts = true;
    std::erase_if(work.facts, [](const KnownFact& fact) { return fact.name == "active parameters"; });
    work.facts.push_back({"active parameters", core::format_count(*work.active_parameters), "column of the table"});
    return;
  }
}

/// Devices of a node from a column that all rows share.
std::optional<int64_t> told_in_column(const FormulaContext& context, const std::vector<size_t>& rows) {
  for (const std::string& column : context.table.columns) {
    const std::string name = core::plain_name(column);
    if (!published::tells_devices_of_node(column)) continue;
    if (const auto count = shared_count(context, rows, {name.c_str()})) return count;
  }
  return std::nullopt;
}

/// The network of a system that is not known: as told, else as nodes of the device mostly have it.
void take_network(const std::string& text, MeasuredCurve& curve) {
  constexpr double kEfficiency = 0.8, kEfficiencySd = 0.2;
  if (curve.machine) {
    curve.machine->node_gbytes_per_s.value *=
        curve.devices_per_node / static_cast<double>(curve.machine->devices_per_node);
    curve.machine->devices_per_node = std::llround(curve.devices_per_node);
  }
  const auto told = told_node_gbytes_per_s(text);
  if (!told) return;
  if (!curve.machine) curve.machine = unknown_machine(curve.devices_per_node);
  curve.machine->node_gbytes_per_s = {*told, "told in the table"};
  curve.machine->network_efficiency = {kEfficiency, "prior for a network that is not known"};
  curve.machine->network_efficiency_sd = {kEfficiencySd, "prior for a network that is not known"};
}

/// Full nodes have one number of devices; part of one node has fewer.
void note_nodes_that_differ(const FormulaContext& context, const std::vector<size_t>& rows, MeasuredCurve& curve) {
  const char* devices = context.device_column();
  if (!context.has("nodes") || devices == nullptr) return;
  const auto of_node = [&](size_t row) { return context.at(row, devices).value / context.at(row, "nodes").value; };
  const auto [least, most] =
      std::minmax_element(rows.begin(), rows.end(), [&](size_t a, size_t b) { return of_node(a) < of_node(b); });
  const bool is_part = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
    return of_node(row) == of_node(*most) || context.at(row, "nodes").value == 1;
  });
  if (is_part) return;
  curve.notes.push_back(fmt::format(
      "The nodes differ: {:g} devices each at {} {} (line {}), {:g} at {} (line {}). Are '{}' and '{}' right in every "
      "row?",
      of_node(*least), context.given_name("nodes"), context.table.text(*least, "nodes"), context.table.lines[*least],
      of_node(*most), context.table.text(*most, "nodes"), context.table.lines[*most], context.given_name("nodes"),
      context.given_name(devices)));
}

/// Devices of a node, as the table tells them.
struct ToldDevices {
  double count = 0;
  std::string source{};
};
std::optional<ToldDevices> told_devices(const FormulaContext& context, const std::vector<size_t>& rows,
                                        const std::string& comments) {
  const char* devices = context.device_column();
  if (context.has("nodes") && devices != nullptr) {
    double most = 0;
    for (const size_t row : rows)
      most = std::max(most, context.at(row, devices).value / context.at(row, "nodes").value);
    return ToldDevices{most, "columns of the table"};
  }
  if (const auto told = told_in_column(context, rows))
    return ToldDevices{static_cast<double>(*told), "column of the table"};
  if (const auto said = told_devices_per_node(row_texts(context, rows)))
    return ToldDevices{static_cast<double>(*said), "text of the rows"};
  if (const auto said = told_devices_per_node(comments))
    return ToldDevices{static_cast<double>(*said), "comments of the table"};
  return std::nullopt;
}

void take_devices_per_node(const FormulaContext& context, const std::vector<size_t>& rows, const std::string& comments,
                           const TableRequest& request, MeasuredCurve& curve) {
  note_nodes_that_differ(context, rows, curve);
  const auto take = [&](double count, std::string source) {
    curve.devices_per_node = count;
    curve.devices_per_node_source = std::move(source);
  };
  const auto told = told_devices(context, rows, comments);
  if (request.devices_per_node) {
    const auto asked = static_cast<double>(*request.devices_per_node);
    if (told && told->count != asked)
      curve.notes.push_back(
          fmt::format("--devices-per-node {:g} wins over the table ({}), which has {:g}: is that right?", asked,
                      told->source, told->count));
    return take(asked, "--devices-per-node");
  }
  if (told) return take(told->count, told->source);
  if (curve.machine)
    return take(static_cast<double>(curve.machine->devices_per_node), "as in nodes of " + curve.machine->name);
  take(kUnknownDevicesPerNode, "not known: a guess");
  curve.notes.push_back(
      fmt::format("The table does not tell the devices of a node: {:g} are taken (--devices-per-node N tells them).",
                  kUnknownDevicesPerNode));
}

void take_machine(const FormulaContext& context, const std::vector<size_t>& rows, const std::string& comments,
                  const TableRequest& request, MeasuredCurve& curve) {
  for (const std::string& text : {row_texts(context, rows), comments})
    if (const hw::SystemSpec* system = find_system_in(text); !curve.machine && system != nullptr)
      curve.machine = machine_of(*system, text);
  if (request.machine) {
    if (curve.machine && curve.machine->name != request.machine->name)
      curve.notes.push_back(
          fmt::format("--system '{}' wins over the table, which names '{}': were its rows measured there?",
                      request.machine->name, curve.machine->name));
    curve.machine = request.machine;
  }
  const bool is_guessed = !curve.machine;
  const std::string text = row_texts(context, rows) + "; " + comments;
  if (is_guessed) curve.machine = usual_machine_in(text);
  take_devices_per_node(context, rows, comments, request, curve);
  if (is_guessed) take_network(text, curve);
  if (curve.size_name != "nodes")
    curve.work.facts.push_back(
        {"devices of a node", fmt::format("{:g}", curve.devices_per_node), curve.devices_per_node_source});
  if (!curve.machine || (is_guessed && curve.machine->device.empty())) return;
  const char* source = request.machine ? "--system" : "named in the table";
  curve.work.facts.push_back({is_guessed ? "device" : "system", curve.machine->name, source});
}

void add_points(const FormulaContext& context, const std::vector<size_t>& rows, const TableRequest& request,
                MeasuredCurve& curve) {
  constexpr double kUsualSequence = 2048;
  const char* size = size_column(context);
  std::vector<size_t> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return context.at(a, size).value < context.at(b, size).value; });
  const std::string text =
      row_texts(context, rows) + batch_text(context, rows) + "; " + core::join(context.table.comments, "; ");
  const auto is_known = [&](size_t row) {
    return !request.largest_known || context.at(row, size).value <= *request.largest_known;
  };
  const auto num_known = static_cast<size_t>(std::count_if(sorted.begin(), sorted.end(), is_known));
  CurveSteps steps =
      read_steps(context, sorted, num_known, request, curve.work, curve.machine, curve.devices_per_node, text);
  curve.has_seconds = steps.has_seconds;
  curve.has_batches = steps.has_batches;
  curve.clock_s = steps.clock_s;
  curve.assumed_samples = steps.assumed_samples;
  curve.rate_unit = steps.rate_unit;
  curve.time_name = steps.time_name;
  curve.has_growing_work = steps.has_growing_work;
  curve.scaling_source = steps.scaling_source;
  curve.rate_per_device = steps.rate_per_device;
  curve.is_strong = steps.is_strong;
  std::move(steps.notes.begin(), steps.notes.end(), std::back_inserter(curve.notes));
  const double length = steps.rows.front().sequence;
  const bool has_one_length =
      std::all_of(steps.rows.begin(), steps.rows.end(), [&](const RowStep& step) { return step.sequence == length; });
  if (has_one_length && length > 0) curve.tokens_per_sample = length;
  if (steps.told_batch) curve.work.facts.push_back(*steps.told_batch);
  if (!curve.work.local_batch) curve.work.local_batch = steps.rows.front().samples;
  if (!curve.work.local_batch && steps.assumed_samples > 0) {
    curve.work.local_batch = steps.assumed_samples;
    curve.work.facts.push_back(
        {"batch", fmt::format("{:.3g} samples a device", steps.assumed_samples), "not known: a usual one"});
  }
  std::vector<WorkFacts> rows_work;
  std::vector<DeviceTokens> rows_tokens;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double devices = devices_at(context, curve.devices_per_node, sorted[i]);
    WorkFacts at_row = work_at(context, sorted[i], curve.work);
    double work = steps.rows[i].units / steps.rows.front().units;
    if (std::fabs(work - 1) < kSameWork) work = 1;
    curve.is_strong = curve.is_strong || work < 1;
    const double samples = steps.rows[i].samples.value_or(steps.assumed_samples * work);
    curve.points.push_back({.measured = {.size = {.nodes = devices / curve.devices_per_node,
                                                  .devices = devices,
                                                  .work = work,
                                                  .bubble = bubble_of(curve, samples),
                                                  .traffic = passes_of(curve, samples),
                                                  .expert_ranks = static_cast<double>(at_row.ep)},
                                         .step_s = steps.rows[i].step},
                            .size = context.at(sorted[i], size).value,
                            .line = context.table.lines[sorted[i]]});
    const double sequence = steps.rows[i].sequence > 0 ? steps.rows[i].sequence : kUsualSequence;
    rows_tokens.push_back({.tokens = steps.rows[i].tokens.value_or(samples * sequence),
                           .sequence = sequence,
                           .num_micro = std::max(1.0, num_micro(at_row, samples))});
    rows_work.push_back(std::move(at_row));
  }
  add_layer_messages(rows_work, rows_tokens, curve);
}

/// Batches that neither stay with a device nor with all of them belong to their own rows alone.
void judge_scaling(MeasuredCurve& curve) {
  constexpr double kRounded = 0.05;
  if (!curve.is_strong) return;
  const Size& first = curve.points.front().measured.size;
  const bool stays_global = std::all_of(curve.points.begin(), curve.points.end(), [&](const CurvePoint& point) {
    const Size& size = point.measured.size;
    return std::fabs(size.work * size.devices / first.devices - 1) < kRounded;
  });
  if (stays_global) return;
  curve.is_strong = false;
  curve.notes.emplace_back(
      "The batches of the rows follow neither weak nor strong scaling: a size between or beyond them is predicted with "
      "the batch of a device at the nearest row.");
}

/// A model that no device holds is laid out somehow, told or not: sharded where a node holds it, else over tensor ranks
/// of a node and the pipeline stages that hold the rest, as far as the smallest size has devices. Sharding of the
/// optimizer's states alone, which is told, leaves parameters and gradients with every device.
void assume_layout(const FormulaContext& context, const std::vector<size_t>& rows, MeasuredCurve& curve) {
  constexpr double kBytesPerParameter = 18, kBytesBesideStates = 6, kUsualMemory = 64e9, kFull = 0.8, kUsable = 0.6,
                   kMostTensorRanks = 8;
  WorkFacts& work = curve.work;
  if (!work.parameters || work.tp > 1 || work.pp > 1 || work.sharding != Sharding::kReplicated) return;
  const double memory =
      curve.machine && curve.machine->memory_gbytes.value > 0 ? curve.machine->memory_gbytes.value * 1e9 : kUsualMemory;
  const double bytes = (work.holds_parameters ? kBytesBesideStates : kBytesPerParameter) * work.held_parameters();
  if (bytes <= kFull * memory) return;
  double least_devices = HUGE_VAL;
  for (const size_t row : rows)
    least_devices = std::min(least_devices, devices_at(context, curve.devices_per_node, row));
  const bool is_in_a_node =
      bytes <= kUsable * memory * curve.devices_per_node || least_devices <= curve.devices_per_node;
  if (is_in_a_node && !work.holds_parameters) {
    work.sharding = Sharding::kFull;
    work.facts.push_back({"sharding", "full", "not known: no device holds the model alone"});
    return;
  }
  const double wanted = std::exp2(std::ceil(std::log2(bytes / (kUsable * memory))));
  const double replica = std::exp2(std::floor(std::log2(std::min(wanted, least_devices))));
  work.tp = static_cast<int64_t>(std::exp2(std::floor(std::log2(std::min(kMostTensorRanks, curve.devices_per_node)))));
  work.pp = std::max<int64_t>(1, static_cast<int64_t>(replica) / work.tp);
  work.facts.push_back({"layout", fmt::format("{} tensor ranks x {} stages", work.tp, work.pp),
                        "not known: the least that holds the model"});
  work.is_layout_assumed = true;
}

/// Numbers that all rows of each group share and that tell the groups apart: as few columns as do so, those that name a
/// setting first.
std::vector<size_t> telling_columns(const FormulaContext& context, const std::vector<std::vector<size_t>>& groups) {
  const auto value = [&](size_t row, size_t column) { return context.table.rows[row][column]; };
  const auto is_shared = [&](size_t column) {
    return std::all_of(groups.begin(), groups.end(), [&](const std::vector<size_t>& rows) {
      return std::all_of(rows.begin(), rows.end(), [&](size_t row) {
        return core::parse_double(value(row, column)) && value(row, column) == value(rows.front(), column);
      });
    });
  };
  std::vector<std::string> keys(groups.size());
  std::vector<size_t> telling;
  for (const bool is_setting : {true, false})
    for (size_t column = 0; column < context.table.columns.size(); ++column) {
      if (published::tells_setting(context.table.columns[column]) != is_setting || !is_shared(column)) continue;
      std::vector<std::string> more = keys;
      for (size_t i = 0; i < groups.size(); ++i) more[i] += "; " + value(groups[i].front(), column);
      if (std::set(more.begin(), more.end()).size() == std::set(keys.begin(), keys.end()).size()) continue;
      keys = std::move(more);
      telling.push_back(column);
    }
  return telling;
}

/// "; Sequence Length 128"
std::string settings_of(const FormulaContext& context, const std::vector<size_t>& columns, size_t row) {
  std::string text;
  for (const size_t column : columns) text += "; " + context.given.at(column) + " " + context.table.rows[row][column];
  return text;
}

/// The file's name, or what tells its curves apart: their texts and settings, else their first rows.
void name_curves(const FormulaContext& context, const std::vector<std::vector<size_t>>& groups,
                 std::vector<MeasuredCurve>& curves) {
  std::map<std::string, size_t> count;
  for (const auto& rows : groups) ++count[row_texts(context, rows)];
  std::vector<std::string> names;
  const std::vector<size_t> telling = telling_columns(context, groups);
  std::map<std::string, size_t> num_named;
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string texts = row_texts(context, groups[i]);
    names.push_back(count[texts] == 1 ? texts : texts + settings_of(context, telling, groups[i].front()));
    if (core::starts_with(names.back(), "; ")) names.back().erase(0, 2);
    ++num_named[names.back()];
  }
  for (size_t i = 0; i < curves.size(); ++i)
    curves[i].name = curves.size() == 1         ? context.table.source.stem().string()
                     : num_named[names[i]] == 1 ? names[i]
                                                : context.row_name(groups[i].front());
}

/// What comments tell of all curves. A sharding that the texts of some rows name is theirs alone.
void read_comments(const FormulaContext& context, const std::vector<std::vector<size_t>>& groups,
                   const std::string& comments, WorkFacts& work) {
  const Sharding of_rows = work.sharding;
  read_work_facts(comments, "comments of the table", work);
  const bool is_told_by_rows = std::any_of(groups.begin(), groups.end(), [&](const std::vector<size_t>& rows) {
    return names_full_sharding(row_texts(context, rows));
  });
  if (!is_told_by_rows || work.sharding == of_rows) return;
  work.sharding = of_rows;
  std::erase_if(work.facts, [](const KnownFact& fact) { return fact.name == "sharding"; });
}

/// What is not known of the seconds of a step, and what that does to the prediction.
std::string doubt_of(const MeasuredCurve& curve) {
  if (curve.has_seconds) return "";
  if (curve.has_batches && !curve.work.parameters)
    return "The table tells no seconds of a step, and the model is not known (--model NAME, or its parameters): "
           "traffic is a guess, a share of the step, and the interval is wider.";
  if (curve.has_batches)
    return "The rate tells no seconds of itself: they follow from the parameters, and the interval is wider.";
  return fmt::format(
      "The batch of a device is not known (--samples-per-device N or a column global_batch tells it): traffic cannot "
      "be told in seconds, {} scaling is assumed, and the interval is wider.",
      curve.is_strong ? "strong" : "weak");
}

/// One curve; `speed` is the column that tells its steps, where the table has several.
MeasuredCurve read_curve(const FormulaContext& context, const std::vector<std::vector<size_t>>& groups,
                         const std::vector<size_t>& rows, const std::string& speed, const TableRequest& request) {
  const std::string comments = core::join(context.table.comments, " ");
  MeasuredCurve curve{.size_name = size_column(context) == std::string("gpus") ? "GPUs" : size_column(context)};
  if (!request.model.empty() && !take_model(request.model, "--model", curve.work))
    throw UsageError(fmt::format("predict: --model '{}' is no known model and no number of parameters", request.model),
                     "for example --model ViT-g-14, --model gpt3-175b or --model 1.3B");
  take_columns(context, rows, curve.work);
  take_sharding_columns(context, rows, curve.work);
  if (!speed.empty()) read_work_facts(context.given_name(speed.c_str()), "name of the column", curve.work);
  read_work_facts(row_texts(context, rows), "text of the rows", curve.work);
  read_comments(context, groups, comments, curve.work);
  if (request.model.empty()) take_parameters(context, rows, curve.work);
  take_active_parameters(context, rows, curve.work);
  if (curve.work.has_experts) curve.work.are_parameters_certain = false;  // as gradients of a device
  for (std::string& note : layout_notes(curve.work)) curve.notes.push_back(std::move(note));
  curve.work.are_chunks_known = std::any_of(curve.work.facts.begin(), curve.work.facts.end(),
                                            [](const KnownFact& fact) { return fact.name == "virtual stages"; });
  take_machine(context, rows, comments, request, curve);
  assume_layout(context, rows, curve);
  TableRequest of_speed = request;
  of_speed.speed = speed;
  add_points(context, rows, of_speed, curve);
  judge_scaling(curve);
  if (!curve.scaling_source.empty())
    curve.work.facts.push_back({"scaling", curve.is_strong ? "strong" : "weak", curve.scaling_source});
  if (const std::string doubt = doubt_of(curve); !doubt.empty()) curve.notes.push_back(doubt);
  const std::vector<std::string> speeds = speed_columns(context);
  for (const std::string& text : published::clash_texts(context, rows))
    curve.notes.push_back(fmt::format("{} Steps were taken from column '{}'.", text,
                                      context.given_name((speed.empty() ? speeds.front() : speed).c_str())));
  return curve;
}

}  // namespace

double num_micro(const WorkFacts& work, double samples) {
  const double micro_batch = static_cast<double>(work.micro_batch.value_or(1));
  return work.pp == 1 && !work.micro_batch ? 0 : samples * work.sample_devices() / micro_batch;
}

double bubble_of(const MeasuredCurve& curve, double samples) {
  if (curve.work.pp == 1 || samples <= 0) return 0;
  return static_cast<double>(curve.work.pp - 1) /
         (static_cast<double>(curve.work.chunks) * std::max(1.0, num_micro(curve.work, samples)));
}

/// Sharded parameters are gathered again for each micro-batch.
double passes_of(const MeasuredCurve& curve, double samples) {
  return curve.work.sharding == Sharding::kFull ? std::max(1.0, num_micro(curve.work, samples)) : 1;
}

void add_layer_messages(const std::vector<WorkFacts>& works, const std::vector<DeviceTokens>& tokens,
                        MeasuredCurve& curve) {
  constexpr double kMostOfAStep = 0.5, kWireEfficiency = 0.96;
  if (curve.clock_s <= 0) return;
  const Machine machine = curve.machine ? *curve.machine : unknown_machine(curve.devices_per_node);
  double scale = 1 / curve.clock_s;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    Measured& point = curve.points[i].measured;
    const LayerMessages messages = layer_messages(works[i], machine, curve.devices_per_node, tokens[i]);
    if (i == 0) {
      const double total_s =
          scale * (messages.link_s + messages.wire_s / (kWireEfficiency * machine.network_efficiency.value));
      if (total_s > kMostOfAStep * point.step_s) scale *= kMostOfAStep * point.step_s / total_s;
    }
    point.size.layers_s = scale * messages.link_s;
    point.size.layers_wire_s = scale * messages.wire_s;
  }
}

std::vector<MeasuredCurve> read_table_curves(const std::filesystem::path& path, const TableRequest& request) {
  return curves_of_table(published::read_result_table(path), request);
}

std::vector<MeasuredCurve> curves_of_table(const published::ResultTable& result, const TableRequest& request) {
  const std::filesystem::path& path = result.table.source;
  if (result.table.rows.empty())
    throw DataError(fmt::format("predict: '{}' has a header and no rows", path.string()),
                    "give a table with at least one row of results");
  const FormulaContext context = published::make_context(result, {});
  if (size_column(context) == nullptr)
    throw DataError(fmt::format("predict: '{}' has no column of sizes", path.string()), "give a column nodes or gpus");
  published::check_positive(result);
  published::check_units(context);
  check_speeds(context);
  const std::vector<std::string> speeds = speed_columns(context);
  if (context.has_contradiction)
    throw DataError(fmt::format("predict: '{}': {}", path.string(), core::join(context.notes, " ")),
                    "correct the batches, or leave one of the two columns out");
  std::map<std::string, size_t> numbers;
  std::vector<std::vector<size_t>> groups;  // in the order of the table
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const auto [number, is_new] = numbers.try_emplace(context.groups[row], groups.size());
    if (is_new) groups.emplace_back();
    groups[number->second].push_back(row);
  }
  std::vector<MeasuredCurve> curves;
  for (const std::string& speed : speeds) {
    std::vector<MeasuredCurve> of_speed;
    for (const std::vector<size_t>& rows : groups)
      of_speed.push_back(read_curve(context, groups, rows, speeds.size() > 1 ? speed : "", request));
    name_curves(context, groups, of_speed);
    if (speeds.size() > 1)
      for (MeasuredCurve& curve : of_speed)
        curve.name = context.given_name(speed.c_str()) + (groups.size() > 1 ? "; " + curve.name : "");
    std::move(of_speed.begin(), of_speed.end(), std::back_inserter(curves));
  }
  const std::vector<std::string> unread = unread_columns(context);
  for (MeasuredCurve& curve : curves) {
    for (const std::string& note : context.notes)  // of columns that part nothing; the others are on efficiency
      if (core::starts_with(note, "Column '")) curve.notes.push_back(note);
    for (const std::string& note : result.notes)
      if (core::starts_with(note, "Left out: ")) curve.notes.push_back(note);
    curve.notes.insert(curve.notes.end(), result.doubts.begin(), result.doubts.end());
    if (!unread.empty())
      curve.notes.push_back(fmt::format("Not read, since the name does not tell what it counts: {} '{}'.",
                                        unread.size() == 1 ? "column" : "columns", core::join(unread, "', '")));
  }
  return curves;
}

namespace {
/// Seconds that a step needs at least for its input: of a pipeline the nodes of one stage read all samples.
double input_s_of(const MeasuredCurve& curve, const Size& size) {
  if (!curve.input.is_known()) return 0;
  return curve.input.seconds(*curve.work.local_batch * size.work * size.devices,
                             size.nodes / static_cast<double>(curve.work.pp));
}
}  // namespace

void take_input(const InputRates& rates, MeasuredCurve& curve) {
  if (!rates.is_known()) return;
  if (!curve.has_seconds || !curve.work.local_batch || curve.assumed_samples > 0)
    throw UsageError(
        fmt::format("predict: curve '{}' does not tell the samples of a step, by which input is counted", curve.name),
        "give --samples-per-device N or a column global_batch, or leave --input-samples-per-s and "
        "--storage-samples-per-s out");
  curve.input = rates;
  for (CurvePoint& point : curve.points) point.measured.size.input_s = input_s_of(curve, point.measured.size);
}

Size size_of(const MeasuredCurve& curve, double size) {
  const auto distance = [&](const CurvePoint& point) { return std::fabs(std::log(size / point.size)); };
  const CurvePoint& nearest =
      *std::min_element(curve.points.begin(), curve.points.end(),
                        [&](const CurvePoint& a, const CurvePoint& b) { return distance(a) < distance(b); });
  const double ratio = size / nearest.size;
  Size made = nearest.measured.size;
  made.nodes *= ratio;
  made.devices *= ratio;
  if (curve.is_strong) {
    made.work /= ratio;
    made.layers_s /= ratio;
    made.layers_wire_s /= ratio;
    made.bubble *= ratio;
    made.traffic = std::max(1.0, made.traffic / ratio);
  }
  made.input_s = input_s_of(curve, made);
  return made;
}

}  // namespace lockstep::predict
