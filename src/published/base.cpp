// Which rows of a table are one curve, and what its base is.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "published/formulas.h"

namespace lockstep::published {
namespace {
constexpr size_t kMaxNamedBases = 6;

/// Columns that tell one repeat from another, or remark on it.
bool is_repeat_column(const std::string& name) {
  static const std::set<std::string> kNames = {"run",  "repeat", "name", "job",  "job_id", "host",    "file",
                                               "path", "date",   "time", "note", "notes",  "comment", "remark"};
  return kNames.contains(core::to_lower_ascii(name));
}

bool is_named_configuration(const std::string& name) {
  return name == "system" || name == "precision" || name == "model";
}

bool is_configuration_column(const core::CsvTable& table, const std::string& name) {
  if (is_named_configuration(name)) return true;
  if (is_repeat_column(name)) return false;
  const size_t index = table.column(name);
  return std::none_of(table.rows.begin(), table.rows.end(),
                      [&](const auto& row) { return core::parse_double(row[index]).has_value(); });
}

bool has_numbers(const core::CsvTable& table, const std::string& name) {
  const size_t index = table.column(name);
  return std::all_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return core::parse_double(row[index]).has_value(); });
}

/// Numbers that say what ran, as a text would: parameters, shape and sequence length.
bool is_setting_column(const std::string& name) {
  static const std::set<std::string> kNames = {"sequence_length",
                                               "seq_length",
                                               "seq_len",
                                               "seqlen",
                                               "seqlen_t",
                                               "sequence",
                                               "context_length",
                                               "hidden",
                                               "hidden_size",
                                               "layers",
                                               "number_of_layers",
                                               "num_layers",
                                               "image_size",
                                               "resolution",
                                               "tp",
                                               "pp",
                                               "cp",
                                               "ep",
                                               "num_experts",
                                               "top_k"};
  const std::string plain = core::plain_name(name);
  return kNames.contains(plain) || plain.find("param") != std::string::npos ||
         plain.find("model_size") != std::string::npos;
}

bool is_model_column(const std::string& name) {
  static const std::set<std::string> kNames = {"model",    "model_name",       "network",    "architecture",
                                               "hidden",   "hidden_size",      "d_model",    "layers",
                                               "n_layers", "number_of_layers", "num_layers", "hidden_dim"};
  static const std::set<std::string> kShares = {"per",  "gpu",   "gpus",  "device", "devices", "rank",
                                                "node", "shard", "local", "memory", "gb",      "gib",
                                                "mb",   "mib",   "bytes", "time",   "server",  "stage"};
  const std::string plain = core::plain_name(name);
  const std::vector<std::string> words = core::split(plain, "_");
  if (std::any_of(words.begin(), words.end(), [](const std::string& word) { return kShares.contains(word); }))
    return false;
  return kNames.contains(plain) || plain.find("param") != std::string::npos ||
         plain.find("model_size") != std::string::npos;
}

bool is_model_name(const std::string& column) {
  const std::string plain = core::plain_name(column);
  return plain == "model" || plain == "model_name";
}

/// The length of the number at the begin of "1.30B"; 0: none.
size_t count_length(std::string_view text) {
  const size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  return core::parse_double(text.substr(0, length)) ? length : 0;
}

/// "1.3B", "760M"; not "TP=4, PP=1".
bool are_counts(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    const size_t length = count_length(text);
    return length > 0 && text.size() - length <= 2;
  });
}

/// "1.3B" for "1.30B"; other texts as they are.
std::string plain_count(const std::string& text) {
  const size_t length = count_length(text);
  return length == 0 ? text
                     : fmt::format("{:g}{}", *core::parse_double(std::string_view(text).substr(0, length)),
                                   std::string_view(text).substr(length));
}

/// By row, the number of a column as a text; numbers within two percent are one, as of vocabularies padded for the
/// layout.
std::vector<std::string> model_parts(const std::vector<double>& values) {
  constexpr double kSameModel = 1.02;
  std::map<double, double> first_of;
  for (const double value : values) first_of[value] = value;
  for (auto place = first_of.begin(); place != first_of.end(); ++place)
    if (place != first_of.begin() && place->first <= kSameModel * std::prev(place)->second)
      place->second = std::prev(place)->second;
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(fmt::format("{:.6g}", first_of[value]));
  return parts;
}

