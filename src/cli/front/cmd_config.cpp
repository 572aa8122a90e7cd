#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "analysis/checks.h"
#include "cli/front/commands.h"
#include "commands/commands.h"
#include "core/error.h"
#include "core/files.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "doctor/checks.h"
#include "logs/formats.h"
#include "record/metrics.h"
#include "record/reader.h"
#include "tasks/contrastive/front/openclip_flags.h"
#include "tasks/front/recorded_run.h"

namespace lockstep::cli {
namespace fs = std::filesystem;
namespace {
using Args = std::vector<std::string>;

const commands::CommandInfo& command_info(const std::string& name) {
  const commands::CommandInfo* info = commands::find_command(name);
  if (info == nullptr)
    throw UsageError(fmt::format("config: --for got '{}', which is no command", name),
                     fmt::format("for example --for '{}'", commands::default_train_command()));
  return *info;
}

/// The command with the options of one recipe.
commands::ParsedCommand with_recipe(const std::string& command, const std::string& path) {
  const Args words = core::split(command_info(command).name, " ");
  Args args = words;
  args.insert(args.end(), {"--config", path});
  return commands::parse_flags(args);
}

/// The value, in quotes where it would not be seen.
std::string visible(const std::string& value) {
  if (value == "\t") return "'\\t'";
  return core::trim(value).size() == value.size() && !value.empty() ? value : "'" + value + "'";
}

/// A line of a recipe; a comment where the value is a default, follows from others, or is none, which TOML cannot say.
void print_recipe_line(const std::string& name, const core::Json& value, const std::string& origin, bool is_comment) {
  const std::string line = fmt::format("{}{} = {}", is_comment || value.is_null() ? "# " : "", name,
                                       value.is_null() ? "none" : value.dump());
  core::print("{}\n", origin.empty() ? line : fmt::format("{:<48} # {}", line, origin));
}

/// Was it filled from an argument without a flag ("the data folder 'd'"), which a recipe cannot name?
bool follows_from_argument(const core::Option& option, const core::OptionSet& set) {
  if (option.origin.kind != core::Origin::Kind::kDerived) return false;
  return std::any_of(set.options().begin(), set.options().end(), [&](const core::Option& argument) {
    return argument.is_positional && option.origin.file.find("'" + argument.value_text() + "'") != std::string::npos;
  });
}

/// What differs from the defaults, or everything, as a recipe that gives the same options again.
void print_recipe(const core::OptionSet& set, bool shows_all) {
  core::print("# lockstep {}\n", set.command());
  for (const core::Option& option : set.options()) {
    using Kind = core::Origin::Kind;
    const Kind kind = option.origin.kind;
    if (option.name == "config" || (kind == Kind::kDefault && !shows_all)) continue;
    print_recipe_line(option.name, option.value_json(), option.origin.text(),
                      option.is_positional || kind == Kind::kDefault ||
                          (kind == Kind::kDerived && !follows_from_argument(option, set)));
  }
}

struct Difference {
  std::string name;
  core::Json first, second;
};

/// As Option::value_text writes it.
std::string value_text(const core::Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return visible(value.is_string() ? value.get<std::string>() : value.dump());
}

bool is_run(const fs::path& path) { return fs::is_regular_file(path / "run.json"); }

/// The newest attempt of a run that trained, which has "options".
core::Json attempt_of_run(const fs::path& run) {
  const core::Json attempts = record::read_run(run).attempts;
  const core::Json attempt = attempts.empty() ? core::Json(nullptr) : tasks::last_training(attempts);
  if (!attempt.is_object() || !attempt.contains("options"))
    throw UsageError(fmt::format("config: '{}' names no options", (run / "run.json").string()),
                     "give a recipe, or the folder of a run (<logs>/<name>)");
  return attempt;
}

/// The options that the newest attempt of a run that trained had, as {"batch_size": 64, ...}.
core::Json options_of_run(const fs::path& run) { return attempt_of_run(run).at("options"); }

/// The options of a run's folder, or those that a recipe gives `command`.
core::Json options_of(const std::string& command, const std::string& path) {
  return is_run(path) ? options_of_run(path) : with_recipe(command, path).set->values_json();
}

std::vector<Difference> differences(const core::Json& a, const core::Json& b) {
  std::vector<Difference> found;
  const auto value_of = [](const core::Json& options, const std::string& name) {
    return options.value(name, core::Json(nullptr));
  };
  for (const auto& [name, first] : a.items())
    if (name != "config" && first != value_of(b, name)) found.push_back({name, first, value_of(b, name)});
  for (const auto& [name, second] : b.items())
    if (name != "config" && !a.contains(name)) found.push_back({name, nullptr, second});
  return found;
}

struct ShowFlags {
  bool shows_all = false, as_json = false;
};

core::OptionSet declare_show(ShowFlags& flags) {
  core::OptionSet set("config show",
                      "Shows the options of a command line, a recipe or a run that differ from their defaults, as a "
                      "recipe that gives the same options again.");
  set.add("all", &flags.shows_all, {.help = "All options."});
  set.add("json", &flags.as_json, {.help = "Machine-readable output, of all options."});
  return set;
}

struct CompareFlags {
  std::string first, second, command = commands::default_train_command();
  bool as_json = false;
};

core::OptionSet declare_compare(CompareFlags& flags) {
  core::OptionSet set("config compare", "Shows the options in which two recipes or runs differ.");
  set.add_positional("first", &flags.first, {.help = "Recipe, or folder of a run.", .metavar = "FIRST"});
  set.add_positional("second", &flags.second, {.help = "Recipe or run to compare with.", .metavar = "SECOND"});
  set.add("for", &flags.command, {.help = "Command that recipes are for.", .metavar = "COMMAND"});
  set.add("json", &flags.as_json, {.help = "Machine-readable output."});
  return set;
}

struct ReferenceFlags {
  std::string format = "text", output;
  bool as_json = false, metrics = false;
};

core::OptionSet declare_reference(ReferenceFlags& flags) {
  core::OptionSet set("config reference", "Prints every option of every command, or every metric.");
  set.add("format", &flags.format, {.help = "Form of the reference.", .choices = {"text", "markdown", "json"}});
  set.add("json", &flags.as_json, {.help = "The same as --format json."});
  set.add("metrics", &flags.metrics, {.help = "Metrics of run records and reports instead of options."});
  set.add("output", &flags.output,
          {.help = "Write options.md and options/COMMAND.md into this folder instead.",
           .metavar = "DIR",
           .aliases = {"o"}});
  return set;
}

/// The options of commands that this program declares where it runs them.
void visit_own_options(const std::string& command, const OptionVisitor& visit) {
  ShowFlags show;
  CompareFlags compare;
  ReferenceFlags reference;
  if (command == "launch") visit_launch_options(visit);
  if (command == "data") visit_data_options(visit);
  if (command == "doctor") visit_doctor_options(visit);
  if (command == "sweep") visit_sweep_options(visit);
  if (command == "predict") visit_predict_options(visit);
  if (command == "config show") visit(declare_show(show));
  if (command == "config compare") visit(declare_compare(compare));
  if (command == "config reference") visit(declare_reference(reference));
}

/// Calls `visit` with the options of every command of this version, once where it has two names.
void visit_all_options(const OptionVisitor& visit) {
  for (const commands::CommandInfo& info : commands::command_table()) {
    if (!info.is_implemented) continue;
    const auto command = commands::declare_command(info);
    if (!command.set)
      visit_own_options(info.name, visit);
    else if (command.set->command() == info.name)
      visit(*command.set);
  }
}

constexpr const char* kReferenceTitle = "# Option reference\n\n";
constexpr const char* kReferenceRules =
    "`--flag-name` and `--flag_name` are the same flag; values follow as `--flag value` or\n"
    "`--flag=value`; the last of a repeated flag wins; `--no-flag` clears a flag that takes no value;\n"
    "`none` empties an optional number and `''` an optional text. A recipe (`--config FILE`) is a flat\n"
    "TOML file whose keys are flag names; the command line wins over it.\n";
constexpr const char* kProfileLine =
    "`profile train TASK` takes the options of `train TASK`; it is that command with `--profile`, and "
    "`--profile-step-start` and `--profile-step-end` say which steps are traced.";
constexpr const char* kReferenceRoles =
    "The role of an option of training says how reports compare runs by it:\n\n"
    "- identity: which run it is, how long it lasts, how its ranks meet, where it reads and writes;\n"
    "- setup: model, precision, device, size and batch, which records tell in a form of their own;\n"
    "- schedule: how training proceeds, not what a step has to do; it may follow the size of a run;\n"
    "- configuration: anything else that changes the work of a step: runs that differ are no repeats;\n"
    "- no influence: neither results nor speed of training (logs, checkpoints, evaluation).\n";

std::string reference_markdown() {
  std::string text = std::string(kReferenceTitle) + kReferenceRules + "\n" + kReferenceRoles;
  visit_all_options([&](const core::OptionSet& set) { text += "\n" + set.markdown(); });
  return text;
}

std::string log_formats_rows() {
  std::string text =
      "| `--from` | program | step time | steps that this time is the mean of |\n"
      "|---|---|---|---|\n";
  for (const logs::LogFormatInfo& info : logs::kLogFormats)
    text += fmt::format("| `{}` | {} | {} | {} |\n", info.name, info.program, info.step_time, info.interval);
  return text;
}

std::string checks_rows() {
  std::string text = "| code | fires when |\n|---|---|\n";
  for (const analysis::CheckInfo& info : analysis::known_checks())
    text += fmt::format("| {} {} | {} |\n", info.code, info.names, info.fires_when);
  return text;
}

std::string doctor_rows() {
  std::string text = "| check | finds | exit code of an error |\n|---|---|---|\n";
  for (const doctor::CheckInfo& check : doctor::checks())
    text += fmt::format("| `{}`{} | {} | {} |\n", check.name, check.run == nullptr ? " (`--nodes`)" : "", check.finds,
                        static_cast<int>(check.code));
  return text;
}

/// Why a flag of another program has no option here; "" where `reference` does not list it.
std::string foreign_flag_text(const core::Json& reference, std::string_view name) {
  for (const auto& [list, does] : {std::pair("ignored", "Taken, without effect: "), std::pair("refused", "Refused: ")})
    for (const core::Json& flag : reference.at(list)) {
      if (flag.at("name") != name) continue;
      std::string text = does + flag.at("reason").get<std::string>();
      if (flag.contains("instead")) text += "; " + flag.at("instead").get<std::string>();
      return text + ".";
    }
  return "";
}

std::string openclip_flags_list() {
  const auto clip = commands::declare_command(command_info("train clip"));
  const core::Json reference = clip.set->reference_json();
  std::string text;
  for (const std::string_view name : tasks::openclip_training_flags()) {
    const core::Option* option = clip.set->find(name);
    const std::string what = option != nullptr ? option->spec.help : foreign_flag_text(reference, name);
    text += core::markdown_item(fmt::format("`--{}`: {}", name, what));
  }
  return text;
}

/// Writes FOLDER/options.md, which lists the commands, FOLDER/options/COMMAND.md for each, and tables of the report.
void write_reference_pages(const fs::path& folder) {
  const std::string note = "Written by `lockstep config reference --output docs`; do not edit.\n\n";
  std::string index = kReferenceTitle + note + kReferenceRules + "\n" + kReferenceRoles + "\n## Commands\n\n";
  fs::create_directories(folder / "options");
  visit_all_options([&](const core::OptionSet& set) {
    const std::string file = core::replace_all(set.command(), " ", "_") + ".md";
    const std::string page = core::replace_all("\n" + set.markdown(), "\n##", "\n#").substr(1);
    const size_t end_of_title = page.find('\n') + 2;
    core::write_file_atomic(folder / "options" / file, page.substr(0, end_of_title) + note + page.substr(end_of_title));
    index += core::markdown_item(fmt::format("[`{}`](options/{}): {}", set.command(), file, set.summary()));
  });
  index += core::markdown_item(kProfileLine);
  core::write_file_atomic(folder / "options.md", index);
  core::write_file_atomic(folder / "options/log_formats.md", "# Formats of logs\n\n" + note +
                                                                 "What `lockstep report` reads; how: "
                                                                 "[logs.md](../logs.md).\n\n" +
                                                                 log_formats_rows());
  core::write_file_atomic(folder / "options/report_checks.md",
                          "# Checks of a report\n\n" + note +
                              "How to read their flags: [report.md](../report.md#checks).\n\n" + checks_rows());
  core::write_file_atomic(folder / "options/doctor_checks.md",
                          "# Checks of doctor\n\n" + note +
                              "How to run them and what to do: [doctor.md](../doctor.md).\n\n" + doctor_rows());
  core::write_file_atomic(folder / "options/openclip_flags.md",
                          "# Training flags of OpenCLIP 3.3.0\n\n" + note +
                              "What `lockstep train clip` does with each; results that differ: "
                              "[openclip.md](../openclip.md#what-differs-on-purpose).\n\n" +
                              openclip_flags_list());
}

/// The flags of other programs that this command knows: those that it takes without effect, and those it refuses.
std::string foreign_flags_text(const core::OptionSet& set) {
  constexpr size_t kWidth = 80, kIndent = 6;
  const core::Json reference = set.reference_json();
  const auto list = [&](const char* key, const char* title) {
    std::string text;
    for (const core::Json& flag : reference.at(key)) {
      std::string why = flag.at("reason");
      if (flag.contains("instead")) why += "; " + flag.at("instead").get<std::string>();
      text += fmt::format("  --{}\n", flag.at("name").get<std::string>());
      for (const std::string& line : core::wrap_text(why, kWidth - kIndent))
        text += std::string(kIndent, ' ') + line + "\n";
    }
    return text.empty() ? text : fmt::format("\n{}\n{}", title, text);
  };
  return list("ignored", "Known and without effect") + list("refused", "Known and refused");
}

std::string reference_text() {
  std::string text;
  visit_all_options([&](const core::OptionSet& set) {
    text += (text.empty() ? "" : "\n\n") + set.help_text() + foreign_flags_text(set);
  });
  return text;
}

core::Json reference_json() {
  core::Json json = core::Json::array();
  visit_all_options([&](const core::OptionSet& set) { json.push_back(set.reference_json()); });
  return json;
}

/// The options of a run; as a recipe those that differ from the defaults of its command, or all.
int show_run(const fs::path& run, bool as_json, bool shows_all) {
  core::Json json = core::Json::object();
  const std::string from = (run / "run.json").string();
  const core::Json attempt = attempt_of_run(run), &options = attempt.at("options");
  if (as_json) {
    for (const auto& [name, value] : options.items()) json[name] = {{"value", value}, {"from", from}};
    core::print("{}\n", json.dump(2));
    return 0;
  }
  const commands::CommandInfo* info = commands::find_command("train " + attempt.value("task", std::string()));
  const bool is_known = info != nullptr && info->is_implemented;
  const commands::ParsedCommand command = is_known ? commands::declare_command(*info) : commands::ParsedCommand{};
  const core::Json defaults = command.set ? command.set->values_json() : core::Json(core::Json::object());
  const auto is_argument = [&](const std::string& name) {
    return command.set && std::any_of(command.set->options().begin(), command.set->options().end(),
                                      [&](const core::Option& o) { return o.is_positional && o.name == name; });
  };
  const bool has_folder = options.value("save", std::string()) != "";
  core::print("# {}\n", from);
  for (const auto& [name, value] : options.items()) {
    const bool is_default = defaults.contains(name) && defaults.at(name) == value;
    if (name == "config" || (is_default && !shows_all)) continue;
    const bool follows = has_folder && (name == "logs" || name == "name");  // from --save, which contradicts them
    const std::string flag = core::replace_all(name, "_", "-");
    print_recipe_line(flag, value,
                      is_default          ? "default"
                      : follows           ? "from --save"
                      : is_argument(flag) ? "an argument without a flag"
                                          : "",
                      is_default || follows || is_argument(flag));
  }
  return 0;
}

/// The task that a recipe's name begins with ("gpt_175b.toml": `train gpt`), else the default.
std::string command_of_recipe(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::string command = "train " + name.substr(0, name.find('_'));
  const commands::CommandInfo* info = commands::find_command(command);
  return info != nullptr && info->is_implemented ? command : commands::default_train_command();
}

std::string metrics_text() {
  std::string text;
  for (const record::MetricDef& metric : record::metric_catalogue())
    text += fmt::format("{:<28} {:<10} {:<14} {}\n", metric.name, metric.unit, record::source_name(metric.source),
                        metric.help);
  return text;
}
}  // namespace

int cmd_config_show(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  Args words(args.begin(), args.end());
  const bool is_help = words.size() == 1 && (words[0] == "--help" || words[0] == "-h");
  if (is_help) {
    core::print(
        "Usage: lockstep config show [--all] [--json] [COMMAND] [RECIPE.toml] [FLAGS]\n"
        "       lockstep config show [--all] [--json] RUN\n\n"
        "Shows the options of a command line that differ from their defaults, and where\n"
        "they come from, as a recipe that gives the same options again. With --all, or as\n"
        "--json, all options.\n"
        "COMMAND is `{}` unless given, or named by the recipe's file name\n(gpt_x.toml: `train gpt`); RECIPE.toml "
        "means "
        "--config RECIPE.toml.\n"
        "RUN is the folder of a run (<logs>/<name>): shows the options it had when it\n"
        "last trained.\n",
        commands::default_train_command());
    return 0;
  }
  // The other words are the command line that is shown.
  const auto others = std::stable_partition(
      words.begin(), words.end(), [](const std::string& word) { return word == "--json" || word == "--all"; });
  ShowFlags flags;
  core::OptionSet own = declare_show(flags);
  own.parse(std::span(words.begin(), others));
  words.erase(words.begin(), others);
  if (!words.empty() && words[0] == "--") words.erase(words.begin());  // as behind `doctor` and `launch`
  const auto [shows_all, as_json] = flags;
  if (words.size() == 1 && is_run(words[0])) return show_run(words[0], as_json, shows_all);
  auto recipe =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return core::ends_with(word, ".toml"); });
  if (recipe != words.end() &&
      std::none_of(words.begin(), recipe, [](const std::string& word) { return core::starts_with(word, "-"); }))
    recipe = words.insert(recipe, "--config") + 1;
  if (words.empty() || core::starts_with(words[0], "-")) {
    const Args command =
        core::split(recipe != words.end() ? command_of_recipe(*recipe) : commands::default_train_command(), " ");
    words.insert(words.begin(), command.begin(), command.end());
  }
  const commands::ParsedCommand parsed = commands::parse_flags(words);
  if (!parsed.set)
    throw UsageError(fmt::format("config: `lockstep {}` has no recipe options", parsed.info->name),
                     fmt::format("try `lockstep config show {}`", commands::default_train_command()));
  if (parsed.wants_help) {
    core::print("{}", parsed.set->help_text());
    return 0;
  }
  if (!as_json) {
    print_recipe(*parsed.set, shows_all);
    return 0;
  }
  core::Json json = core::Json::object();
  for (const core::Option& option : parsed.set->options())
    json[core::replace_all(option.name, "-", "_")] = {{"value", option.value_json()}, {"from", option.origin.text()}};
  core::print("{}\n", json.dump(2));
  return 0;
}

