#include "sweep/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "core/toml.h"

namespace lockstep::sweep {
namespace {
constexpr size_t kMaxRangeValues = 4096, kMaxAxes = 64;

std::string kind_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

/// Reads the tables of one file; every refusal names file, line and key.
class FileReader {
 public:
  FileReader(std::string_view text, const std::string& path) : path_(path) {
    file_.path = path;
    file_.text = text;
  }

  SweepFile read() {
    toml::table root;
    try {
      root = core::parse_toml(file_.text, path_);
    } catch (const toml::parse_error& error) {
      const auto& at = error.source().begin;
      throw UsageError(fmt::format("sweep: {}:{}: column {}: {}", path_, at.line, at.column, error.description()),
                       "docs/sweep.md describes the file; texts stand in quotes");
    }
    for (const auto& [key, node] : entries(root)) top_level(*key, *node);
    if (file_.name.empty())
      fail(1, "'name' is missing", "for example name = \"clip-scaling\"; folder and jobs are called after it");
    return std::move(file_);
  }

 private:
  using Entry = std::pair<const toml::key*, const toml::node*>;

  /// Keys in the order of the file (a toml::table sorts them by name).
  static std::vector<Entry> entries(const toml::table& table) {
    std::vector<Entry> list;
    for (const auto& [key, node] : table) list.emplace_back(&key, &node);
    const auto place = [](const Entry& entry) {
      const auto& begin = entry.first->source().begin;
      return std::pair(begin.line, begin.column);
    };
    std::sort(list.begin(), list.end(), [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
    return list;
  }

  static int64_t line_of(const toml::key& key) { return key.source().begin.line; }
  static std::string name_of(const toml::key& key) { return std::string(key.str()); }

  [[noreturn]] void fail(int64_t line, const std::string& message, const std::string& hint) const {
    throw UsageError(fmt::format("sweep: {}:{}: {}", path_, line, message), hint);
  }
  [[noreturn]] void fail_type(const toml::key& key, const toml::node& node, const std::string& expected) const {
    fail(line_of(key), fmt::format("'{}' is {}, expected {}", key.str(), kind_name(node), expected),
         "docs/sweep.md describes the file");
  }
  [[noreturn]] void fail_unknown(const toml::key& key, std::initializer_list<std::string> known,
                                 const std::string& in) const {
    const std::vector<std::string> names(known);
    const auto nearest = core::nearest_name(key.str(), names);
    fail(line_of(key), fmt::format("'{}' is unknown{}", key.str(), in),
         nearest ? fmt::format("did you mean '{}'? docs/sweep.md lists all", *nearest)
                 : "expected " + core::join_or(names));
  }

  std::string text(const toml::key& key, const toml::node& node) const {
    const auto value = node.value_exact<std::string>();
    if (!value || value->empty()) fail_type(key, node, "a text that is not empty");
    return *value;
  }
  int64_t count(const toml::key& key, const toml::node& node, int64_t lowest) const {
    const auto value = node.value_exact<int64_t>();
    if (!value) fail_type(key, node, "a whole number");
    if (*value < lowest || *value > 1'000'000)
      fail(line_of(key), fmt::format("'{}' is {}, expected {} to 1000000", key.str(), *value, lowest),
           "docs/sweep.md describes the file");
    return *value;
  }
  template <typename Enum>
  Enum choice(const toml::key& key, const toml::node& node,
              std::initializer_list<std::pair<std::string, Enum>> choices) const {
    const std::string value = text(key, node);
    std::vector<std::string> names;
    for (const auto& [name, meaning] : choices) {
      if (name == value) return meaning;
      names.push_back(name);
    }
    fail(line_of(key), fmt::format("'{}' is '{}', expected {}", key.str(), value, core::join_or(names)),
         "docs/sweep.md explains each");
  }
  const toml::table& table(const toml::key& key, const toml::node& node) const {
    if (!node.is_table()) fail_type(key, node, fmt::format("a table, [{}]", key.str()));
    return *node.as_table();
  }

  std::optional<Scalar> scalar(const toml::key& key, const toml::node& node) const {
    if (const auto value = node.value_exact<bool>()) return *value;
    if (const auto value = node.value_exact<std::string>()) return *value;
    if (const auto value = node.value_exact<double>()) {
      if (!std::isfinite(*value)) fail(line_of(key), fmt::format("'{}' is not finite", key.str()), "write a number");
      return *value;
    }
    if (const auto value = node.value_exact<int64_t>()) {
      const auto number = static_cast<double>(*value);
      if (!is_whole(number))
        fail(line_of(key), fmt::format("'{}' is {}, beyond 2^53", key.str(), *value), "write a smaller number");
      return number;
    }
    return std::nullopt;
  }
  Setting setting(const toml::key& key, const toml::node& node) const {
    Setting result{.key = name_of(key), .is_list = node.is_array(), .line = line_of(key)};
    const auto add = [&](const toml::node& item) {
      auto value = scalar(key, item);
      if (!value)
        fail_type(key, item,
                  result.is_list ? "scalars in the list" : "a number, a text, true or false, or a list of them");
      result.values.push_back(*std::move(value));
    };
    if (!result.is_list) add(node);
    if (const auto* array = node.as_array())
      for (const toml::node& item : *array) add(item);
    if (result.values.empty())
      fail(result.line, fmt::format("'{}' is an empty list", key.str()),
           "give at least one value, or leave the key out");
    return result;
  }
  std::vector<Setting> settings(const toml::key& key, const toml::node& node) const {
    std::vector<Setting> list;
    std::map<std::string, int64_t> seen;
    for (const auto& [name, value] : entries(table(key, node))) {
      Setting read = setting(*name, *value);
      if (key.str() != "env") read.key = core::replace_all(read.key, "_", "-");
      if (const auto [other, is_new] = seen.emplace(read.key, read.line); !is_new)
        fail(read.line, fmt::format("'{}' repeats line {}", name->str(), other->second), "keep one of the two");
      list.push_back(std::move(read));
    }
    return list;
  }
  /// True when the key was one of the sections.
  bool section(const toml::key& key, const toml::node& node, Sections& sections) {
    const std::string name = name_of(key);
    const bool is_flags = name == "train" || name == "bench";
    std::vector<Setting>* target = is_flags          ? &sections.flags
                                   : name == "env"   ? &sections.env
                                   : name == "slurm" ? &sections.slurm
                                   : name == "tags"  ? &sections.tags
                                                     : nullptr;
    if (target == nullptr) return false;
    if (is_flags && file_.flags_section.empty()) {
      file_.flags_section = name;
      file_.flags_line = line_of(key);
    }
    if (is_flags && name != file_.flags_section)
      fail(line_of(key),
           fmt::format("[{}] and [{}] (line {}) both hold flags", name, file_.flags_section, file_.flags_line),
           "a sweep has one command: keep the section that is named as it");
    *target = settings(key, node);
    return true;
  }

  void add_axis(const std::string& name, const toml::key& key, const toml::node& node) {
    const Setting read = setting(key, node);
    Axis axis{.key = name, .values = read.values, .line = read.line};
    const auto* text = std::get_if<std::string>(&read.values[0]);
    const bool has_variable =
        text != nullptr && text->find("${") != std::string::npos;  // a range only once it is inserted
    if (!read.is_list && text != nullptr && !has_variable)
      axis.values = axis_values(name, *text, fmt::format("{}:{}: '{}'", path_, axis.line, key.str()));
    if (axis.values.size() > kMaxPoints)
      fail(axis.line,
           fmt::format("axis '{}' has {} values, at most {} are allowed", name, axis.values.size(), kMaxPoints),
           "split the sweep");
    std::set<Scalar> seen;
    for (const Scalar& value : axis.values)
      if (!seen.insert(value).second)
        fail(axis.line, fmt::format("axis '{}' has the value {} twice", name, to_text(value)),
             "for several runs of each point set 'repeats'");
    if (file_.axes.size() == kMaxAxes)
      fail(axis.line, fmt::format("'{}' is one axis too many: at most {} are allowed", name, kMaxAxes),
           "split the sweep");
    const auto has_name = [&](const Axis& other) { return other.key == name; };
    if (std::any_of(file_.axes.begin(), file_.axes.end(), has_name))
      fail(axis.line, fmt::format("axis '{}' is given twice", name), "keep one of the two");
    file_.axes.push_back(std::move(axis));
  }
  void axes(const toml::key& key, const toml::node& node) {
    for (const auto& [name, value] : entries(table(key, node))) {
      if (name->str() == "case" || name->str() == "repeat")
        fail(line_of(*name), fmt::format("'{}' is no axis to list", name->str()),
             "cases are [[case]] tables, repeats are counted by 'repeats'");
      if (name->str() != "env") {
        add_axis(core::replace_all(name_of(*name), "_", "-"), *name, *value);
        continue;
      }
      for (const auto& [variable, values] : entries(table(*name, *value)))
        add_axis("env." + name_of(*variable), *variable, *values);
    }
  }
  void cases(const toml::key& key, const toml::node& node) {
    const auto* list = node.as_array();
    if (list == nullptr || !list->is_homogeneous<toml::table>()) fail_type(key, node, "[[case]] tables");
    std::set<std::string> names;
    for (const toml::node& item : *list) {
      Case read{.line = static_cast<int64_t>(item.source().begin.line)};
      for (const auto& [name, value] : entries(*item.as_table())) {
        if (name->str() == "name")
          read.name = text(*name, *value);
        else if (!section(*name, *value, read.sections))
          fail_unknown(*name, {"name", "train", "bench", "env", "slurm", "tags"}, " in [[case]]");
      }
      if (read.name.empty())
        fail(read.line, "a [[case]] has no name", "add name = \"...\"; it becomes part of the names of runs");
      if (!names.insert(read.name).second)
        fail(read.line, fmt::format("case '{}' is given twice", read.name), "give each its own name");
      file_.cases.push_back(std::move(read));
    }
  }
  void whens(const toml::key& key, const toml::node& node) {
    for (const auto& [condition, value] : entries(table(key, node))) {
      WhenBlock block{.condition = name_of(*condition), .line = line_of(*condition)};
      for (const auto& [name, item] : entries(table(*condition, *value))) {
        if (name->str() == "skip") {
          const auto flag = item->value_exact<bool>();
          if (!flag) fail_type(*name, *item, "true or false");
          block.skip = *flag;
        } else if (!section(*name, *item, block.sections)) {
          fail_unknown(*name, {"train", "bench", "env", "slurm", "tags", "skip"},
                       fmt::format(" in [when.\"{}\"]", block.condition));
        }
      }
      file_.whens.push_back(std::move(block));
    }
  }
  void submit(const toml::key& key, const toml::node& node) {
    for (const auto& [name, value] : entries(table(key, node))) {
      if (name->str() == "in-flight")
        file_.in_flight = count(*name, *value, 0);
      else if (name->str() == "how")
        file_.how = choice<SubmitHow>(
            *name, *value,
            {{"jobs", SubmitHow::kJobs}, {"singleton", SubmitHow::kSingleton}, {"arrays", SubmitHow::kArrays}});
      else if (name->str() == "order")
        file_.order = choice<Order>(*name, *value, {{"listed", Order::kListed}, {"random", Order::kRandom}});
      else if (name->str() == "seed")
        file_.seed = count(*name, *value, 0);
      else
        fail_unknown(*name, {"in-flight", "how", "order", "seed"}, " in [submit]");
    }
  }
  void billing(const toml::key& key, const toml::node& node) {
    for (const auto& [name, value] : entries(table(key, node))) {
      if (name->str() == "unit")
        file_.billing_unit = text(*name, *value);
      else if (name->str() == "per-node-hour") {
        const auto number = scalar(*name, *value);
        if (!number || !std::holds_alternative<double>(*number) || std::get<double>(*number) <= 0)
          fail_type(*name, *value, "a number above 0: units that one node costs in one hour");
        file_.billing_per_node_hour = std::get<double>(*number);
      } else
        fail_unknown(*name, {"unit", "per-node-hour"}, " in [billing]");
    }
    if (file_.billing_unit.empty()) fail(line_of(key), "[billing] has no unit", "for example unit = \"core-hours\"");
  }
  void variables(const toml::key& key, const toml::node& node) {
    for (const auto& [name, value] : entries(table(key, node))) {
      const auto read = scalar(*name, *value);
      if (!read) fail_type(*name, *value, "a text or a number");
      file_.variables[name_of(*name)] = to_text(*read);
    }
  }

  void top_level(const toml::key& key, const toml::node& node) {
    const std::string name = name_of(key);
    if (section(key, node, file_.base)) return;
    if (name == "name")
      file_.name = text(key, node);
    else if (name == "out")
      file_.out = text(key, node);
    else if (name == "command")
      file_.command = text(key, node);
    else if (name == "program")
      file_.program = text(key, node);
    else if (name == "ranks-per-node")
      file_.ranks_per_node = setting(key, node);
    else if (name == "repeats")
      file_.repeats = count(key, node, 1);
    else if (name == "scaling")
      file_.scaling = choice<Scaling>(
          key, node, {{"weak", Scaling::kWeak}, {"strong", Scaling::kStrong}, {"free", Scaling::kFree}});
    else if (name == "axes")
      axes(key, node);
    else if (name == "case")
      cases(key, node);
    else if (name == "when")
      whens(key, node);
    else if (name == "submit")
      submit(key, node);
    else if (name == "billing")
      billing(key, node);
    else if (name == "variables")
      variables(key, node);
    else
      fail_unknown(key,
                   {"name", "out", "command", "program", "ranks-per-node", "repeats", "scaling", "axes", "case", "when",
                    "train", "bench", "env", "slurm", "tags", "submit", "billing", "variables"},
                   "");
  }

  std::string path_;
  SweepFile file_;
};

/// One part of a range: "4", "1-8", "1-9+4" or "1-128*2".
void expand_part(std::string_view part, const std::string& where, std::vector<Scalar>& values) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("sweep: {}: '{}' is no range: {}", where, part, why),
                     "for example \"1-128*2\", \"2-10+2\" or \"1,2,4\"");
  };
  const size_t dash = part.find('-'), step_at = part.find_first_of("*+");
  const auto first = core::parse_int(core::trim(part.substr(0, dash)));
  const auto last = dash == std::string_view::npos
                        ? first
                        : core::parse_int(core::trim(part.substr(dash + 1, std::min(step_at, part.size()) - dash - 1)));
  const auto step = step_at == std::string_view::npos ? std::optional<int64_t>(1)
                                                      : core::parse_int(core::trim(part.substr(step_at + 1)));
  if (!first || !last || !step || (step_at != std::string_view::npos && dash == std::string_view::npos))
    refuse("expected FIRST-LAST*FACTOR or FIRST-LAST+STEP");
  const bool multiplies = step_at != std::string_view::npos && part[step_at] == '*';
  if (*first < 1 || *last < *first || *last > std::numeric_limits<int32_t>::max())
    refuse("numbers begin at 1 and do not go down");
  if (*step < (multiplies ? 2 : 1)) refuse(multiplies ? "the factor is at least 2" : "the step is at least 1");
  for (int64_t value = *first;; value = multiplies ? value * *step : value + *step) {
    if (value > *last) refuse(fmt::format("its steps pass {} without hitting it", *last));
    if (values.size() >= kMaxRangeValues) refuse(fmt::format("more than {} values", kMaxRangeValues));
    values.emplace_back(static_cast<double>(value));
    if (value == *last) return;
  }
}
}  // namespace

std::vector<Scalar> parse_range(std::string_view text, const std::string& where) {
  std::vector<Scalar> values;
  for (const std::string& part : core::split(text, ",")) expand_part(core::trim(part), where, values);
  return values;
}

std::vector<Scalar> axis_values(std::string_view key, const std::string& text, const std::string& where) {
  const bool looks_like_range = text.find_first_not_of("0123456789-*+, ") == std::string::npos &&
                                text.find_first_of("-,", 1) != std::string::npos;
  return key == "nodes" || looks_like_range ? parse_range(text, where) : std::vector<Scalar>{text};
}

SweepFile parse_sweep_file(std::string_view text, const std::string& path) { return FileReader(text, path).read(); }

SweepFile read_sweep_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path))
    throw UsageError(fmt::format("sweep: '{}' does not exist", path.string()),
                     "give the path of a sweep file; recipes/sweeps holds examples");
  return parse_sweep_file(core::read_file_or_pipe(path), path.string());
}

}  // namespace lockstep::sweep
