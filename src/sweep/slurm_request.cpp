#include "sweep/slurm_request.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {
/// How a key of [slurm] becomes an option.
enum class Use { kSbatchText, kSbatchFlag, kSrunText, kOwn };
struct Key {
  const char* name;
  Use use;
};
constexpr std::array kKeys{Key{"account", Use::kSbatchText},
                           Key{"partition", Use::kSbatchText},
                           Key{"qos", Use::kSbatchText},
                           Key{"reservation", Use::kSbatchText},
                           Key{"constraint", Use::kSbatchText},
                           Key{"gres", Use::kSbatchText},
                           Key{"gpus-per-node", Use::kSbatchText},
                           Key{"mem", Use::kSbatchText},
                           Key{"hint", Use::kSbatchText},
                           Key{"nodelist", Use::kSbatchText},
                           Key{"exclude", Use::kSbatchText},
                           Key{"switches", Use::kSbatchText},
                           Key{"licenses", Use::kSbatchText},
                           Key{"exclusive", Use::kSbatchFlag},
                           Key{"contiguous", Use::kSbatchFlag},
                           Key{"wait-all-nodes", Use::kSbatchFlag},
                           Key{"cpu-bind", Use::kSrunText},
                           Key{"gpu-bind", Use::kSrunText},
                           Key{"accel-bind", Use::kSrunText},
                           Key{"mem-bind", Use::kSrunText},
                           Key{"time", Use::kOwn},
                           Key{"cpus-per-task", Use::kOwn},
                           Key{"requeue", Use::kOwn},
                           Key{"max-requeues", Use::kOwn},
                           Key{"stop-before-end", Use::kOwn},
                           Key{"sbatch", Use::kOwn},
                           Key{"srun", Use::kOwn},
                           Key{"setup", Use::kOwn}};

/// An option that the sweep writes itself.
struct OwnOption {
  const char* name;
  char letter;  ///< Its short form; '\0': none.
  const char* hint;
  bool is_of_srun = false;  ///< A step has it, too: ranks that differ from the job's are not those of the point.
};
constexpr std::array kOwnOptions{OwnOption{"nodes", 'N', "use 'axes.nodes'", true},
                                 OwnOption{"ntasks-per-node", '\0', "use 'ranks-per-node'", true},
                                 OwnOption{"ntasks", 'n', "use 'ranks-per-node'", true},
                                 OwnOption{"cpus-per-task", 'c', "use 'cpus-per-task'", true},
                                 OwnOption{"job-name", 'J', "use 'name'"},
                                 OwnOption{"output", 'o', "use 'out'"},
                                 OwnOption{"error", 'e', "use 'out'"},
                                 OwnOption{"open-mode", '\0', "leave it out: logs are appended to"},
                                 OwnOption{"time", 't', "use 'time'"},
                                 OwnOption{"signal", '\0', "use 'stop-before-end'"},
                                 OwnOption{"requeue", '\0', "use 'requeue'"},
                                 OwnOption{"no-requeue", '\0', "use 'requeue'"},
                                 OwnOption{"array", 'a', "use 'submit.how'"},
                                 OwnOption{"dependency", 'd', "use 'submit.how'"},
                                 OwnOption{"comment", '\0', "leave it out: the sweep finds its jobs by it; use [tags]"},
                                 OwnOption{"chdir", 'D', "start the sweep in that folder, or use 'setup'"}};

/// An option as it is typed, in its parts.
struct TypedOption {
  std::string name{};                  ///< With its dashes.
  std::optional<std::string> value{};  ///< What stands behind '=' or a blank.
  bool is_long() const { return core::starts_with(name, "--"); }
};

/// "--mpi=none", "--mpi none", "-m block"; quotes around a whole value are the shell's.
TypedOption typed_option(const std::string& line) {
  const bool is_long = core::starts_with(line, "--");
  const size_t end = line.find_first_of(is_long ? "= \t" : " \t");
  if (end == std::string::npos) return {.name = line};
  std::string value(line[end] == '=' ? std::string_view(line).substr(end + 1)
                                     : core::trim(std::string_view(line).substr(end)));
  const bool is_quoted = value.size() > 1 && (value[0] == '\'' || value[0] == '"') && value.back() == value[0] &&
                         value.find(value[0], 1) == value.size() - 1;
  if (is_quoted) value = value.substr(1, value.size() - 2);
  return {.name = line.substr(0, end), .value = value};
}

