#include "predict/table_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/strings.h"
#include "predict/told_text.h"
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
  std::map<double, double> least;  // devices of a number of nodes
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const double count = context.at(row, devices).value;
    if (least.try_emplace(context.at(row, "nodes").value, count).first->second != count) return devices;
  }
  return "nodes";
}

/// Texts of the rows of a curve that say what ran, without repeats.
std::string row_texts(const FormulaContext& context, const std::vector<size_t>& rows) {
  std::vector<std::string> texts;
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& value = context.table.rows[rows.front()][column];
    const bool counts_tokens = core::plain_name(context.table.columns[column]).find("tokens") != std::string::npos;
    if (!core::parse_double(value) && !value.empty() && !counts_tokens) texts.push_back(value);
  }
  return core::join(texts, "; ");
}

/// A column "tokens per batch" of "16M", in the words of a sentence.
std::string batch_text(const FormulaContext& context, const std::vector<size_t>& rows) {
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& value = context.table.rows[rows.front()][column];
    const bool is_shared =
        std::all_of(rows.begin(), rows.end(), [&](size_t row) { return context.table.rows[row][column] == value; });
    if (counts_batch_in_tokens(context.table.columns[column]) && is_shared && !core::parse_double(value))
      return "; global batch of " + value + " tokens";
  }
  return "";
}

/// A whole number that all rows of a column share.
std::optional<int64_t> shared_count(const FormulaContext& context, const std::vector<size_t>& rows,
                                    std::initializer_list<const char*> names) {
  for (const char* name : names)
    for (size_t column = 0; column < context.table.columns.size(); ++column) {
      if (core::plain_name(context.table.columns[column]) != name) continue;
      const auto value = core::parse_double(context.table.rows[rows.front()][column]);
      const bool is_shared = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
        return core::parse_double(context.table.rows[row][column]) == value;
      });
      if (value && is_shared && *value >= 1 && *value == std::floor(*value)) return static_cast<int64_t>(*value);
    }
  return std::nullopt;
}

/// "4 GPUs a node", "8 devices per node"
std::optional<int64_t> told_devices_per_node(const std::string& comments) {
  const std::string lower = core::to_lower_ascii(comments);
  for (const char* words : {" gpus a node", " gpus per node", " devices a node", " devices per node", " gpus/node"}) {
    const size_t at = lower.find(words);
    if (at == std::string::npos) continue;
    size_t begin = at;
    while (begin > 0 && lower[begin - 1] >= '0' && lower[begin - 1] <= '9') --begin;
    if (const auto value = core::parse_int(std::string_view(lower).substr(begin, at - begin)); value && *value > 0)
      return value;
  }
  return std::nullopt;
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
  take({"vp", "vpp"}, "virtual stages", work.chunks);
  take({"mbs", "micro_batch", "micro_batch_size", "microbatch_size", "microbatchsize"}, "micro-batch",
       work.micro_batch);
  if (const auto parameters = shared_count(context, rows, {"parameters", "params", "num_parameters"})) {
    work.parameters = static_cast<double>(*parameters);
    work.are_parameters_certain = true;
    work.facts.push_back({"parameters", fmt::format("{}", *parameters), "column of the table"});
  }
}

/// "Parameters (billion)": of the rows' model, where all share it.
void take_billions(const FormulaContext& context, const std::vector<size_t>& rows, WorkFacts& work) {
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string name = core::plain_name(context.table.columns[column]);
    if (name.find("param") == std::string::npos && name.find("model_size") == std::string::npos) continue;
    if (name.find("billion") == std::string::npos && !core::ends_with(name, "_b")) continue;
    const auto value = core::parse_double(context.table.rows[rows.front()][column]);
    const bool is_shared = std::all_of(rows.begin(), rows.end(), [&](size_t row) {
      return core::parse_double(context.table.rows[row][column]) == value;
    });
    if (!value || *value <= 0 || !is_shared || work.parameters) continue;
    work.parameters = *value * 1e9;
    work.facts.push_back({"parameters", fmt::format("{:g} billion", *value), "column of the table"});
  }
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