/// "global_batch", "micro_batch", "batch_size"; not the rate "global_batches_per_s" nor the time "batch_s".
bool is_batch_column(const std::string& name) {
  const std::string lower = core::to_lower_ascii(name);
  const auto contains = [&](const char* part) { return lower.find(part) != std::string::npos; };
  return contains("batch") && !contains("batches") && !contains("time") && !contains("per_s") &&
         !lower.ends_with("_s") && !lower.ends_with("_ms");
}

/// Keys with a part added for each row.
std::vector<std::string> joined(std::vector<std::string> keys, const std::vector<std::string>& parts) {
  for (size_t row = 0; row < keys.size(); ++row) keys[row] += parts[row] + "\n";
  return keys;
}

/// Rows that stand above the smallest size of their group.
size_t rows_above_base(const std::vector<std::string>& keys, const std::vector<double>& sizes) {
  std::map<std::string, double> least;
  for (size_t row = 0; row < keys.size(); ++row)
    least[keys[row]] = std::min(least.try_emplace(keys[row], sizes[row]).first->second, sizes[row]);
  size_t count = 0;
  for (size_t row = 0; row < keys.size(); ++row) count += sizes[row] > least[keys[row]];
  return count;
}

/// Do the parts of the groups stay curves: rows above a base where there were any, and none that stood alone at its
/// size turned into a base of its own? A list of nodes or a remark takes every row, or single ones, out of its curve; a
/// setting comes back at other sizes.
bool keeps_curves(const std::vector<std::string>& groups, const std::vector<std::string>& parted,
                  const std::vector<double>& sizes) {
  if (rows_above_base(groups, sizes) == 0) return true;
  if (rows_above_base(parted, sizes) == 0) return false;
  std::map<std::string, double> least;
  std::map<std::string, std::set<double>> part_sizes;
  std::map<std::pair<std::string, double>, size_t> num_at;
  for (size_t row = 0; row < groups.size(); ++row) {
    least[groups[row]] = std::min(least.try_emplace(groups[row], sizes[row]).first->second, sizes[row]);
    part_sizes[parted[row]].insert(sizes[row]);
    ++num_at[{groups[row], sizes[row]}];
  }
  for (size_t row = 0; row < groups.size(); ++row)
    if (part_sizes[parted[row]].size() == 1 && sizes[row] > least[groups[row]] &&
        num_at[{groups[row], sizes[row]}] == 1)
      return false;
  return true;
}

/// Groups parted by a batch, where one size of a group has several.
std::vector<std::string> parted_by(const std::vector<std::string>& keys, const std::vector<double>& sizes,
                                   const std::vector<double>& batches) {
  std::map<std::pair<std::string, double>, std::set<double>> values;
  for (size_t row = 0; row < keys.size(); ++row) values[{keys[row], sizes[row]}].insert(batches[row]);
  if (std::all_of(values.begin(), values.end(), [](const auto& one) { return one.second.size() == 1; })) return keys;
  std::vector<std::string> best;
  for (const int power : {0, -1, 1}) {  // the batch itself, its share of a size, or all sizes' shares together
    std::vector<std::string> parts;
    for (size_t row = 0; row < keys.size(); ++row)
      parts.push_back(fmt::format("{:.6g}", batches[row] * std::pow(sizes[row], power)));
    std::vector<std::string> found = joined(keys, parts);
    if (best.empty() || rows_above_base(found, sizes) > rows_above_base(best, sizes)) best = std::move(found);
  }
  return best;
}

bool is_positive_column(const std::string& name) {
  static const std::set<std::string> kNames = {"nodes",      "gpus",           "devices",         "cores",
                                               "layers",     "hidden",         "sequence",        "vocab",
                                               "heads",      "query_groups",   "step_time_s",     "framework_fp16_s",
                                               "trt_fp16_s", "tflops_per_gpu", "time_to_solution"};
  return kNames.contains(name) || is_batch_column(name) || name.find("per_s") != std::string::npos;
}
}  // namespace

