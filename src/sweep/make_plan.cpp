#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "commands/commands.h"
#include "config/contrastive_shape.h"
#include "core/error_lines.h"
#include "core/hash.h"
#include "core/print.h"
#include "core/rng.h"
#include "core/strings.h"
#include "sweep/points.h"
#include "sweep/slurm_request.h"

namespace lockstep::sweep {
namespace {
constexpr size_t kMaxShownMisfits = 5;

/// One coordinate of a point: which value of which axis.
struct Coordinate {
  std::string key;
  Scalar value;
};

class Planner {
 public:
  Planner(const SweepFile& file, const VariableLookup& variables) : file_(file), variables_(variables) {}

  Plan make() {
    plan_.name = inserted(file_.name, "'name'");
    plan_.out = inserted(file_.out, "'out'");
    plan_.program = inserted(file_.program, "'program'");
    if (plan_.name.find_first_of("/ ") != std::string::npos || core::has_control_character(plan_.name) ||
        plan_.name[0] == '.')
      throw UsageError(fmt::format("sweep: {}: the name '{}' is no folder name", file_.path, plan_.name),
                       "use letters, digits, '-', '_' and '.'");
    for (const std::string& word : core::split(core::trim(inserted(file_.command, "'command'")), " "))
      if (!word.empty()) plan_.command.push_back(word);
    const commands::CommandInfo* info = commands::find_command(core::join(plan_.command, " "));
    if (info == nullptr) commands::parse_flags(plan_.command);  // refuses it with the nearest name
    LOCKSTEP_CHECK(info != nullptr, "command '{}'", core::join(plan_.command, " "));
    declared_ = commands::declare_command(*info);
    plan_.result = result_kind(info->name, file_.path);
    check_sections();
    plan_.scaling = file_.scaling;
    plan_.how = file_.how;
    plan_.in_flight = file_.in_flight;
    plan_.billing_unit = file_.billing_unit;
    plan_.billing_per_node_hour = file_.billing_per_node_hour;
    insert_axes();
    check_keys();
    expand();
    check_scaling();
    refuse_misfits();
    choose_order();
    return std::move(plan_);
  }

 private:
  std::string inserted(const std::string& text, const std::string& key) const {
    const std::string where = fmt::format("{}: {}", file_.path, key);
    return substitute(text, where,
                      [&](const std::string& inside) -> Scalar { return variable_text(inside, where, variables_); });
  }
  /// Flags stand under the name of what they are flags of; weak and strong scaling are of training.
  void check_sections() const {
    const std::string_view own = flags_section(plan_.result);
    if (!file_.flags_section.empty() && file_.flags_section != own)
      throw UsageError(fmt::format("sweep: {}:{}: [{}] holds flags, and the command is '{}'", file_.path,
                                   file_.flags_line, file_.flags_section, core::join(plan_.command, " ")),
                       fmt::format("write [{}], or set another command", own));
    if (plan_.result == ResultKind::kBenchDocument && file_.scaling != Scaling::kFree)
      throw UsageError(fmt::format("sweep: {}: 'scaling' is of training, the command is '{}'", file_.path,
                                   core::join(plan_.command, " ")),
                       "leave it out");
  }
  void check_key(const std::string& key, int64_t line) {
    if (const char* reason = reason_against_flag(plan_.result, key))
      throw UsageError(fmt::format("sweep: {}:{}: '{}' is not for a sweep file: {}", file_.path, line, key, reason),
                       "leave it out");
    if (declared_.set->find(key) != nullptr) return;
    std::vector<std::string> words = plan_.command;
    words.push_back("--" + key);
    try {
      commands::parse_flags(words);  // unknown or refused: says so with the nearest name or the reason
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("sweep: {}:{}: {}", file_.path, line, error.what()), error.hint());
    }
  }
  void check_keys() {
    std::vector<const Sections*> sections{&file_.base};
    for (const Case& one : file_.cases) sections.push_back(&one.sections);
    for (const WhenBlock& block : file_.whens) sections.push_back(&block.sections);
    for (const Axis& axis : file_.axes) {
      const bool is_env = core::starts_with(axis.key, "env.");
      if (axis.key != "nodes" && !is_env) check_key(axis.key, axis.line);
      for (const Sections* one : sections) {
        const auto& settings = is_env ? one->env : one->flags;
        for (const Setting& setting : settings)
          if (setting.key == (is_env ? axis.key.substr(4) : axis.key))
            throw UsageError(fmt::format("sweep: {}:{}: '{}' is an axis (line {}) and set here too", file_.path,
                                         setting.line, setting.key, axis.line),
                             "keep one; what depends on the axis can be a formula or stand in a 'when' block");
      }
    }
    for (const Sections* one : sections)
      for (const Setting& setting : one->flags) check_key(setting.key, setting.line);
  }