int cmd_config_compare(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  CompareFlags flags;
  core::OptionSet set = declare_compare(flags);
  set.parse(args);
  if (set.wants_help()) {
    core::print("{}", set.help_text());
    return 0;
  }
  const core::Json first = options_of(flags.command, flags.first), second = options_of(flags.command, flags.second);
  const auto found = differences(first, second);
  if (flags.as_json) {
    core::Json json = core::Json::object();
    for (const Difference& difference : found)
      json[difference.name] = {{"first", difference.first}, {"second", difference.second}};
    core::print("{}\n", json.dump(2));
    return 0;
  }
  if (found.empty()) core::print("Both set the same options to the same values.\n");
  for (const Difference& difference : found)
    core::print("{:<30} {:<28} {}\n", core::replace_all(difference.name, "_", "-"), value_text(difference.first),
                value_text(difference.second));
  return 0;
}

int cmd_config_reference(const commands::ParsedCommand& parsed_command) {
  const std::span<const std::string> args = parsed_command.rest;
  ReferenceFlags flags;
  core::OptionSet set = declare_reference(flags);
  set.parse(args);
  if (set.wants_help())
    core::print("{}", set.help_text());
  else if (!flags.output.empty())
    write_reference_pages(flags.output);
  else if (flags.as_json || flags.format == "json")
    core::print("{}\n", (flags.metrics ? record::metrics_json() : reference_json()).dump(2));
  else if (flags.format == "markdown")
    core::print("{}", flags.metrics ? record::metrics_markdown() : reference_markdown());
  else
    core::print("{}", flags.metrics ? metrics_text() : reference_text());
  return 0;
}

}  // namespace lockstep::cli