namespace {
/// Rows with other parts of a column are other curves from here on.
void take_parts(size_t column, const std::vector<std::string>& parts, std::vector<std::string> parted,
                FormulaContext& context) {
  const std::set<std::string> before(context.groups.begin(), context.groups.end()), after(parted.begin(), parted.end());
  const std::string& name = context.table.columns[column];
  if (after.size() > before.size() && !is_named_configuration(name)) context.parting.emplace(name, parts);
  context.groups = std::move(parted);
}

/// Parts the rows by a column that tells their models, which are a curve each even where no model comes back at another
/// size. The first such column says so.
void part_by_model(size_t column, const std::vector<std::string>& parts, const std::vector<double>& sizes,
                   FormulaContext& context, bool& is_noted) {
  std::vector<std::string> parted = joined(context.groups, parts);
  if (!keeps_curves(context.groups, parted, sizes) && !is_noted) {
    is_noted = true;
    context.notes.push_back(
        fmt::format("Column '{}' tells models of their own at several sizes: rows of different models are no curve, "
                    "and speed-up and efficiency are told within one model alone.",
                    context.given[column]));
  }
  take_parts(column, parts, std::move(parted), context);
}
}  // namespace

bool tells_model(const std::string& column) { return is_model_column(column); }

bool tells_setting(const std::string& column) {
  return is_setting_column(column) || is_model_column(column) || is_batch_column(column);
}

FormulaContext make_context(const ResultTable& result, const analysis::AnalysisOptions& options) {
  const core::CsvTable& table = result.table;
  FormulaContext context{.table = table,
                         .facts = read_facts(table, options),
                         .groups = std::vector<std::string>(table.rows.size()),
                         .is_mixed = std::vector<bool>(table.rows.size()),
                         .given = result.given,
                         .solution_unit_s = result.solution_unit_s,
                         .base_nodes = options.base_nodes};
  if (options.scaling == "strong") context.asked_work = TimedWork::kEqual;
  if (options.scaling == "weak") context.asked_work = TimedWork::kGrowsWithSize;
  const char* size = context.size_column();
  if (size == nullptr || !has_numbers(table, size)) return context;
  const std::vector<double> sizes = table.numbers(size);
  bool is_noted = false;
  for (const bool is_named : {true, false})  // the columns whose names say what they are first
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const std::string& name = table.columns[column];
      if (!is_configuration_column(table, name) || is_named_configuration(name) != is_named) continue;
      std::vector<std::string> parts;
      for (const auto& row : table.rows) parts.push_back(row[column]);
      if (is_model_column(name) && (is_model_name(name) || are_counts(parts))) {
        for (std::string& part : parts) part = plain_count(part);
        part_by_model(column, parts, sizes, context, is_noted);
        continue;
      }
      std::vector<std::string> parted = joined(context.groups, parts);
      const bool names_each_row =
          name == "system" && rows_above_base(context.groups, sizes) > 0 && rows_above_base(parted, sizes) == 0;
      if ((is_named && !names_each_row) || keeps_curves(context.groups, parted, sizes)) {
        take_parts(column, parts, std::move(parted), context);
      } else
        context.notes.push_back(fmt::format(
            "Column '{}' has values that do not come back at other sizes: rows are compared without regard to it.",
            result.given[column]));
    }
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string& name = table.columns[column];
    if (is_model_column(name) && has_numbers(table, name)) {
      part_by_model(column, model_parts(table.numbers(name)), sizes, context, is_noted);
      continue;
    }
    if (!is_setting_column(name) || !has_numbers(table, name)) continue;
    std::vector<std::string> parts;
    for (const double value : table.numbers(name)) parts.push_back(fmt::format("{:.6g}", value));
    std::vector<std::string> parted = joined(context.groups, parts);
    if (keeps_curves(context.groups, parted, sizes)) take_parts(column, parts, std::move(parted), context);
  }
  for (const std::string& name : table.columns)
    if (is_batch_column(name) && has_numbers(table, name))
      context.groups = parted_by(context.groups, sizes, table.numbers(name));
  mark_mixed_batches(context);
  return context;
}