void take_machine(const FormulaContext& context, const std::vector<size_t>& rows, const std::string& comments,
                  const TableRequest& request, MeasuredCurve& curve) {
  curve.machine = request.machine;
  if (!curve.machine) {
    const hw::SystemSpec* system = find_system_in(row_texts(context, rows));
    if (system == nullptr) system = find_system_in(comments);
    if (system != nullptr) curve.machine = machine_of(*system);
  }
  const bool is_guessed = !curve.machine;
  const std::string text = row_texts(context, rows) + "; " + comments;
  if (is_guessed) curve.machine = usual_machine_in(text);
  const char* devices = context.device_column();
  if (request.devices_per_node) {
    curve.devices_per_node = static_cast<double>(*request.devices_per_node);
  } else if (context.has("nodes") && devices != nullptr) {
    for (const size_t row : rows)
      curve.devices_per_node =
          std::max(curve.devices_per_node, context.at(row, devices).value / context.at(row, "nodes").value);
  } else if (const auto told = shared_count(context, rows, {"devices_per_node", "gpus_per_node", "ranks_per_node"})) {
    curve.devices_per_node = static_cast<double>(*told);
  } else if (const auto said = told_devices_per_node(comments)) {
    curve.devices_per_node = static_cast<double>(*said);
  } else if (curve.machine) {
    curve.devices_per_node = static_cast<double>(curve.machine->devices_per_node);
  } else {
    curve.devices_per_node = kUnknownDevicesPerNode;
    curve.notes.push_back(
        fmt::format("The table does not tell the devices of a node: {:g} are taken.", kUnknownDevicesPerNode));
  }
  if (is_guessed) take_network(text, curve);
  if (!curve.machine || (is_guessed && curve.machine->device.empty())) return;
  const char* source = request.machine ? "--system" : "named in the table";
  curve.work.facts.push_back({is_guessed ? "device" : "system", curve.machine->name, source});
}

/// Micro-batches of a step; 0: not known.
double num_micro(const MeasuredCurve& curve, double samples) {
  const double micro_batch = static_cast<double>(curve.work.micro_batch.value_or(1));
  return curve.work.pp == 1 && !curve.work.micro_batch ? 0 : samples * curve.work.replica_devices() / micro_batch;
}

