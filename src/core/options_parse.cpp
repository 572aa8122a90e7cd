// Own parser: CLI11 2.1 drops underscores instead of reading them as dashes, knows neither nearest names nor refused
// flags nor where a value came from, and would need every option declared a second time; what is left for it is the
// loop below.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <type_traits>

#include "core/error.h"
#include "core/files.h"
#include "core/options.h"
#include "core/strings.h"
#include "core/toml.h"

namespace lockstep::core {
namespace {
bool looks_like_flag(const std::string& arg) { return arg.size() > 1 && arg[0] == '-' && !parse_double(arg); }

bool is_none(const std::string& text) { return text == "none" || text == "None"; }

[[noreturn]] void throw_bad_value(const std::string& label, const std::string& value, const Option& option) {
  throw UsageError(fmt::format("options: {} got '{}', expected {}", label, value, option.expected_text()),
                   "--" + option.name + ": " + option.spec.help);
}

void check_range(const std::string& label, const std::string& typed, double value, const Option& option) {
  const OptionSpec& spec = option.spec;
  const bool is_low = spec.min && (spec.is_min_excluded ? value <= *spec.min : value < *spec.min);
  const bool is_high = spec.max && (spec.is_max_excluded ? value >= *spec.max : value > *spec.max);
  if (is_low || is_high || !std::isfinite(value)) throw_bad_value(label, typed, option);
}

void read_value(const std::string& label, const std::string& typed, const Option& option, int64_t& value) {
  const auto number = parse_int(typed);
  if (!number) throw_bad_value(label, typed, option);
  check_range(label, typed, static_cast<double>(*number), option);
  value = *number;
}

void read_value(const std::string& label, const std::string& typed, const Option& option, double& value) {
  const auto number = parse_double(typed);
  if (!number) throw_bad_value(label, typed, option);
  check_range(label, typed, *number, option);
  value = *number;
}

bool is_utf8(const std::string& text) {
  try {
    [[maybe_unused]] const std::string dumped = Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

void read_value(const std::string& label, const std::string& typed, const Option& option, std::string& value) {
  const OptionSpec& spec = option.spec;
  if (!is_utf8(typed))  // records hold every option
    throw UsageError(fmt::format("options: the value of {} is no UTF-8: {}", label,
                                 Json(typed).dump(-1, ' ', true, Json::error_handler_t::replace)),
                     "a path of other bytes can be reached through a link with another name");
  for (const auto& [refused, instead] : spec.refused_choices)
    if (typed == refused) throw UsageError(fmt::format("options: {} '{}' is not supported", label, typed), instead);
  const auto alias = std::find_if(spec.choice_aliases.begin(), spec.choice_aliases.end(),
                                  [&](const auto& pair) { return pair.first == typed; });
  const std::string& stored = alias == spec.choice_aliases.end() ? typed : alias->second;
  if (!spec.choices.empty() && std::count(spec.choices.begin(), spec.choices.end(), stored) == 0) {
    const auto nearest = nearest_name(typed, spec.choices);
    throw UsageError(fmt::format("options: {} got '{}', expected {}", label, typed, option.expected_text()),
                     nearest ? fmt::format("did you mean '{}'?", *nearest) : "--" + option.name + ": " + spec.help);
  }
  value = stored;
}

/// The text that the command line would have for a scalar of a recipe, or nothing when its type does not fit the field.
std::optional<std::string> toml_text(const toml::node& node, const Option& option) {
  return std::visit(
      [&](const auto* field) -> std::optional<std::string> {
        using T = std::remove_const_t<std::remove_pointer_t<decltype(field)>>;
        constexpr bool is_integer = std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>> ||
                                    std::is_same_v<T, std::vector<int64_t>>;
        constexpr bool is_number = is_integer || std::is_same_v<T, double> ||
                                   std::is_same_v<T, std::optional<double>> || std::is_same_v<T, std::vector<double>>;
        if constexpr (std::is_same_v<T, bool>) {
          if (const auto value = node.value_exact<bool>()) return *value ? "true" : "false";
        } else if constexpr (is_number) {
          if (const auto value = node.value_exact<int64_t>()) return std::to_string(*value);
          if constexpr (!is_integer)
            if (const auto value = node.value_exact<double>()) return fmt::format("{}", *value);
        } else {
          if (const auto value = node.value_exact<std::string>()) return *value;
        }
        return std::nullopt;
      },
      option.target);
}

std::string toml_value_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return "\"" + *text + "\"";
  std::ostringstream stream;
  node.visit([&](const auto& value) { stream << value; });
  return stream.str();
}

/// Lists of NAME=VALUE take only words of that form, so that arguments may follow them.
bool is_pair_list(const Option& option) { return option.takes_list() && option.spec.metavar == "NAME=VALUE"; }

/// Lists whose parts are whole by themselves (pairs, texts) add up when the flag is repeated.
bool adds_up(const Option& option) {
  return is_pair_list(option) || (option.takes_list() && option.spec.metavar == "TEXT");
}

bool looks_like_pair(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && word.find('/') > equals;
}

/// What a flag without a field would have behind it on the command line; nothing where it would not be given.
std::optional<std::vector<std::string>> foreign_values(const toml::node& node) {
  if (const auto is_set = node.value_exact<bool>())
    return *is_set ? std::optional(std::vector<std::string>{}) : std::nullopt;
  std::vector<std::string> values;
  const toml::array* array = node.as_array();
  for (size_t i = 0; i < (array == nullptr ? 1 : array->size()); ++i) {
    const toml::node& value = array == nullptr ? node : *array->get(i);
    values.push_back(value.value_exact<std::string>().value_or(toml_value_text(value)));
  }
  return values;
}

/// Is it an argument that no flag of this command line has set?
bool is_open_argument(const Option& option) {
  return option.is_positional && option.origin.kind != Origin::Kind::kCommandLine;
}

/// Refuses words that no argument takes.
void check_surplus(std::span<const Option> options, const std::string& command,
                   std::span<const std::string> positionals) {
  size_t num_taken = 0;
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (!is_open_argument(option)) continue;
    num_taken += option.takes_list() ? positionals.size() : 1;
    names.push_back(option.metavar());
  }
  if (num_taken >= positionals.size()) return;
  const std::string& word = positionals[num_taken];
  throw UsageError(
      fmt::format("options: '{}' does not take the argument '{}'", command, word),
      ends_with(word, ".py")  ? fmt::format("leave '{}' out: flags follow `lockstep {}` directly", word, command)
      : looks_like_pair(word) ? fmt::format("flags are written --{} VALUE", word.substr(0, word.find('=')))
      : !names.empty()
          ? fmt::format(
                "one call takes {} and flags, which begin with '--'; the shell makes several words of a pattern",
                join(names, " "))
          : "flags begin with '--'; quote patterns such as '{000..099}.tar' so that the shell does not expand them");
}

/// Takes the words up to the next flag.
std::vector<std::string> take_words(std::span<const std::string> args, size_t& at) {
  std::vector<std::string> words;
  while (at < args.size() && !looks_like_flag(args[at])) words.push_back(args[at++]);
  return words;
}

toml::table parse_recipe(std::string_view text, const std::string& path) {
  try {
    return parse_toml(text, path);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    const bool is_toml = ends_with(path, ".toml");
    throw UsageError(
        fmt::format("options: {}:{}: column {}: {}", path, at.line, at.column, error.description()),
        (is_toml ? "" : "recipes are TOML: ") +
            std::string(
                "a recipe has lines such as 'batch-size = 64', 'model = \"ViT-B-32\"' and 'local-loss = true'"));
  }
}
std::string recipe_text(const std::string& path) {
  if (!std::filesystem::exists(path))
    throw UsageError(fmt::format("options: recipe '{}' does not exist", path),
                     "--config takes the path of a TOML file");
  return read_file_or_pipe(path);
}
}  // namespace

/// Is it a flag of other programs that is taken? Throws where it is one that is refused.
bool OptionSet::is_foreign(const std::string& name, const std::string& label, std::span<const std::string> values) {
  const auto found = foreign_.find(name);
  if (found == foreign_.end()) return false;
  const ForeignFlag& flag = found->second;
  if (flag.is_ignored && std::count(ignored_.begin(), ignored_.end(), "--" + name) == 0)
    ignored_.push_back("--" + name);
  const bool is_off = !values.empty() && std::count(flag.off.begin(), flag.off.end(), join(values, " ")) > 0;
  if (!flag.is_ignored && !is_off)
    throw UsageError(fmt::format("options: {} is not supported: {}", label, flag.reason), flag.instead);
  return true;
}

void OptionSet::throw_unknown(const std::string& label, const std::string& name) const {
  std::vector<std::string> names, extended;
  for (const auto& [known, index] : index_) {
    if (known.size() > 1) names.push_back(known);
    if (known.size() > 1 && name.size() > 2 && starts_with(known, name)) extended.push_back("--" + known);
  }
  const auto nearest = nearest_name(name, names);
  const std::string did_you_mean = !extended.empty() ? fmt::format("did you mean {}? ", join_or(extended))
                                   : nearest         ? fmt::format("did you mean --{}? ", *nearest)
                                                     : "";
  throw UsageError(fmt::format("options: {} is unknown to '{}'", label, command_),
                   fmt::format("{}`lockstep {} --help` lists every flag", did_you_mean, command_));
}

/// Reads the flag at args[at] and its values; `at` moves behind them. Nothing for a flag without a field.
std::optional<OptionSet::Occurrence> OptionSet::take_flag(std::span<const std::string> args, size_t& at) {
  const std::string& arg = args[at++];
  const size_t dashes = starts_with(arg, "--") ? 2 : 1;
  const size_t equals = arg.find('=');
  const bool has_equals = equals != std::string::npos;
  const std::string label = arg.substr(0, equals);
  const std::string name = replace_all(label.substr(dashes), "_", "-");
  if (const auto foreign = foreign_.find(name); dashes == 2 && foreign != foreign_.end()) {
    std::vector<std::string> values;
    if (has_equals) values.push_back(arg.substr(equals + 1));
    if (foreign->second.takes_values && !has_equals) values = take_words(args, at);
    is_foreign(name, label, values);
    return std::nullopt;
  }
  Option* option = (name.size() == 1) == (dashes == 1) ? find_mutable(name) : nullptr;
  if (option == nullptr && dashes == 2 && starts_with(name, "no-")) {
    Option* cleared = find_mutable(name.substr(3));
    if (cleared != nullptr && cleared->is_flag() && !has_equals) return Occurrence{cleared, label, {"false"}};
  }
  if (option == nullptr) {
    take_words(args, at);
    throw_unknown(label, name);
  }
  if (option->is_flag()) {
    if (has_equals)
      throw UsageError(fmt::format("options: {} takes no value, got '{}'", label, arg.substr(equals + 1)),
                       fmt::format("write --{} to set it, --no-{} to clear it", option->name, option->name));
    return Occurrence{option, label, {"true"}};
  }
  Occurrence found{option, label, {}};
  if (has_equals) found.values.push_back(arg.substr(equals + 1));
  const size_t num_wanted = has_equals && !option->takes_list() ? 0 : option->takes_list() ? args.size() : 1;
  for (size_t taken = 0; taken < num_wanted && at < args.size() && !looks_like_flag(args[at]); ++taken) {
    if (is_pair_list(*option) && !found.values.empty() && !looks_like_pair(args[at])) break;
    found.values.push_back(args[at++]);
  }
  if (found.values.empty()) {
    const std::string seen = at < args.size() ? fmt::format("the flag '{}'", args[at]) : "the end of the command line";
    throw UsageError(
        fmt::format("options: {} needs a value, got {}; expected {}", label, seen, option->expected_text()),
        fmt::format("a value that begins with '-' is written {}=VALUE", label));
  }
  return found;
}

/// Reads all flags with their values, and the words that belong to none.
std::vector<OptionSet::Occurrence> OptionSet::take_args(std::span<const std::string> args,
                                                        std::vector<std::string>& positionals,
                                                        UsageProblems& problems) {
  std::vector<Occurrence> occurrences;
  for (size_t at = 0; at < args.size();) {
    if (args[at] == "--") {
      positionals.insert(positionals.end(), args.begin() + static_cast<std::ptrdiff_t>(at) + 1, args.end());
      break;
    }
    if (!looks_like_flag(args[at])) {
      positionals.push_back(args[at++]);
      continue;
    }
    problems.collect([&] {
      std::optional<Occurrence> found = take_flag(args, at);
      if (!found) return;
      const auto same = std::find_if(occurrences.begin(), occurrences.end(),
                                     [&](const Occurrence& one) { return one.option == found->option; });
      if (same != occurrences.end() && adds_up(*found->option))
        same->values.insert(same->values.end(), found->values.begin(), found->values.end());
      else
        occurrences.push_back(std::move(*found));
    });
  }
  return occurrences;
}

void OptionSet::parse(std::span<const std::string> args) {
  for (Option& option : options_)  // words of an earlier command line are replaced
    if (option.is_positional && !is_open_argument(option)) option.origin = {};
  const auto flags_end = std::find(args.begin(), args.end(), "--");
  wants_help_ =
      std::any_of(args.begin(), flags_end, [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
  if (wants_help_) return;
  std::vector<std::string> positionals;
  UsageProblems problems;
  const std::vector<Occurrence> occurrences = take_args(args, positionals, problems);
  const Origin origin{.kind = Origin::Kind::kCommandLine};
  const auto is_config = [&](const Occurrence& found) { return found.option->name == "config"; };
  const auto set_from = [&](const Occurrence& found) {
    problems.collect([&] { set_values(*found.option, found.values, origin, found.label); });
  };
  for (const Occurrence& found : occurrences)
    if (is_config(found)) set_from(found);
  problems.collect([&] {
    if (!config_path_->empty()) collect_recipe(recipe_text(*config_path_), *config_path_, problems);
  });
  for (const Occurrence& found : occurrences)
    if (!is_config(found)) set_from(found);
  problems.collect([&] { check_surplus(options_, command_, positionals); });
  problems.raise();
  const bool needs_argument = std::any_of(options_.begin(), options_.end(), [](const Option& option) {
    return is_open_argument(option) && option.default_text.empty();
  });
  const auto greedy = std::find_if(occurrences.begin(), occurrences.end(), [](const Occurrence& found) {
    return found.option->takes_list() && found.values.size() > 1;
  });
  if (needs_argument && positionals.empty() && greedy != occurrences.end())
    throw UsageError(fmt::format("options: '{}' lacks its argument: {} took all words behind it, '{}' among them",
                                 command_, greedy->label, greedy->values.back()),
                     "put the argument before the flags");
  set_positionals(std::move(positionals));
}

void OptionSet::set_values(Option& option, std::span<const std::string> values, const Origin& origin,
                           const std::string& label) {
  std::visit(
      [&](auto* field) {
        using T = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<T, bool>) {
          *field = values[0] == "true";
        } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
          std::string value;
          if (!values[0].empty()) read_value(label, values[0], option, value);
          *field = value.empty() ? std::nullopt : std::optional(value);
        } else if constexpr (std::is_same_v<T, std::optional<int64_t>> || std::is_same_v<T, std::optional<double>>) {
          typename T::value_type value{};
          if (!is_none(values[0])) read_value(label, values[0], option, value);
          *field = is_none(values[0]) ? std::nullopt : std::optional(value);
        } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                             std::is_same_v<T, std::string>) {
          read_value(label, values[0], option, *field);
        } else {
          T list(values.size());
          for (size_t i = 0; i < values.size(); ++i) read_value(label, values[i], option, list[i]);
          *field = std::move(list);
        }
      },
      option.target);
  option.origin = origin;
}