namespace {
GroupBases find_bases(const FormulaContext& context) {
  const char* size = context.base_nodes && context.has("nodes") ? "nodes" : context.size_column();
  GroupBases bases;
  std::map<std::string, size_t> numbers;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    const size_t group =
        size == nullptr ? row : numbers.try_emplace(context.groups.at(row), numbers.size()).first->second;
    bases.group_of_row.push_back(group);
    bases.rows.resize(std::max(bases.rows.size(), group + 1));
    std::vector<size_t>& rows = bases.rows[group];
    if (size != nullptr && context.base_nodes &&
        context.at(row, size).value != static_cast<double>(*context.base_nodes))
      continue;
    double gap = 0;
    for (const char* part : {size, context.has("nodes") ? "nodes" : nullptr, context.device_column()})
      if (gap == 0 && part != nullptr && !rows.empty())  // as many devices on more nodes are another size
        gap = context.at(row, part).value - context.at(rows.front(), part).value;
    if (gap < 0) rows.clear();
    if (gap <= 0) rows.push_back(row);
  }
  return bases;
}
}  // namespace

const std::vector<size_t>& FormulaContext::base_rows(size_t row) const {
  if (bases.group_of_row.empty()) bases = find_bases(*this);
  return bases.rows.at(bases.group_of_row.at(row));
}

std::string FormulaContext::row_name(size_t row) const {
  std::vector<std::string> parts;
  for (const char* column : {"system", "precision", "model", "term"})
    if (has(column)) parts.push_back(table.text(row, column));
  for (const char* column : {"nodes", "gpus", "devices", "cores", "batch"})
    if (has(column)) {
      parts.push_back(fmt::format("{} {}", column, table.text(row, column)));
      break;
    }
  return core::join(parts, ", ");
}

std::string missing_base(const FormulaContext& context, size_t row) {
  if (context.is_mixed[row]) return "the work changes with the size, or its batches contradict each other";
  if (context.base_rows(row).empty())
    return fmt::format("the base asked for, {} {}, is not among the rows that this one is compared with",
                       *context.base_nodes, context.has("nodes") ? "nodes" : "devices");
  return "";
}

Printed FormulaContext::at_base(size_t row, const char* column) const {
  return at_base(row, std::string("column ") + column,
                 [column](const FormulaContext& context, size_t base) { return context.at(base, column); });
}

namespace {
Printed mean_of(const FormulaContext& context, const std::vector<size_t>& rows,
                const std::function<Printed(const FormulaContext&, size_t row)>& compute) {
  if (rows.size() == 1) return compute(context, rows.front());
  Printed logs;
  for (const size_t base : rows) {
    const Printed value = compute(context, base);
    logs.low += std::log(value.low), logs.value += std::log(value.value), logs.high += std::log(value.high);
  }
  const double count = static_cast<double>(rows.size());
  return {std::exp(logs.low / count), std::exp(logs.value / count), std::exp(logs.high / count)};
}
}  // namespace

Printed FormulaContext::at_base(size_t row, const std::string& name,
                                const std::function<Printed(const FormulaContext&, size_t row)>& compute) const {
  const std::vector<size_t>& rows = base_rows(row);
  LOCKSTEP_CHECK(!rows.empty(), "row={}", row);
  const std::pair key(bases.group_of_row.at(row), name);
  const auto found = bases.values.find(key);
  return found != bases.values.end() ? found->second
                                     : bases.values.emplace(key, mean_of(*this, rows, compute)).first->second;
}