void add_points(const FormulaContext& context, const std::vector<size_t>& rows, const TableRequest& request,
                MeasuredCurve& curve) {
  const char* size = size_column(context);
  std::vector<size_t> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return context.at(a, size).value < context.at(b, size).value; });
  const std::string text =
      row_texts(context, rows) + batch_text(context, rows) + "; " + core::join(context.table.comments, "; ");
  CurveSteps steps = read_steps(context, sorted, request, curve.work, curve.machine, curve.devices_per_node, text);
  curve.has_seconds = steps.has_seconds;
  curve.clock_s = steps.clock_s;
  curve.rate_unit = steps.rate_unit;
  curve.rate_per_device = steps.rate_per_device;
  curve.is_strong = steps.is_strong;
  std::move(steps.notes.begin(), steps.notes.end(), std::back_inserter(curve.notes));
  if (steps.told_batch) curve.work.facts.push_back(*steps.told_batch);
  if (!curve.work.local_batch) curve.work.local_batch = steps.rows.front().samples;
  if (!curve.work.local_batch && steps.assumed_samples > 0) {
    curve.work.local_batch = steps.assumed_samples;
    curve.work.facts.push_back(
        {"batch", fmt::format("{:.3g} samples a device", steps.assumed_samples), "not known: a usual one"});
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double devices = devices_at(context, curve.devices_per_node, sorted[i]);
    double work = steps.rows[i].units / steps.rows.front().units;
    if (std::fabs(work - 1) < kSameWork) work = 1;
    curve.is_strong = curve.is_strong || work < 1;
    const double samples = steps.rows[i].samples.value_or(steps.assumed_samples * work);
    curve.points.push_back({.measured = {.size = {.nodes = devices / curve.devices_per_node,
                                                  .devices = devices,
                                                  .work = work,
                                                  .bubble = bubble_of(curve, samples),
                                                  .traffic = passes_of(curve, samples)},
                                         .step_s = steps.rows[i].step},
                            .size = context.at(sorted[i], size).value,
                            .line = context.table.lines[sorted[i]]});
  }
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
/// of a node and the pipeline stages that hold the rest, as far as the smallest size has devices.
void assume_layout(const FormulaContext& context, const std::vector<size_t>& rows, MeasuredCurve& curve) {
  constexpr double kBytesPerParameter = 18, kUsualMemory = 64e9, kFull = 0.8, kUsable = 0.6, kMostTensorRanks = 8;
  WorkFacts& work = curve.work;
  if (!work.parameters || work.tp > 1 || work.pp > 1 || work.sharding != Sharding::kReplicated) return;
  const double memory =
      curve.machine && curve.machine->memory_gbytes.value > 0 ? curve.machine->memory_gbytes.value * 1e9 : kUsualMemory;
  const double bytes = kBytesPerParameter * *work.parameters;
  if (bytes <= kFull * memory) return;
  double least_devices = HUGE_VAL;
  for (const size_t row : rows)
    least_devices = std::min(least_devices, devices_at(context, curve.devices_per_node, row));
  if (bytes <= kUsable * memory * curve.devices_per_node || least_devices <= curve.devices_per_node) {
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

/// The file's name, or what tells its curves apart: their texts, else their first rows.
void name_curves(const FormulaContext& context, const std::vector<std::vector<size_t>>& groups,
                 std::vector<MeasuredCurve>& curves) {
  std::map<std::string, size_t> count;
  for (const auto& rows : groups) ++count[row_texts(context, rows)];
  for (size_t i = 0; i < curves.size(); ++i) {
    const std::string texts = row_texts(context, groups[i]);
    curves[i].name = curves.size() == 1  ? context.table.source.stem().string()
                     : count[texts] == 1 ? texts
                                         : context.row_name(groups[i].front());
  }
}

[[noreturn]] void throw_nothing(const std::filesystem::path& path, const char* what, const char* hint) {
  throw DataError(fmt::format("predict: '{}' has no column of {}", path.string(), what), hint);
}
}  // namespace

double bubble_of(const MeasuredCurve& curve, double samples) {
  if (curve.work.pp == 1 || samples <= 0) return 0;
  return static_cast<double>(curve.work.pp - 1) /
         (static_cast<double>(curve.work.chunks) * std::max(1.0, num_micro(curve, samples)));
}

/// Sharded parameters are gathered again for each micro-batch.
double passes_of(const MeasuredCurve& curve, double samples) {
  return curve.work.sharding == Sharding::kFull ? std::max(1.0, num_micro(curve, samples)) : 1;
}

std::vector<MeasuredCurve> read_table_curves(const std::filesystem::path& path, const TableRequest& request) {
  const published::ResultTable result = published::read_result_table(path);
  const FormulaContext context = published::make_context(result, {});
  if (size_column(context) == nullptr) throw_nothing(path, "sizes", "give a column nodes or gpus");
  published::check_positive(result);
  published::check_units(context);
  if (!speed_column(context))
    throw_nothing(path, "step times or rates", "give step_time_s, samples_per_s or tokens_per_s");
  if (context.has_contradiction)
    throw DataError(fmt::format("predict: '{}': {}", path.string(), core::join(context.notes, " ")),
                    "correct the batches, or leave one of the two columns out");
  const std::string comments = core::join(context.table.comments, " ");
  std::map<std::string, size_t> numbers;
  std::vector<std::vector<size_t>> groups;  // in the order of the table
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const auto [number, is_new] = numbers.try_emplace(context.groups[row], groups.size());
    if (is_new) groups.emplace_back();
    groups[number->second].push_back(row);
  }
  std::vector<MeasuredCurve> curves;
  for (const std::vector<size_t>& rows : groups) {
    MeasuredCurve curve{.size_name = size_column(context) == std::string("gpus") ? "GPUs" : size_column(context)};
    if (!request.model.empty() && !take_model(request.model, "--model", curve.work))
      throw UsageError(
          fmt::format("predict: --model '{}' is no known model and no number of parameters", request.model),
          "for example --model ViT-g-14, --model gpt3-175b or --model 1.3B");
    take_columns(context, rows, curve.work);
    take_billions(context, rows, curve.work);
    read_work_facts(row_texts(context, rows), "text of the rows", curve.work);
    read_work_facts(comments, "comments of the table", curve.work);
    take_machine(context, rows, comments, request, curve);
    assume_layout(context, rows, curve);
    add_points(context, rows, request, curve);
    judge_scaling(curve);
    if (!curve.has_seconds)
      curve.notes.push_back(
          fmt::format("The batch of a device is not known: traffic cannot be told in seconds, {} "
                      "scaling is assumed, and the interval is wider.",
                      curve.is_strong ? "strong" : "weak"));
    curves.push_back(std::move(curve));
  }
  name_curves(context, groups, curves);
  return curves;
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
    made.bubble *= ratio;
    made.traffic = std::max(1.0, made.traffic / ratio);
  }
  return made;
}

}  // namespace lockstep::predict