  /// Axes written as one text with variables, which may turn out to be ranges.
  void insert_axes() {
    for (Axis& axis : file_.axes) {
      const auto* text = axis.values.size() == 1 ? std::get_if<std::string>(&axis.values[0]) : nullptr;
      if (text == nullptr || text->find("${") == std::string::npos) continue;
      const std::string where = fmt::format("{}:{}: '{}'", file_.path, axis.line, axis.key);
      axis.values = axis_values(axis.key, inserted(*text, fmt::format("'{}'", axis.key)), where);
    }
  }

  void expand() {
    double num_points = static_cast<double>(file_.repeats);  // of whole numbers, products of many axes would overflow
    for (const Axis& axis : file_.axes) {
      plan_.axis_keys.push_back(axis.key);
      num_points *= static_cast<double>(axis.values.size());
    }
    if (!file_.cases.empty()) plan_.axis_keys.insert(plan_.axis_keys.begin(), "case");
    num_points *= static_cast<double>(std::max<size_t>(1, file_.cases.size()));
    if (num_points > kMaxPoints)
      throw UsageError(
          fmt::format("sweep: {}: the axes make {} points, at most {} are allowed", file_.path, num_points, kMaxPoints),
          "split the sweep");
    std::vector<Coordinate> coordinates;
    if (file_.cases.empty()) expand_axes(0, nullptr, coordinates);
    for (const Case& one : file_.cases) {
      coordinates.push_back({"case", one.name});
      expand_axes(0, &one, coordinates);
      coordinates.pop_back();
    }
    if (plan_.points.empty() && misfits_.empty())
      throw UsageError(fmt::format("sweep: {}: every point is left out by a 'when' block with skip = true", file_.path),
                       "loosen a condition");
  }
  void expand_axes(size_t axis, const Case* one, std::vector<Coordinate>& coordinates) {
    if (axis == file_.axes.size()) {
      for (int64_t repeat = 1; repeat <= file_.repeats; ++repeat) add_point(coordinates, one, repeat);
      return;
    }
    for (const Scalar& value : file_.axes[axis].values) {
      const auto* text = std::get_if<std::string>(&value);
      const Scalar resolved =
          text == nullptr ? value : Scalar(inserted(*text, fmt::format("'{}'", file_.axes[axis].key)));
      coordinates.push_back({file_.axes[axis].key, resolved});
      expand_axes(axis + 1, one, coordinates);
      coordinates.pop_back();
    }
  }

  int64_t whole(double value, const std::string& what, int64_t highest) const {
    if (!is_whole(value) || value < 1 || value > static_cast<double>(highest))
      throw UsageError(fmt::format("sweep: {}: {} is {}, expected a whole number from 1 to {}", file_.path, what,
                                   to_text(value), highest),
                       "change the formula or the axis");
    return static_cast<int64_t>(value);
  }