std::string base_text(const FormulaContext& context) {
  if (context.size_column() == nullptr) return "";
  std::set<std::string> seen;
  std::vector<std::string> bases;
  size_t num_more = 0;
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    if (!seen.insert(context.groups.at(row)).second) continue;
    if (bases.size() == kMaxNamedBases) {
      ++num_more;
      continue;
    }
    const std::vector<size_t>& rows = context.base_rows(row);
    if (rows.empty()) continue;
    std::vector<std::string> lines;
    for (const size_t base : rows) lines.push_back(fmt::format("{}", context.table.lines.at(base)));
    bases.push_back(rows.size() == 1
                        ? fmt::format("{} (line {})", context.row_name(rows.front()), lines.front())
                        : fmt::format("{} (geometric mean of {} repeats, lines {})", context.row_name(rows.front()),
                                      rows.size(), core::join(lines, ", ")));
  }
  if (num_more > 0)
    bases.push_back(
        fmt::format("and {} more, each {} of its group", num_more, context.base_nodes ? "that size" : "the smallest"));
  if (bases.empty())
    return fmt::format("There is no base: no row has {} {}.", *context.base_nodes,
                       context.has("nodes") ? "nodes" : "devices");
  return "Base: " + core::join(bases, "; ") + ".";
}

void check_positive(const ResultTable& result) {
  const core::CsvTable& table = result.table;
  for (size_t row = 0; row < table.rows.size(); ++row)
    for (size_t column = 0; column < table.columns.size(); ++column) {
      const auto value = core::parse_double(table.rows[row][column]);
      if (!value || *value > 0 || !is_positive_column(table.columns[column])) continue;
      throw DataError(fmt::format("report: '{}' line {}, column '{}': '{}' is not above zero", table.source.string(),
                                  table.lines.at(row), result.given[column], table.rows[row][column]),
                      "counts, rates and times are above zero; leave out a row that was not measured");
    }
}

std::optional<Printed> local_batch(const FormulaContext& context, size_t row) {
  if (context.has("local_batch")) return context.at(row, "local_batch");
  return context.facts.samples_per_device ? std::optional(exact(*context.facts.samples_per_device)) : std::nullopt;
}

std::optional<Printed> global_batch(const FormulaContext& context, size_t row) {
  if (context.has("global_batch")) return context.at(row, "global_batch");
  const auto local = local_batch(context, row);
  return local && context.device_column() != nullptr ? std::optional(*local * context.at(row, context.device_column()))
                                                     : std::nullopt;
}

std::optional<double> sequence_length(const FormulaContext& context, size_t row) {
  for (const std::string& column : context.table.columns) {
    const std::string name = core::plain_name(column);
    if (name == "sequence_length" || name == "seq_length" || name == "seq_len" || name == "seqlen" ||
        name == "seqlen_t" || name == "sequence" || name == "context_length")
      return context.table.number(row, column);
  }
  return context.facts.sequence_length;
}

namespace {
/// The rate of all devices from that of one.
Rate total_of(const char* column, const std::string& unit) {
  return {unit + "/s", unit, unit + "/s/GPU x devices",
          [column](const FormulaContext& c, size_t row) { return c.at(row, column) * c.at(row, c.device_column()); }};
}
}  // namespace

std::optional<Rate> rate_of(const FormulaContext& context) {
  for (const auto& [column, unit] : {std::pair{"samples_per_s", "samples"}, {"tokens_per_s", "tokens"}})
    if (context.has(column))
      return Rate{std::string(unit) + "/s", unit, "",
                  [column = column](const FormulaContext& c, size_t row) { return c.at(row, column); }};
  if (context.has("samples_per_s_per_gpu") && context.device_column() != nullptr)
    return total_of("samples_per_s_per_gpu", "samples");
  if (context.has("tokens_per_s_per_gpu") && context.device_column() != nullptr)
    return total_of("tokens_per_s_per_gpu", "tokens");
  if (!context.table.rows.empty() && context.has("step_time_s") && global_batch(context, 0))
    return Rate{"samples/s", "samples",
                context.has("global_batch") ? "global batch / step time" : "local batch x devices / step time",
                [](const FormulaContext& c, size_t row) { return *global_batch(c, row) / c.at(row, "step_time_s"); }};
  if (context.has("tflops_per_gpu") && context.device_column() != nullptr)
    return Rate{"TFLOP/s", "TFLOP", "TFLOP/s/GPU x devices", [](const FormulaContext& c, size_t row) {
                  return c.at(row, "tflops_per_gpu") * c.at(row, c.device_column());
                }};
  return std::nullopt;
}

