#include <fmt/format.h>

#include <algorithm>

#include "cli/front/commands.h"
#include "core/error.h"
#include "core/options.h"
#include "core/strings.h"
#include "record/metrics.h"
#include "spec/commands.h"

namespace lockstep::cli {
namespace {
using Args = std::vector<std::string>;

constexpr const char* kDefaultCommand = "train clip";

const spec::CommandInfo& command_info(const std::string& name) {
  const spec::CommandInfo* info = spec::find_command(name);
  if (info == nullptr)
    throw UsageError(fmt::format("config: --for got '{}', which is no command", name), "for example --for 'train clip'");
  return *info;
}

/// The command with the options of one recipe.
spec::ParsedCommand with_recipe(const std::string& command, const std::string& path) {
  const Args words = core::split(command_info(command).name, " ");
  Args args = words;
  args.insert(args.end(), {"--config", path});
  return spec::parse_flags(args);
}

/// The value, in quotes where it would not be seen.
std::string visible(const std::string& value) {
  if (value == "\t") return "'\\t'";
  return core::trim(value).size() == value.size() && !value.empty() ? value : "'" + value + "'";
}

void print_table_row(const core::Option& option) {
  fmt::print("{:<30} {:<28} {}\n", option.name, visible(option.value_text()), option.origin.text());
}

struct Difference {
  std::string name, first, second;
  core::Json first_json, second_json;
};

std::vector<Difference> differences(const core::OptionSet& a, const core::OptionSet& b) {
  std::vector<Difference> found;
  for (size_t i = 0; i < a.options().size(); ++i) {
    const core::Option& first = a.options()[i];
    const core::Option& second = b.options()[i];
    if (first.name == "config" || first.value_json() == second.value_json()) continue;
    found.push_back({first.name, first.value_text(), second.value_text(), first.value_json(), second.value_json()});
  }
  return found;
}

std::string reference_markdown() {
  std::string text =
      "# Option reference\n\n"
      "Written by `lockstep config reference --format markdown`; do not edit.\n\n"
      "`--flag-name` and `--flag_name` are the same flag; values follow as `--flag value` or `--flag=value`; the last of a "
      "repeated flag wins; "
      "`--no-flag` clears a flag that takes no value; `none` empties an optional number and `''` an optional text. "
      "A recipe (`--config FILE`) is a flat TOML file whose keys are flag names; the command line wins over it.\n";
  for (const spec::CommandInfo& info : spec::commands())
    if (info.is_implemented)
      if (const auto command = spec::declare_command(info); command.set) text += "\n" + command.set->markdown();
  return text;
}

std::string reference_text() {
  std::string text;
  for (const spec::CommandInfo& info : spec::commands())
    if (info.is_implemented)
      if (const auto command = spec::declare_command(info); command.set)
        text += (text.empty() ? "" : "\n\n") + command.set->help_text();
  return text;
}

core::Json reference_json() {
  core::Json json = core::Json::array();
  for (const spec::CommandInfo& info : spec::commands())
    if (info.is_implemented)
      if (const auto command = spec::declare_command(info); command.set) json.push_back(command.set->reference_json());
  return json;
}

std::string metrics_text() {
  std::string text;
  for (const record::MetricDef& metric : record::metric_catalogue())
    text += fmt::format("{:<28} {:<10} {:<14} {}\n", metric.name, metric.unit, record::source_name(metric.source), metric.help);
  return text;
}
}  // namespace

int cmd_config_show(std::span<const std::string> args) {
  Args words(args.begin(), args.end());
  const bool is_help = words.size() == 1 && (words[0] == "--help" || words[0] == "-h");
  if (is_help) {
    fmt::print(
        "Usage: lockstep config show [--json] [COMMAND] [FLAGS]\n\n"
        "Shows every option of a command line, its value and where the value came from.\n"
        "COMMAND is `{}` unless given; FLAGS are its flags, --config among them.\n",
        kDefaultCommand);
    return 0;
  }
  const bool as_json = std::erase(words, "--json") > 0;
  if (words.empty() || core::starts_with(words[0], "-")) {
    const Args command = core::split(kDefaultCommand, " ");
    words.insert(words.begin(), command.begin(), command.end());
  }
  const spec::ParsedCommand parsed = spec::parse_flags(words);
  if (!parsed.set)
    throw UsageError(fmt::format("config: `lockstep {}` has no recipe options", parsed.info->name),
                     "try `lockstep config show train clip`");
  if (parsed.wants_help) {
    fmt::print("{}", parsed.set->help_text());
    return 0;
  }
  if (!as_json) {
    for (const core::Option& option : parsed.set->options()) print_table_row(option);
    return 0;
  }
  core::Json json = core::Json::object();
  for (const core::Option& option : parsed.set->options())
    json[core::replace_all(option.name, "-", "_")] = {{"value", option.value_json()}, {"from", option.origin.text()}};
  fmt::print("{}\n", json.dump(2));
  return 0;
}

int cmd_config_compare(std::span<const std::string> args) {
  std::string first_path, second_path, command = kDefaultCommand;
  bool as_json = false;
  core::OptionSet set("config compare", "Shows the options in which two recipes differ.");
  set.add_positional("first", &first_path, {.help = "Recipe.", .metavar = "FIRST.toml"});
  set.add_positional("second", &second_path, {.help = "Recipe to compare with.", .metavar = "SECOND.toml"});
  set.add("for", &command, {.help = "Command that the recipes are for.", .metavar = "COMMAND"});
  set.add("json", &as_json, {.help = "Machine-readable output."});
  set.parse(args);
  if (set.wants_help()) {
    fmt::print("{}", set.help_text());
    return 0;
  }
  const spec::ParsedCommand first = with_recipe(command, first_path), second = with_recipe(command, second_path);
  const auto found = differences(*first.set, *second.set);
  if (as_json) {
    core::Json json = core::Json::object();
    for (const Difference& difference : found)
      json[core::replace_all(difference.name, "-", "_")] = {{"first", difference.first_json}, {"second", difference.second_json}};
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  if (found.empty()) fmt::print("The recipes set the same options to the same values.\n");
  for (const Difference& difference : found)
    fmt::print("{:<30} {:<28} {}\n", difference.name, visible(difference.first), visible(difference.second));
  return 0;
}

int cmd_config_reference(std::span<const std::string> args) {
  std::string format = "text";
  bool as_json = false, metrics = false;
  core::OptionSet set("config reference", "Prints every option of every command, or every metric.");
  set.add("format", &format, {.help = "Form of the reference.", .choices = {"text", "markdown", "json"}});
  set.add("json", &as_json, {.help = "The same as --format json."});
  set.add("metrics", &metrics, {.help = "Metrics of run records and reports instead of options."});
  set.parse(args);
  if (set.wants_help())
    fmt::print("{}", set.help_text());
  else if (as_json || format == "json")
    fmt::print("{}\n", (metrics ? record::metrics_json() : reference_json()).dump(2));
  else if (format == "markdown")
    fmt::print("{}", metrics ? record::metrics_markdown() : reference_markdown());
  else
    fmt::print("{}", metrics ? metrics_text() : reference_text());
  return 0;
}

}  // namespace lockstep::cli
