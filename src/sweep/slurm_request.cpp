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

/// Options of sbatch that the sweep writes itself, with the key that sets them.
constexpr std::array<std::pair<const char*, const char*>, 11> kOwnSbatch{{{"nodes", "axes.nodes"},
                                                                          {"ntasks-per-node", "ranks-per-node"},
                                                                          {"ntasks", "ranks-per-node"},
                                                                          {"job-name", "name"},
                                                                          {"output", "out"},
                                                                          {"error", "out"},
                                                                          {"open-mode", "out"},
                                                                          {"time", "time"},
                                                                          {"signal", "stop-before-end"},
                                                                          {"array", "submit.how"},
                                                                          {"dependency", "submit.how"}}};

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
      append(request_.srun, lines(setting));
    else
      add_sbatch_lines(setting);
  }
  static void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }
  void add_sbatch_lines(const Setting& setting) {
    for (const std::string& line : lines(setting)) {
      if (!core::starts_with(line, "-"))
        fail(setting, fmt::format("has the line '{}', expected options such as \"--mail-type=END\"", line),
             "leave out '#SBATCH'");
      const std::string name = line.substr(2, line.find_first_of("= ") - 2);
      for (const auto& [own, key] : kOwnSbatch)
        if (core::starts_with(line, "--") && name == own)
          fail(setting, fmt::format("sets --{}, which the sweep writes itself", own), fmt::format("use '{}'", key));
      request_.sbatch.push_back(line);
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