  void add_point(const std::vector<Coordinate>& coordinates, const Case* one, int64_t repeat) {
    PointScope scope(file_, *declared_.set, variables_);
    Point point{.index = static_cast<int64_t>(plan_.points.size()) + 1, .repeat = repeat};
    for (const auto& [key, value] : coordinates) {
      if (core::has_control_character(to_text(value)))
        throw UsageError(fmt::format("sweep: {}: the value '{}' of '{}' has a line break or another control character",
                                     file_.path, to_text(value), key),
                         "values of axes and names of cases are one line, also where a variable gives them");
      scope.set_coordinate(key, value);
      point.axes.emplace_back(key, value);
      if (key != "nodes") continue;
      const auto* number = std::get_if<double>(&value);
      if (number == nullptr)
        throw UsageError(fmt::format("sweep: {}: nodes is '{}', expected numbers", file_.path, to_text(value)),
                         "for example nodes = \"1-64*2\"");
      point.nodes = whole(*number, "nodes", 1'000'000);
    }
    scope.set_coordinate("nodes", static_cast<double>(point.nodes));
    scope.set_coordinate("repeat", static_cast<double>(repeat));
    if (!file_.ranks_per_node.values.empty())
      point.ranks_per_node = whole(scope.number_of(file_.ranks_per_node), "ranks-per-node", 4096);
    scope.set_coordinate("ranks-per-node", static_cast<double>(point.ranks_per_node));
    scope.set_coordinate("ranks", static_cast<double>(point.num_ranks()));
    std::vector<const Sections*> levels{&file_.base};
    if (one != nullptr) levels.push_back(&one->sections);
    for (const WhenBlock& block : file_.whens) {
      if (!scope.holds(block)) continue;
      if (block.skip) return;
      levels.push_back(&block.sections);
    }
    fill(point, levels, scope);
    point.name = point_name(point);
    check(point);
    plan_.points.push_back(std::move(point));
  }

  /// The settings of one kind over all levels, later ones winning.
  static std::vector<Setting> merged(const std::vector<const Sections*>& levels, std::vector<Setting> Sections::*kind) {
    std::vector<Setting> list;
    for (const Sections* level : levels)
      for (const Setting& setting : level->*kind) {
        const auto same =
            std::find_if(list.begin(), list.end(), [&](const Setting& other) { return other.key == setting.key; });
        if (same == list.end())
          list.push_back(setting);
        else
          *same = setting;
      }
    return list;
  }

