#include "predict/table_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/strings.h"
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

/// Do the words of a table say that the batch of all devices stays?
bool says_strong(const std::string& text) {
  return core::to_lower_ascii(text).find("strong scal") != std::string::npos;
}

/// Texts of the rows of a curve that say what ran, without repeats.
std::string row_texts(const FormulaContext& context, const std::vector<size_t>& rows) {
  std::vector<std::string> texts;
  for (size_t column = 0; column < context.table.columns.size(); ++column) {
    const std::string& value = context.table.rows[rows.front()][column];
    if (!core::parse_double(value) && !value.empty()) texts.push_back(value);
  }
  return core::join(texts, "; ");
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
  take({"tp", "tensor_parallel", "tensor_parallel_size"}, "tensor ranks", work.tp);
  take({"pp", "pipeline_parallel", "pipeline_parallel_size"}, "pipeline stages", work.pp);
  take({"vp", "vpp"}, "virtual stages", work.chunks);
  take({"mbs", "micro_batch", "micro_batch_size"}, "micro-batch", work.micro_batch);
  if (const auto parameters = shared_count(context, rows, {"parameters", "params", "num_parameters"})) {
    work.parameters = static_cast<double>(*parameters);
    work.are_parameters_certain = true;
    work.facts.push_back({"parameters", fmt::format("{}", *parameters), "column of the table"});
  }
}

void take_machine(const FormulaContext& context, const std::vector<size_t>& rows, const std::string& comments,
                  const TableRequest& request, MeasuredCurve& curve) {
  curve.machine = request.machine;
  if (!curve.machine) {
    const hw::SystemSpec* system = find_system_in(row_texts(context, rows));
    if (system == nullptr) system = find_system_in(comments);
    if (system != nullptr) curve.machine = machine_of(*system);
  }
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
}

/// Samples of a device and step in a row, where the table tells them.
std::optional<double> samples_of(const FormulaContext& context, size_t row, const TableRequest& request) {
  if (request.local_batch) return request.local_batch;
  // What comments call a batch is that of a replica, which may be several devices: a column of global batches wins.
  if (context.has("global_batch") && context.device_column() != nullptr)
    return context.at(row, "global_batch").value / context.at(row, context.device_column()).value;
  if (const auto local = published::local_batch(context, row)) return local->value;
  return std::nullopt;
}

double devices_at(const FormulaContext& context, const MeasuredCurve& curve, size_t row) {
  const char* devices = context.device_column();
  return devices != nullptr ? context.at(row, devices).value : context.at(row, "nodes").value * curve.devices_per_node;
}

/// Step and units of work of a device and step.
struct RowStep {
  double step_s = 0, units = 1;
  bool has_seconds = false;
};

RowStep step_of(const FormulaContext& context, const std::optional<published::Rate>& rate, size_t row, double devices,
                const TableRequest& request) {
  RowStep step;
  if (context.has("step_time_s")) {
    step.step_s = context.at(row, "step_time_s").value;
    step.has_seconds = true;
    if (rate) step.units = rate->at(context, row).value * step.step_s / devices;
    return step;
  }
  const double per_device = rate->at(context, row).value / devices;
  const auto samples = rate->unit == "samples" ? samples_of(context, row, request) : std::nullopt;
  step.units = samples.value_or(1);
  step.step_s = step.units / per_device;
  step.has_seconds = samples.has_value();
  return step;
}

double bubble_of(const MeasuredCurve& curve, const std::optional<double>& samples) {
  if (curve.work.pp == 1 || !curve.work.micro_batch || !samples) return 0;
  const double num_micro = *samples * curve.work.replica_devices() / static_cast<double>(*curve.work.micro_batch);
  return static_cast<double>(curve.work.pp - 1) / (static_cast<double>(curve.work.chunks) * std::max(1.0, num_micro));
}

void add_points(const FormulaContext& context, const std::vector<size_t>& rows,
                const std::optional<published::Rate>& rate, const TableRequest& request, MeasuredCurve& curve) {
  const char* size = size_column(context);
  const bool is_told_strong =
      request.is_strong.value_or(says_strong(core::join(context.table.comments, " ") + " " + row_texts(context, rows)));
  std::vector<std::pair<double, size_t>> sorted;
  for (const size_t row : rows) sorted.emplace_back(context.at(row, size).value, row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  double base_units = 0, base_devices = 0;
  for (const auto& [value, row] : sorted) {
    const double devices = devices_at(context, curve, row);
    RowStep step = step_of(context, rate, row, devices, request);
    if (base_units == 0) base_devices = devices;
    if (!step.has_seconds && is_told_strong) {  // the unit is the work of a device at the smallest size
      step.units = base_devices / devices;
      step.step_s *= step.units;
    }
    if (base_units == 0) {
      base_units = step.units;
      curve.has_seconds = step.has_seconds;
      curve.rate_per_device = step.units;
      if (!curve.work.local_batch) curve.work.local_batch = samples_of(context, row, request);
    }
    double work = step.units / base_units;
    if (std::fabs(work - 1) < kSameWork) work = 1;
    curve.is_strong = curve.is_strong || work < 1 || (rows.size() == 1 && is_told_strong);
    curve.points.push_back({.measured = {.size = {.nodes = devices / curve.devices_per_node,
                                                  .devices = devices,
                                                  .work = work,
                                                  .bubble = bubble_of(curve, samples_of(context, row, request))},
                                         .step_s = step.step_s},
                            .size = value,
                            .line = context.table.lines[row]});
  }
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

std::vector<MeasuredCurve> read_table_curves(const std::filesystem::path& path, const TableRequest& request) {
  const published::ResultTable result = published::read_result_table(path);
  const FormulaContext context = published::make_context(result, {});
  if (size_column(context) == nullptr) throw_nothing(path, "sizes", "give a column nodes or gpus");
  published::check_positive(result);
  published::check_units(context);
  const auto rate = published::rate_of(context);
  if (!rate && !context.has("step_time_s"))
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
    MeasuredCurve curve{.size_name = size_column(context) == std::string("gpus") ? "GPUs" : size_column(context),
                        .rate_unit = rate ? rate->name : ""};
    if (!request.model.empty() && !take_model(request.model, "--model", curve.work))
      throw UsageError(
          fmt::format("predict: --model '{}' is no known model and no number of parameters", request.model),
          "for example --model ViT-g-14, --model gpt3-175b or --model 1.3B");
    take_columns(context, rows, curve.work);
    read_work_facts(row_texts(context, rows), "text of the rows", curve.work);
    read_work_facts(comments, "comments of the table", curve.work);
    take_machine(context, rows, comments, request, curve);
    if (curve.machine)
      curve.work.facts.push_back({"system", curve.machine->name, request.machine ? "--system" : "named in the table"});
    add_points(context, rows, rate, request, curve);
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
  const CurvePoint& first = curve.points.front();
  const double ratio = size / first.size;
  Size made = first.measured.size;
  made.nodes *= ratio;
  made.devices *= ratio;
  if (curve.is_strong) {
    made.work /= ratio;
    made.bubble *= ratio;
  }
  return made;
}

}  // namespace lockstep::predict