void OptionSet::set_positionals(std::vector<std::string> values) {
  const Origin origin{.kind = Origin::Kind::kCommandLine};
  size_t at = 0;
  for (Option& option : options_) {
    if (!is_open_argument(option)) continue;
    const size_t left = values.size() - at;
    if (left == 0 && option.default_text.empty())
      throw UsageError(fmt::format("options: '{}' needs {}: {}", command_, option.metavar(), option.spec.help),
                       fmt::format("`lockstep {} --help` shows how to call it", command_));
    const size_t taken = option.takes_list() ? left : std::min<size_t>(1, left);
    if (taken > 0) set_values(option, std::span(values).subspan(at, taken), origin, option.metavar());
    at += taken;
  }
}

void OptionSet::apply_recipe(std::string_view text, const std::string& path) {
  UsageProblems problems;
  collect_recipe(text, path, problems);
  problems.raise();
}

void OptionSet::collect_recipe(std::string_view text, const std::string& path, UsageProblems& problems) {
  const toml::table recipe = parse_recipe(text, path);
  std::map<std::string, int64_t> seen;
  const auto apply = [&](const toml::key& key, const toml::node& node) {
    const int64_t line = key.source().begin.line;
    const std::string name = replace_all(std::string(key.str()), "_", "-");
    const std::string label = fmt::format("{}:{}: key '{}'", path, line, key.str());
    if (node.is_table())
      throw UsageError(fmt::format("options: {} is a table", label),
                       "recipes have no tables: write the flags as keys, one a line, without [headings] and dots");
    if (foreign_.contains(name)) {
      if (const auto values = foreign_values(node)) is_foreign(name, label, *values);
      return;
    }
    Option* option = find_mutable(name);
    if (option == nullptr || name == "config") throw_unknown(label, name);
    if (const auto [other, is_new] = seen.emplace(option->name, line); !is_new)
      throw UsageError(
          fmt::format("options: {} repeats the option --{} of line {}", label, option->name, other->second),
          "keep one of the two lines");
    std::vector<std::string> values;
    const toml::array* array = node.as_array();
    const size_t count = array == nullptr ? 1 : array->size();
    for (size_t i = 0; i < count; ++i) {
      const auto value = toml_text(array == nullptr ? node : *array->get(i), *option);
      if (value) values.push_back(*value);
    }
    const bool is_list_misfit = option->takes_list() ? count == 0 : array != nullptr;
    if (values.size() != count || is_list_misfit) throw_bad_value(label, toml_value_text(node), *option);
    if (option->origin.kind == Origin::Kind::kCommandLine) return;
    set_values(*option, values, {.kind = Origin::Kind::kFile, .file = path, .line = line}, label);
  };
  for (const auto& [key, node] : recipe) problems.collect([&, &key = key, &node = node] { apply(key, node); });
}

}  // namespace lockstep::core