  void fill(Point& point, const std::vector<const Sections*>& levels, PointScope& scope) {
    scope.set_settings(merged(levels, &Sections::flags));
    for (const auto& [key, value] : point.axes) {
      const bool is_flag = key != "nodes" && key != "case" && !core::starts_with(key, "env.");
      if (is_flag) add_flag(key, {value}, false, point.flags);
      if (core::starts_with(key, "env.")) point.env.emplace_back(key.substr(4), to_text(value));
    }
    for (const Setting& setting : scope.settings())
      add_flag(setting.key, scope.values_of(setting, scope.is_formula_option(setting.key)), setting.is_list,
               point.flags);
    for (const Setting& setting : merged(levels, &Sections::env))
      point.env.emplace_back(setting.key, scope.text_of(setting));
    for (const auto& [name, value] : point.env) {
      check_variable(name, value);
      warn_of_shell_text(name, value);
    }
    point.slurm =
        make_slurm_request(merged(levels, &Sections::slurm), scope, file_.path, plan_.result == ResultKind::kRunRecord);
    for (const Setting& setting : merged(levels, &Sections::tags)) point.tags[setting.key] = scope.text_of(setting);
  }
  void check_variable(const std::string& name, const std::string& value) const {
    const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_';
    }) && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    if (!is_name || core::has_control_character(core::replace_all(value, "\t", " ")))
      throw UsageError(fmt::format("sweep: {}: environment variable '{}' has a name or a value that a shell cannot set",
                                   file_.path, name),
                       "names hold letters, digits and '_'; values are one line");
  }
  /// Values are literal: "/opt/bin:$PATH" would be the whole search path, and srun not found.
  void warn_of_shell_text(const std::string& name, const std::string& value) {
    const auto begins_name = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_' || c == '{'; };
    bool has_name = false;
    for (size_t at = value.find('$'); at != std::string::npos; at = value.find('$', at + 1))
      has_name = has_name || (at + 1 < value.size() && begins_name(static_cast<unsigned char>(value[at + 1])));
    const std::string warning = fmt::format(
        "environment variable {0} is the text '{1}' as it stands, no shell reads it; where a variable of the job is "
        "meant: [slurm] setup = ['export {0}=\"{1}\"'] ($${{NAME}} for ${{NAME}})",
        name, value);
    if (has_name && std::count(plan_.warnings.begin(), plan_.warnings.end(), warning) == 0)
      plan_.warnings.push_back(warning);
  }
  /// A recipe is looked for beside the sweep file, then in the working folder.
  std::string recipe_path(const std::string& name) const {
    const std::filesystem::path beside = (std::filesystem::path(file_.path).parent_path() / name).lexically_normal();
    std::error_code ignored;
    return std::filesystem::exists(beside, ignored) ? beside.string() : name;
  }
  void add_flag(const std::string& key, const std::vector<Scalar>& values, bool is_list,
                std::vector<std::string>& flags) const {
    if (const auto* flag = std::get_if<bool>(&values[0]); flag != nullptr && !is_list) {
      flags.push_back((*flag ? "--" : "--no-") + key);
    } else if (!is_list) {
      flags.push_back(
          fmt::format("--{}={}", key, key == "config" ? recipe_path(to_text(values[0])) : to_text(values[0])));
    } else {
      flags.push_back("--" + key);
      for (const Scalar& value : values) flags.push_back(to_text(value));
    }
  }

  static std::string point_name(const Point& point) {
    std::string name = fmt::format("{:04}", point.index);
    for (const auto& [key, value] : point.axes) name += fmt::format("-{}_{}", key, to_text(value));
    if (point.axes.empty() || point.repeat > 1) name += fmt::format("-repeat_{}", point.repeat);
    constexpr size_t kMaxName = 120;
    for (char& c : name)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
    if (name.size() <= kMaxName) return name;
    constexpr size_t kHashDigits = 8;  // long values often differ at their end alone
    const std::string hash = core::xxh3_hex(name.substr(name.find('-')));  // without the number
    return name.substr(0, kMaxName - kHashDigits - 1) + "-" + hash.substr(0, kHashDigits);
  }

  /// Parses the point's command line as the engine will; what does not fit is noted.
  void check(Point& point) {
    std::vector<std::string> words = plan_.command;
    words.insert(words.end(), point.flags.begin(), point.flags.end());
    try {
      const commands::ParsedCommand parsed = commands::parse_command(words);
      if (parsed.bench) commands::check_bench_ranks(*parsed.bench, point.num_ranks());
      if (parsed.task) {
        const plan::BatchPlan batch = parsed.task->batch_plan(*parsed.set, point.num_ranks());
        point.samples_per_replica = batch.samples_per_replica();
        point.global_batch = batch.global_batch;
      }
      for (const std::string& warning : parsed.warnings)
        if (std::count(plan_.warnings.begin(), plan_.warnings.end(), warning) == 0) plan_.warnings.push_back(warning);
    } catch (const UsageError& error) {
      misfits_.push_back({point.axes_text(), error.what(), error.hint()});
    }
  }

  /// Weak scaling keeps the samples of a rank, strong scaling those of a step, along the axis nodes.
  void check_scaling() {
    if (plan_.scaling == Scaling::kFree) return;
    const bool is_weak = plan_.scaling == Scaling::kWeak;
    std::map<std::string, const Point*> first_of_curve;
    for (const Point& point : plan_.points) {
      std::string curve;
      for (const auto& [key, value] : point.axes)
        if (key != "nodes") curve += key + "=" + to_text(value) + " ";
      const auto kept = is_weak ? point.samples_per_replica : point.global_batch;
      if (!kept) continue;
      const auto [found, is_new] = first_of_curve.emplace(curve, &point);
      const auto first = is_weak ? found->second->samples_per_replica : found->second->global_batch;
      if (!is_new && first != kept)
        misfits_.push_back(
            {point.axes_text(),
             fmt::format("{} scaling keeps {}, but it is {} here and {} at {}", is_weak ? "weak" : "strong",
                         is_weak ? "the samples of each rank" : "the global batch", *kept, *first,
                         found->second->axes_text()),
             is_weak ? "give train.batch-size, not a fixed global-batch-size"
                     : "give train.global-batch-size, the same at every size"});
    }
  }
  void refuse_misfits() const {
    if (misfits_.empty()) return;
    std::string text = core::printable_line(
        fmt::format("sweep: {}: {} of {} points do not fit", file_.path, misfits_.size(), plan_.points.size()));
    for (size_t i = 0; i < std::min(misfits_.size(), kMaxShownMisfits); ++i)
      text += "\n    " + core::printable_line(fmt::format("{}: {}", misfits_[i].point, misfits_[i].message));
    if (misfits_.size() > kMaxShownMisfits)
      text += fmt::format("\n    and {} more", misfits_.size() - kMaxShownMisfits);
    throw ErrorOfLines<UsageError>(text, core::printable_line(misfits_[0].hint));
  }
  /// Repeats are interleaved: each round does every point once; within a round the order is the file's, or random.
  void choose_order() {
    std::vector<size_t>& order = plan_.submit_order;
    order.resize(plan_.points.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (file_.order == Order::kRandom) {
      const core::Permutation shuffled(order.size(),
                                       core::stream_key(static_cast<uint64_t>(file_.seed), "order of a sweep"));
      for (size_t& position : order) position = shuffled(position);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return plan_.points[a].repeat < plan_.points[b].repeat; });
  }

  struct Misfit {
    std::string point, message, hint;
  };

  SweepFile file_;  // its axes with variables inserted
  const VariableLookup& variables_;
  commands::ParsedCommand declared_;
  Plan plan_;
  std::vector<Misfit> misfits_;
};
}  // namespace