namespace {
/// Two rows between which the values of a group jump.
struct Jump {
  size_t low = 0, high = 0;  ///< The rows at the jump.
};
std::optional<Jump> find_jump(const std::vector<size_t>& rows, const std::function<double(size_t row)>& value) {
  constexpr double kMinJump = 300, kMaxJump = 1e6;  // no two units of the same thing lie farther apart
  std::vector<size_t> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return value(a) < value(b); });
  for (size_t at = 1; at < sorted.size(); ++at)
    if (const double ratio = value(sorted[at]) / value(sorted[at - 1]); ratio > kMinJump && ratio < kMaxJump)
      return Jump{sorted[at - 1], sorted[at]};
  return std::nullopt;
}
/// Do the times fall as the sizes grow, never by much more than the sizes: strong scaling?
bool fall_steadily(const FormulaContext& context, const std::vector<size_t>& rows, const char* column,
                   const char* size) {
  constexpr double kMostGain = 2;  // more than a caching effect
  std::vector<size_t> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](size_t a, size_t b) { return context.at(a, size).value < context.at(b, size).value; });
  for (size_t at = 1; at < sorted.size(); ++at) {
    const double gain = context.at(sorted[at - 1], column).value / context.at(sorted[at], column).value;
    if (gain < 1 || gain > kMostGain * context.at(sorted[at], size).value / context.at(sorted[at - 1], size).value)
      return false;
  }
  return true;
}

/// A jump among the values of one group that two units explain and the work does not.
std::optional<Jump> find_unit_jump(const FormulaContext& context, const std::vector<size_t>& rows, const char* column,
                                   const char* size) {
  constexpr double kMinPlainJump = 10;  // values that lie close together are in one unit, however the work differs
  const auto value = [&](size_t row) { return context.at(row, column).value; };
  if (std::string(column).ends_with("per_gpu")) return find_jump(rows, value);
  if (std::string(column) != "step_time_s")
    return find_jump(rows, [&](size_t row) { return value(row) / context.at(row, size).value; });
  const bool is_batch_known = std::all_of(
      rows.begin(), rows.end(), [&](size_t row) { return local_batch(context, row) || global_batch(context, row); });
  if (!is_batch_known) {
    const auto jump = find_jump(rows, value);
    return jump && !fall_steadily(context, rows, column, size) ? jump : std::nullopt;
  }
  const auto jump = find_jump(rows, [&](size_t row) {
    const auto all = global_batch(context, row);
    return value(row) / (all ? all->value / context.at(row, size).value : local_batch(context, row)->value);
  });
  return jump && value(jump->high) / value(jump->low) > kMinPlainJump ? jump : std::nullopt;
}
}  // namespace

void check_units(const FormulaContext& context) {
  const char* size = context.size_column();
  if (size == nullptr) return;
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t row = 0; row < context.table.rows.size(); ++row) groups[context.groups[row]].push_back(row);
  for (const char* column :
       {"samples_per_s", "tokens_per_s", "samples_per_s_per_gpu", "tokens_per_s_per_gpu", "step_time_s"}) {
    if (!context.has(column) || !has_numbers(context.table, column) || !has_numbers(context.table, size)) continue;
    for (const auto& [group, rows] : groups) {
      const auto jump = find_unit_jump(context, rows, column, size);
      if (!jump) continue;
      const core::CsvTable& table = context.table;
      throw DataError(
          fmt::format("report: '{}' line {}, column '{}': {} stands beside {} (line {}), hundreds of times as much at "
                      "like work: two units in one column",
                      table.source.string(), table.lines[jump->high], context.given_name(column),
                      table.text(jump->high, column), table.text(jump->low, column), table.lines[jump->low]),
          "write one unit in the whole column");
    }
  }
}

}  // namespace lockstep::published