/// The option that this one sets in any spelling: SLURM takes short forms ("-N2") and beginnings of names ("--out").
const OwnOption* own_option(const TypedOption& typed, bool is_of_srun) {
  constexpr size_t kShortestBeginning = 3;
  const std::string name = typed.name.substr(typed.is_long() ? 2 : 1);
  for (const OwnOption& own : kOwnOptions) {
    if (is_of_srun && !own.is_of_srun) continue;
    const bool is_begin = name.size() >= kShortestBeginning && core::starts_with(own.name, name);
    if (typed.is_long() ? is_begin : own.letter != '\0' && core::starts_with(name, std::string(1, own.letter)))
      return &own;
  }
  return nullptr;
}

class RequestReader {
 public:
  RequestReader(const PointScope& scope, const std::string& path, bool can_save)
      : scope_(scope), path_(path), can_save_(can_save) {
    if (!can_save) request_.stop_before_end_s = 0;
  }

  void add(const Setting& setting) {
    const Use use = use_of(setting);
    if (is_variable_without_value(setting)) return;
    if (use == Use::kSbatchText) request_.sbatch.push_back(option(setting));
    if (use == Use::kSrunText) request_.srun.push_back(option(setting));
    if (use == Use::kSbatchFlag && flag(setting))
      request_.sbatch.push_back(setting.key == "wait-all-nodes" ? "--wait-all-nodes=1" : "--" + setting.key);
    if (use == Use::kOwn) add_own(setting);
  }
  SlurmRequest result() {
    if (request_.time_limit_s > 0 && request_.stop_before_end_s >= request_.time_limit_s)
      throw UsageError(
          fmt::format("sweep: {}: the signal for the last checkpoint comes {} s before the end of a job of {} s", path_,
                      request_.stop_before_end_s, request_.time_limit_s),
          "set a smaller slurm.stop-before-end, in seconds, or a longer slurm.time");
    return std::move(request_);
  }

 private:
  [[noreturn]] void fail(const Setting& setting, const std::string& message, const std::string& hint) const {
    throw UsageError(fmt::format("sweep: {}:{}: slurm key '{}' {}", path_, setting.line, setting.key, message), hint);
  }
  Use use_of(const Setting& setting) const {
    std::vector<std::string> names;
    for (const Key& key : kKeys) {
      if (setting.key == key.name) return key.use;
      names.emplace_back(key.name);
    }
    const auto nearest = core::nearest_name(setting.key, names);
    fail(setting, "is unknown",
         nearest
             ? fmt::format("did you mean '{}'? Other options go into 'sbatch' or 'srun', as they are typed", *nearest)
             : "other options go into 'sbatch' or 'srun', as they are typed: sbatch = [\"--mail-type=END\"]");
  }
  /// gres = "${GRES}" with an empty GRES: sites differ in what they ask for.
  bool is_variable_without_value(const Setting& setting) const {
    const auto* text = setting.is_list ? nullptr : std::get_if<std::string>(&setting.values[0]);
    return text != nullptr && core::starts_with(*text, "${") && scope_.text_of(setting).empty();
  }
  std::string checked(const Setting& setting, const std::string& text) const {
    if (core::has_control_character(core::replace_all(text, "\t", " ")) || text.empty())
      fail(setting, "is empty or has a line break or another control character", "give one line");
    return text;
  }
  std::string option(const Setting& setting) const {
    return fmt::format("--{}={}", setting.key, checked(setting, scope_.text_of(setting)));
  }
  bool flag(const Setting& setting) const {
    const auto* value = std::get_if<bool>(&setting.values[0]);
    if (setting.is_list || value == nullptr)
      fail(setting, fmt::format("is '{}', expected true or false", to_text(setting.values[0])), "without quotes");
    return *value;
  }
  int64_t count(const Setting& setting, int64_t lowest) const {
    const double value = scope_.number_of(setting);
    if (!is_whole(value) || value < static_cast<double>(lowest) || value > 1e6)
      fail(setting, fmt::format("is {}, expected a whole number from {} on", to_text(value), lowest),
           "a formula must give a whole number at every point");
    return static_cast<int64_t>(value);
  }
  int64_t stop_before_end(const Setting& setting) const {
    if (!can_save_) fail(setting, "is for commands that save a checkpoint", "leave it out");
    return count(setting, 0);
  }
  std::vector<std::string> lines(const Setting& setting) const {
    std::vector<std::string> list;
    for (const Scalar& value : scope_.values_of(setting, false)) list.push_back(checked(setting, to_text(value)));
    return list;
  }
  void add_own(const Setting& setting) {
    if (setting.key == "time")
      request_.time_limit_s =
          parse_time_limit(scope_.text_of(setting), fmt::format("{}:{}: 'time'", path_, setting.line));
    else if (setting.key == "cpus-per-task")
      request_.cpus_per_task = count(setting, 1);
    else if (setting.key == "requeue")
      request_.can_requeue = flag(setting);
    else if (setting.key == "max-requeues")
      request_.max_requeues = count(setting, 0);
    else if (setting.key == "stop-before-end")
      request_.stop_before_end_s = stop_before_end(setting);
    else if (setting.key == "setup")
      request_.setup = lines(setting);
    else if (setting.key == "srun")
      add_srun_words(setting);
    else
      add_sbatch_lines(setting);
  }
  /// The options of a list "as they are typed".
  std::vector<TypedOption> typed_options(const Setting& setting) const {
    const bool is_of_srun = setting.key == "srun";
    std::vector<TypedOption> list;
    for (const std::string& line : lines(setting)) {
      if (!core::starts_with(line, "-") || line.size() < 2)
        fail(setting,
             fmt::format("has the line '{}', expected options such as \"{}\"", line,
                         is_of_srun ? "--mpi=none" : "--mail-type=END"),
             is_of_srun ? "an option and its value are one text" : "leave out '#SBATCH'");
      list.push_back(typed_option(line));
      if (const OwnOption* own = own_option(list.back(), is_of_srun))
        fail(setting, fmt::format("sets --{}, which the sweep writes itself: '{}'", own->name, line), own->hint);
    }
    return list;
  }
  void add_sbatch_lines(const Setting& setting) {
    for (const TypedOption& option : typed_options(setting)) {
      const char* between = option.is_long() ? "=" : " ";
      request_.sbatch.push_back(option.value ? option.name + between + *option.value : option.name);
    }
  }
  void add_srun_words(const Setting& setting) {
    for (const TypedOption& option : typed_options(setting)) {
      const bool is_one_word = option.is_long() && option.value;
      request_.srun.push_back(is_one_word ? option.name + "=" + *option.value : option.name);
      if (option.value && !is_one_word) request_.srun.push_back(*option.value);
    }
  }

