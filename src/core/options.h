#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace lockstep::core {

/// Where the value of an option came from.
struct Origin {
  enum class Kind { kDefault, kDerived, kFile, kCommandLine };
  Kind kind = Kind::kDefault;
  std::string file = {};  ///< kFile: path of the recipe as the user gave it; kDerived: from what.
  int64_t line = 0;       ///< kFile: counted from 1.

  std::string text() const;  ///< "default", "from the model name", "recipe.toml:3", "command line"
};

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// What an option says about a run: reports compare runs by it (docs/options).
enum class OptionRole {
  kIdentity,  ///< Which run it is, how long it lasts, how its ranks meet, where it reads and writes.
  kSchedule,  ///< How training proceeds, not what a step has to do: may follow the size of a run.
  kSetup,     ///< Model, precision, device, size and batch, which the setup of a record tells in a form of its own.
  kConfiguration,  ///< Anything else that changes the work of a step: runs that differ in it are no repeats.
  kNoInfluence     ///< Neither results nor speed of training: logs, checkpoints, evaluation.
};
std::string role_name(OptionRole role);  ///< "identity", "no influence"

/// What a declaration says beyond the name and the field.
struct OptionSpec {
  std::optional<OptionRole> role = {};  ///< Must be given where the set requires it.
  std::string help = {};
  std::string unit = {};        ///< "steps", "samples per rank"; shown in help and in error messages.
  std::string metavar = {};     ///< Placeholder of the value in help; default by type.
  std::string group = {};       ///< Heading in help; default: the last OptionSet::group().
  std::string unset_text = {};  ///< What help shows as default while the field is empty; default "none".
  std::optional<double> min = {}, max = {};
  bool is_min_excluded = false, is_max_excluded = false;
  std::vector<std::string> choices = {};  ///< Text options only.
  TextPairs choice_aliases = {};          ///< {typed, stored}
  TextPairs refused_choices = {};         ///< {typed, what to do instead}
  std::vector<std::string> aliases = {};  ///< Other names; one character: a short flag.
};

/// One declared option. Its field lives in a plain struct of the caller.
struct Option {
  using Target =
      std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*, std::optional<double>*,
                   std::optional<std::string>*, std::vector<std::string>*, std::vector<int64_t>*, std::vector<double>*>;
  std::string name;  ///< Flag without dashes, words joined by '-'.
  Target target;
  OptionSpec spec;
  bool is_positional = false;
  Origin origin = {};
  std::string default_text = {};  ///< The field's value when it was declared, as help shows it.

  bool is_flag() const { return std::holds_alternative<bool*>(target); }
  bool takes_list() const { return target.index() >= 7; }  // the vectors stand last in Target
  std::string value_text() const;     ///< Present value as Python prints it: 0.0005, True, None, ['a', 'b'].
  Json value_json() const;            ///< Present value; null when empty.
  std::string expected_text() const;  ///< "an integer >= 1 (samples per rank)", "amp, bf16 or fp32"
  std::string metavar() const;
};

/// The options of one command, declared once; gives parsing, recipe files, help, listings and the reference.
///
/// Command line: --flag-name and --flag_name are the same, values as "--flag value" or "--flag=value", the last of a
/// repeated flag wins, list options take every value up to the next flag, "--no-x" clears flag x, "--" ends the flags.
/// Empty optional numbers are written "none", empty optional texts ''. Recipes (--config FILE) are flat TOML whose keys
/// are flag names; the command line wins over them. Every refused input throws UsageError that names the flag or
/// file:line, the value seen and what was expected. Flags and values that are wrong are told all at once.
class OptionSet {
 public:
  /// `command` as typed after the program ("train clip"), `summary`: one sentence for help.
  OptionSet(std::string command, std::string summary);

