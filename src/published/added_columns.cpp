#include "published/added_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/characters.h"
#include "core/strings.h"
#include "logs/column_names.h"
#include "published/field_texts.h"

namespace lockstep::published {
namespace {
/// Does a text begin with the name of a GPU: "A100", "NVIDIA H100-80GB", "T4"? "A3" and "DGX" name nodes.
bool begins_with_gpu(const std::string& text) {
  const std::vector<std::string> words = core::split(core::plain_name(text), "_");
  constexpr std::array<std::string_view, 4> kMakers = {"nvidia", "amd", "tesla", "instinct"};
  constexpr std::array<std::string_view, 12> kSeries = {"a", "b", "gb", "gh", "h", "k", "l", "m", "mi", "p", "t", "v"};
  size_t at = 0;
  while (at < words.size() && std::find(kMakers.begin(), kMakers.end(), words[at]) != kMakers.end()) ++at;
  if (at == words.size()) return false;
  const std::string& word = words[at];
  if (word == "gpu" || word == "gpus" || word == "t4" || word == "l4") return true;
  const size_t digits = std::min(word.find_first_of("0123456789"), word.size());
  const auto is_series = [&](std::string_view series) { return word.substr(0, digits) == series; };
  return digits + 2 <= word.size() && core::is_digit(word[digits + 1]) &&
         std::any_of(kSeries.begin(), kSeries.end(), is_series);
}

}  // namespace

void take_devices_of_node(ResultTable& result) {
  constexpr double kMostOfANode = 16;
  core::CsvTable& table = result.table;
  const auto nodes = table.find("nodes"), gpus = table.find("gpus"), others = table.find("devices");
  if (!nodes || (gpus && others) || (!gpus && !others) || table.rows.size() < 2) return;
  const size_t column = gpus ? *gpus : *others;
  const std::string plain = "_" + core::plain_name(result.given[column]) + "_";
  for (const char* word : {"_total_", "_world_", "_ranks_", "_all_", "_processes_"})
    if (plain.find(word) != std::string::npos) return;
  size_t least = 0, most = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const auto count = core::parse_double(table.rows[row][*nodes]), each = core::parse_double(table.rows[row][column]);
    if (!count || !each || *each < 2 || *each > kMostOfANode || table.rows[row][column] != table.rows[0][column])
      return;
    if (*count < table.number(least, "nodes")) least = row;
    if (*count > table.number(most, "nodes")) most = row;
  }
  const double growth = table.number(most, "nodes") / table.number(least, "nodes");
  if (growth <= 1) return;
  for (const char* rate : {"samples_per_s", "tokens_per_s"})  // as many devices on more nodes
    if (table.find(rate) && table.number(most, rate) < std::sqrt(growth) * table.number(least, rate)) return;
  const std::string known = table.columns[column];
  result.note_doubt(fmt::format("Column '{}' is {} at every number of nodes: it was read as that of a node.",
                                result.given[column], table.rows[0][column]));
  table.columns[column] = "gpus_per_node";
  table.columns.push_back(known);
  result.given.push_back(fmt::format("'{}' x '{}'", result.given[*nodes], result.given[column]));
  for (auto& row : table.rows)
    row.push_back(fmt::format("{:g}", *core::parse_double(row[*nodes]) * *core::parse_double(row[column])));
}

void add_devices(ResultTable& result) {
  core::CsvTable& table = result.table;
  const auto nodes = table.find("nodes");
  if (!nodes || table.find("gpus") || table.find("devices")) return;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    if (!logs::counts_devices_of_node(core::plain_name(table.columns[column]))) continue;
    std::vector<std::string> counts;
    bool differs = false;
    for (const auto& row : table.rows) {
      const auto all = core::parse_double(row[*nodes]), each = core::parse_double(row[column]);
      if (!all || !each) return;
      counts.push_back(fmt::format("{:g}", *all * *each));
      differs = differs || row[column] != table.rows.front()[column];
    }
    if (!differs) return;
    result.notes.push_back(
        fmt::format("Devices were computed: '{}' x '{}'.", result.given[*nodes], result.given[column]));
    table.columns.emplace_back("devices");
    result.given.emplace_back("devices");
    for (size_t row = 0; row < table.rows.size(); ++row) table.rows[row].push_back(counts[row]);
    return;
  }
}