  const PointScope& scope_;
  const std::string& path_;
  bool can_save_;
  SlurmRequest request_;
};
}  // namespace

SlurmRequest make_slurm_request(const std::vector<Setting>& settings, const PointScope& scope, const std::string& path,
                                bool can_save) {
  RequestReader reader(scope, path, can_save);
  for (const Setting& setting : settings) reader.add(setting);
  return reader.result();
}

int64_t parse_time_limit(const std::string& text, const std::string& where) {
  const auto refuse = [&] {
    throw UsageError(
        fmt::format("sweep: {}: '{}' is no time, expected HH:MM:SS, D-HH:MM:SS, MM:SS, or minutes", where, text),
        "for example \"00:15:00\", \"1-12:00:00\", \"90m\" or \"2h\"");
  };
  constexpr int64_t kMaxDays = 3660;
  std::string_view rest = core::trim(text);
  const std::string_view units = "smh";
  const size_t unit = rest.empty() ? std::string_view::npos : units.find(rest.back());
  if (unit != std::string_view::npos) {
    const auto count = core::parse_int(rest.substr(0, rest.size() - 1));
    constexpr std::array<int64_t, 3> kSeconds{1, 60, 3600};
    if (!count || *count < 1 || *count > kMaxDays * 86400) refuse();
    return *count * kSeconds[unit];
  }
  const size_t dash = rest.find('-');
  const auto days = dash == std::string_view::npos ? std::optional<int64_t>(0) : core::parse_int(rest.substr(0, dash));
  const auto parts = core::split(dash == std::string_view::npos ? rest : rest.substr(dash + 1), ":");
  std::vector<int64_t> numbers;
  for (const std::string& part : parts) numbers.push_back(core::parse_int(part).value_or(-1));
  if (!days || *days < 0 || *days > kMaxDays || numbers.size() > 3) refuse();
  for (const int64_t number : numbers)
    if (number < 0 || number > kMaxDays * 1440) refuse();
  // SLURM's forms: M, M:S, H:M:S; with days D-H, D-H:M, D-H:M:S.
  const bool has_days = dash != std::string_view::npos;
  int64_t seconds = *days * 86400;
  if (has_days || numbers.size() == 3) {
    constexpr std::array<int64_t, 3> kUnits{3600, 60, 1};
    for (size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * kUnits[i];
  } else {
    seconds += numbers[0] * 60 + (numbers.size() == 2 ? numbers[1] : 0);
  }
  if (seconds < 1) refuse();
  return seconds;
}

std::string time_limit_text(int64_t seconds) {
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", seconds % 86400 / 3600, seconds % 3600 / 60, seconds % 60);
  return seconds < 86400 ? clock : fmt::format("{}-{}", seconds / 86400, clock);
}

}  // namespace lockstep::sweep