  /// Heading for the options that follow.
  void group(std::string title) { group_ = std::move(title); }
  /// From here on every option must have a role: its runs leave records.
  void require_roles() { requires_roles_ = true; }
  /// Declares --name for a field, which must outlive the set; the field's present value is the default.
  void add(std::string name, Option::Target target, OptionSpec spec);
  /// Arguments without a flag, taken in the order of declaration. A text is required unless its default is non-empty; a
  /// list takes all that is left and needs at least one.
  void add_positional(std::string name, Option::Target target, OptionSpec spec);
  /// Declares --config FILE.
  void add_config_option();
  /// A flag that other programs know and this one does not support: refused with `reason` and the hint `instead`. With
  /// a value of `off` it asks for what is the case anyway, and is taken.
  void refuse(std::string name, std::string reason, std::string instead, std::vector<std::string> off = {});
  /// A flag by which other programs tune or name parts that only they have: taken, and told by ignored_warning().
  /// Behind it all words up to the next flag are its values, or none are.
  void ignore(std::string name, std::string reason, bool takes_values);

  /// Sets the fields. With --help or -h among the flags only wants_help() is set and nothing is checked.
  void parse(std::span<const std::string> args);
  /// Sets fields from the text of a recipe, except those that the command line has set; `path` names it in errors and
  /// origins.
  void apply_recipe(std::string_view text, const std::string& path);
  /// One line that names the flags given that ignore() declared; empty where there are none.
  std::string ignored_warning() const;
  bool wants_help() const { return wants_help_; }

  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  std::span<const Option> options() const { return options_; }
  /// The option of this name or alias (either spelling), or nullptr.
  const Option* find(std::string_view name) const;
  /// Does a value follow the flag of this name or alias? So it is for refused ones, too; unknown ones have none.
  bool takes_value(std::string_view name) const;
  /// Was the option set by the user (recipe or command line)?
  bool is_given(std::string_view name) const;
  /// Notes that the field was filled from something else ("the model name").
  void mark_derived(std::string_view name, std::string from_what);

  std::string help_text(size_t width = 80) const;
  Json values_json() const;      ///< {"batch_size": 64, ...} in the order of declaration.
  std::string markdown() const;  ///< One list per group.
  Json reference_json() const;   ///< Every option with type, default, unit, range, choices, help.

 private:
  /// A flag of other programs that has no field.
  struct ForeignFlag {
    std::string reason, instead = {};
    std::vector<std::string> off = {};
    bool is_ignored = false, takes_values = true;
  };
  /// One flag of the command line with its values, not yet checked.
  struct Occurrence {
    Option* option;
    std::string label;
    std::vector<std::string> values;
  };

  Option* find_mutable(std::string_view name);
  void index_name(const std::string& name, size_t index);
  void check_declaration(const Option& option) const;
  void add_foreign(std::string name, ForeignFlag flag);
  std::optional<Occurrence> take_flag(std::span<const std::string> args, size_t& at);
  std::vector<Occurrence> take_args(std::span<const std::string> args, std::vector<std::string>& positionals,
                                    UsageProblems& problems);
  void set_values(Option& option, std::span<const std::string> values, const Origin& origin, const std::string& label);
  void set_positionals(std::vector<std::string> values);
  [[noreturn]] void throw_unknown(const std::string& label, const std::string& name) const;
  bool is_foreign(const std::string& name, const std::string& label, std::span<const std::string> values);
  void collect_recipe(std::string_view text, const std::string& path, UsageProblems& problems);

  std::string command_, summary_, group_ = "Options";
  std::vector<Option> options_;
  std::map<std::string, size_t, std::less<>> index_;  // names and aliases
  std::map<std::string, ForeignFlag, std::less<>> foreign_;
  std::vector<std::string> ignored_;                                            // as given, in this order
  std::unique_ptr<std::string> config_path_ = std::make_unique<std::string>();  // its address stays when the set moves
  bool wants_help_ = false, requires_roles_ = false;
};

}  // namespace lockstep::core