namespace {
/// "DP,TP,PP" of numbers: the devices are their product, and that of context ranks.
bool add_product_of_ranks(ResultTable& result) {
  core::CsvTable& table = result.table;
  std::vector<size_t> factors;
  bool has_data = false;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    const std::string_view ranks = logs::ranks_of(core::plain_name(table.columns[column]));
    if (ranks.empty() || !is_numeric(table, column)) continue;
    has_data = has_data || ranks == "dp";
    factors.push_back(column);
  }
  if (!has_data || factors.size() < 2) return false;
  std::vector<std::string> counts, names;
  for (const auto& row : table.rows) {
    double product = 1;
    for (const size_t column : factors) product *= core::parse_double(row[column]).value_or(0);
    if (product < 1) return false;
    counts.push_back(fmt::format("{:g}", product));
  }
  for (const size_t column : factors) names.push_back(result.given[column]);
  const std::string product = fmt::format("'{}'", core::join(names, "' x '"));
  result.note_doubt(fmt::format("Devices were computed: {}.", product));
  table.columns.emplace_back("devices");
  result.given.push_back(product);
  for (size_t row = 0; row < table.rows.size(); ++row) table.rows[row].push_back(counts[row]);
  return true;
}
}  // namespace

void add_sizes(ResultTable& result) {
  core::CsvTable& table = result.table;
  if (table.rows.empty() || table.find("nodes") || table.find("gpus") || table.find("devices") || table.find("cores"))
    return;
  if (add_product_of_ranks(result)) return;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    std::vector<std::pair<std::string, std::string>> parts;  // number and what it counts
    bool are_gpus = false;
    for (const auto& row : table.rows) {
      const size_t end = number_end(row[column]);
      const std::string rest(core::trim(std::string_view(row[column]).substr(end)));
      const bool is_count = end > 0 && rest.size() > 1 && rest[0] == 'x' && rest[1] == ' ';
      const std::string thing(is_count ? core::trim(std::string_view(rest).substr(1)) : "");
      if (thing.empty() || (!parts.empty() && are_gpus != begins_with_gpu(thing))) break;
      are_gpus = begins_with_gpu(thing);
      parts.emplace_back(row[column].substr(0, end), thing);
    }
    if (parts.size() != table.rows.size()) continue;
    const std::string size = are_gpus ? "gpus" : "nodes";
    result.note_doubt(fmt::format("Column '{}' counts {}: '{}' was read as {}.", result.given[column],
                                  are_gpus ? "GPUs" : "nodes", table.rows.front()[column], parts.front().first));
    table.columns.push_back(size);
    result.given.push_back(size);
    for (size_t row = 0; row < table.rows.size(); ++row) {
      table.rows[row].push_back(parts[row].first);
      table.rows[row][column] = parts[row].second;
    }
    return;
  }
}

void add_accumulated_batches(ResultTable& result) {
  core::CsvTable& table = result.table;
  const auto local = table.find("local_batch"), steps = table.find("accumulation_steps");
  if (!local || !steps || table.find("global_batch") || table.find("micro_batch")) return;
  std::vector<std::string> products;
  bool is_accumulated = false;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const auto batch = core::parse_double(table.rows[row][*local]), count = core::parse_double(table.rows[row][*steps]);
    if (!batch || !count || *count < 1 || *count != std::floor(*count)) {
      return result.note_doubt(fmt::format("Column '{}' was not read: line {} has '{}', no whole number.",
                                           result.given[*steps], table.lines[row], table.rows[row][*steps]));
    }
    products.push_back(fmt::format("{:.15g}", *batch * *count));
    is_accumulated = is_accumulated || *count > 1;
  }
  if (!is_accumulated) return;
  const std::string product = fmt::format("'{}' x '{}'", result.given[*local], result.given[*steps]);
  result.note_doubt(fmt::format("The batch of a device and step was computed: {}.", product));
  table.columns[*local] = "micro_batch";
  table.columns.emplace_back("local_batch");
  result.given.push_back(product);
  for (size_t row = 0; row < table.rows.size(); ++row) table.rows[row].push_back(products[row]);
}

}  // namespace lockstep::published