std::string Point::axes_text() const {
  std::string text;
  for (const auto& [key, value] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, to_text(value));
  if (repeat > 1 || text.empty()) text += fmt::format("{}repeat={}", text.empty() ? "" : " ", repeat);
  return text;
}

namespace {
/// What all starts of a point have in common.
core::Json lasting_request(const Point& point) {
  core::Json json = {point.name, point.nodes,        point.ranks_per_node, point.flags,
                     point.env,  point.slurm.sbatch, point.slurm.srun,     point.slurm.setup};
  if (point.slurm.cpus_per_task) json.push_back(*point.slurm.cpus_per_task);
  return json;
}
}  // namespace

std::string Point::request_digest() const {
  return core::xxh3_hex(core::Json{lasting_request(*this), slurm.time_limit_s, slurm.stop_before_end_s,
                                   slurm.can_requeue, slurm.max_requeues}
                            .dump());
}

std::string Plan::digest() const {
  core::Json json = core::Json::array();
  for (const Point& point : points) json.push_back(lasting_request(point));
  return core::xxh3_hex(core::Json{{"command", command}, {"program", program}, {"points", json}}.dump());
}

Plan make_plan(const SweepFile& file, const VariableLookup& variables) {
  const VariableLookup with_defaults = [&](const std::string& name) -> std::optional<std::string> {
    if (auto text = variables(name)) return text;
    const auto found = file.variables.find(name);
    return found == file.variables.end() ? std::nullopt : std::optional(found->second);
  };
  return Planner(file, with_defaults).make();
}

}  // namespace lockstep::sweep
