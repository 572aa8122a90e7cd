// Which runs have the same configuration: settings that every source may tell, tags, and the options of lockstep's own
// records and of logs that hold them.
#include "analysis/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "logs/logs.h"
#include "tasks/tasks.h"

namespace lockstep::analysis {
namespace {
using Texts = std::map<std::string, std::string>;

constexpr const char* kUnset = "unset";

/// Groups of --meta and sweep axes that tell repeats apart, not configurations.
bool is_repeat_tag(const std::string& tag) {
  static const std::set<std::string> kTags = {"repeat",  "seed",  "run",  "job",  "jobid", "job_id",
                                              "attempt", "index", "date", "time", "host"};
  return kTags.contains(core::to_lower_ascii(tag));
}

/// Of an option that no task declares: what the program says that printed it.
core::OptionRole role_by_dialect(const logs::OptionDialect& dialect, const std::string& option) {
  const auto any = [&](const std::vector<std::string_view>& texts, auto fits) {
    return std::any_of(texts.begin(), texts.end(), [&](std::string_view text) { return fits(option, text); });
  };
  const auto is_equal = [](std::string_view name, std::string_view text) { return name == text; };
  if (any(dialect.schedule, is_equal)) return core::OptionRole::kSchedule;
  return any(dialect.identity, is_equal) || any(dialect.identity_prefixes, core::starts_with) ||
                 any(dialect.identity_suffixes, core::ends_with)
             ? core::OptionRole::kIdentity
             : core::OptionRole::kConfiguration;
}

/// What a recorded option says about its run: as the task declares it, in logs of others the
/// task whose flags they have.
core::OptionRole role_of(const RunSummary& run, const std::string& option) {
  const bool is_ours = run.format == logs::to_text(logs::LogFormat::kLockstep);
  const logs::OptionDialect dialect = is_ours ? logs::OptionDialect{} : logs::option_dialect(run.format);
  if (std::count(dialect.configuration.begin(), dialect.configuration.end(), option) > 0)
    return core::OptionRole::kConfiguration;
  const auto declared = tasks::option_role(is_ours ? run.setup.task : std::string(dialect.task), option);
  return declared ? *declared : role_by_dialect(dialect, option);
}

bool is_schedule(const RunSummary& run, const std::string& option) {
  return role_of(run, option) == core::OptionRole::kSchedule;
}

/// Neither the work of a step nor its schedule, or shown by settings, size and batch in a form of their own.
bool is_outside(const RunSummary& run, const std::string& option) {
  const core::OptionRole role = role_of(run, option);
  return role != core::OptionRole::kConfiguration && role != core::OptionRole::kSchedule;
}

std::string flag_name(const std::string& key) { return core::replace_all(key, "_", "-"); }

std::string number_text(const std::optional<int64_t>& value) { return value ? fmt::format("{}", *value) : ""; }

/// Number of characters at the end, from a '/' on, that all values share.
size_t common_end(const std::set<std::string>& values) {
  size_t common = std::string::npos;
  for (const std::string& value : values) {
    const std::string& first = *values.begin();
    size_t same = 0;
    while (same < std::min({common, value.size(), first.size()}) &&
           value[value.size() - 1 - same] == first[first.size() - 1 - same])
      ++same;
    common = same;
  }
  const std::string& first = *values.begin();
  while (common > 0 && first[first.size() - common] != '/') --common;
  return common;
}

/// Paths without the folders that all of them share, at the beginning and at the end.
std::set<std::string> without_common_folder(const std::set<std::string>& values) {
  if (values.size() < 2) return values;
  const std::string &first = *values.begin(), &last = *values.rbegin();  // in order: what these two share, all share
  size_t common = 0;
  while (common < std::min(first.size(), last.size()) && first[common] == last[common]) ++common;
  const size_t slash = common == 0 ? std::string::npos : first.rfind('/', common - 1);
  if (slash == std::string::npos || slash == 0) return values;
  std::set<std::string> shorter;
  const size_t end = std::min(common_end(values), first.size() - slash);
  const auto is_whole = [&](const std::string& value) { return value.size() <= slash + end; };
  if (end == 0 || std::any_of(values.begin(), values.end(), is_whole)) {
    for (const std::string& value : values) shorter.insert("..." + value.substr(slash));
  } else {
    for (const std::string& value : values)
      shorter.insert(fmt::format("...{}/...", value.substr(slash, value.size() - slash - end)));
  }
  return shorter;
}

/// Of records an option that was left unset is JSON's null.
std::string shown(const std::string& value) {
  if (value == "null") return kUnset;
  return value.empty() ? "unknown" : setting_text(value);
}

/// Texts of each name over all configurations; where one lacks the name its text is empty.
std::map<std::string, std::set<std::string>> values_by_name(const std::vector<const Texts*>& all) {
  std::map<std::string, std::set<std::string>> values;
  for (const Texts* texts : all)
    for (const auto& [name, value] : *texts) values[name].insert(value);
  for (const Texts* texts : all)
    for (auto& [name, set] : values)
      if (!texts->contains(name)) set.insert("");
  return values;
}

struct Parts {
  std::vector<const Texts*> settings{}, options{};  // the latter of those that know them
};

Parts parts_of(const std::vector<const Configuration*>& all) {
  Parts parts;
  for (const Configuration* one : all) {
    parts.settings.push_back(&one->settings);
    if (one->has_options) parts.options.push_back(&one->options);
  }
  return parts;
}

void add_differences(const std::vector<const Texts*>& all, std::vector<std::string>& differing) {
  for (const auto& [name, values] : values_by_name(all)) {
    if (values.size() < 2) continue;
    std::set<std::string> texts;
    for (const std::string& value : without_common_folder(values)) texts.insert(shown(value));
    differing.push_back(
        fmt::format("{} ({})", name, core::join(std::vector<std::string>(texts.begin(), texts.end()), ", ")));
  }
}

/// Do more than half of them have the value that `one` has?
bool is_common(const Texts& one, const std::vector<const Texts*>& all, const std::string& name) {
  const auto value_of = [&](const Texts& texts) {
    const auto found = texts.find(name);
    return found == texts.end() ? std::string() : found->second;
  };
  const auto same =
      std::count_if(all.begin(), all.end(), [&](const Texts* other) { return value_of(*other) == value_of(one); });
  return 2 * static_cast<size_t>(same) > all.size();
}

/// What `one` has, or lacks, otherwise than most.
void add_distinction(const Texts& one, const std::vector<const Texts*>& all, std::vector<std::string>& texts) {
  for (const auto& [name, values] : values_by_name(all)) {
    const auto mine = one.find(name);
    if (values.size() < 2 || is_common(one, all, name)) continue;
    if (mine == one.end() || mine->second.empty()) {  // named where the others do not name theirs
      if (std::any_of(all.begin(), all.end(), [&](const Texts* other) { return is_common(*other, all, name); }))
        texts.push_back(fmt::format("{} {}", name, kUnset));
      continue;
    }
    const auto place = std::distance(values.begin(), values.find(mine->second));
    texts.push_back(fmt::format("{} {}", name, shown(*std::next(without_common_folder(values).begin(), place))));
  }
}
}  // namespace

bool is_on_cpu(const record::RunSetup& setup) {
  return setup.is_on_cpu.value_or(core::starts_with(core::to_lower_ascii(setup.device), "cpu"));
}

std::string model_parallel_layout(const std::string& layout) {
  std::vector<std::string> parts;
  for (const std::string& part : core::split(layout, " "))
    if (!part.empty() && !core::starts_with(part, "dp=") && !core::ends_with(part, "=1")) parts.push_back(part);
  return core::join(parts, " ");
}

std::map<std::string, std::string> schedule_options(const RunSummary& run) {
  Texts schedule;
  for (const auto& [key, value] : run.options)
    if (is_schedule(run, flag_name(key))) schedule[flag_name(key)] = value;
  return schedule;
}

std::map<std::string, std::string> software_facts(const RunSummary& run) {
  static const std::set<std::string> kOfTheJob = {"host", "hosts", "CUDA_VISIBLE_DEVICES"};
  const auto is_of_gpus = [](const std::string& name) {
    return core::starts_with(name, "NCCL_") || core::starts_with(name, "TORCH_NCCL_") ||
           core::starts_with(name, "CUDA_");
  };
  const bool is_cpu_run = is_on_cpu(run.setup);  // NCCL and CUDA do nothing there
  Texts facts;
  for (const auto& [name, value] : run.software)
    if (!kOfTheJob.contains(name) && !core::starts_with(name, "SLURM_") && !(is_cpu_run && is_of_gpus(name)))
      facts[name] = value;
  return facts;
}

std::map<std::string, std::set<std::string>> software_values(const std::vector<RunSummary>& runs,
                                                             const std::vector<size_t>& members) {
  std::vector<Texts> all;
  for (const size_t index : members)
    if (Texts facts = software_facts(runs[index]); !facts.empty()) all.push_back(std::move(facts));
  std::map<std::string, std::set<std::string>> values;
  for (const Texts& facts : all)
    for (const auto& [name, value] : facts) values[name].insert(value);
  for (const Texts& facts : all)
    for (auto& [name, set] : values)
      if (!facts.contains(name)) set.insert(kUnset);
  return values;
}

std::string compute_threads(const RunSummary& run, const std::string& fact) {
  const record::RunSetup& setup = run.setup;
  if (!setup.threads_per_device || !is_on_cpu(setup)) return "";
  if (fact == kThreadsPerRank) return number_text(setup.threads_per_device);
  if (!setup.nodes || !setup.devices || *setup.nodes == 0) return "";
  return number_text(*setup.threads_per_device * *setup.devices / *setup.nodes);
}

Configuration configuration_of(const RunSummary& run, bool is_by_devices, const std::set<std::string>& parting) {
  const record::RunSetup& setup = run.setup;
  Configuration configuration{
      .settings = {{"precision", setup.precision},
                   {"parallel layout", model_parallel_layout(setup.layout)},
                   {"sequence length", number_text(setup.sequence_length)},
                   {"synthetic data", setup.is_synthetic ? (*setup.is_synthetic ? "yes" : "no") : ""}},
      .options = {},
      .has_options = !run.options.empty()};
  Texts& settings = configuration.settings;
  if (!is_by_devices && setup.nodes && setup.devices && *setup.nodes > 0)
    settings["devices per node"] =
        fmt::format("{:g}", static_cast<double>(*setup.devices) / static_cast<double>(*setup.nodes));
  std::set<std::string> axes;
  for (const auto& [tag, value] : setup.tags) {
    if (!is_repeat_tag(tag)) settings[tag] = value;
    axes.insert(flag_name(tag));
  }
  for (const auto& [key, value] : run.options) {
    const std::string flag = flag_name(key);
    if (axes.contains(flag) || is_outside(run, flag) || (is_schedule(run, flag) && !parting.contains(flag))) continue;
    configuration.options[flag] = value;
  }
  for (const char* fact : {kThreadsPerRank, kThreadsPerNode})
    if (parting.contains(fact)) settings[fact] = compute_threads(run, fact);
  if (const Texts facts = software_facts(run); !facts.empty())
    for (const std::string& name : parting)
      if (!is_schedule(run, name) && !settings.contains(name))
        settings[name] = facts.contains(name) ? facts.at(name) : kUnset;
  return configuration;
}

std::vector<std::string> differences(const std::vector<const Configuration*>& all) {
  const Parts parts = parts_of(all);
  std::vector<std::string> differing;
  add_differences(parts.settings, differing);
  add_differences(parts.options, differing);
  if (!parts.options.empty() && parts.options.size() < all.size()) differing.push_back("options (recorded, unknown)");
  return differing;
}

std::vector<std::string> distinction(const Configuration& one, const std::vector<const Configuration*>& all) {
  const Parts parts = parts_of(all);
  std::vector<std::string> texts;
  add_distinction(one.settings, parts.settings, texts);
  if (one.has_options) add_distinction(one.options, parts.options, texts);
  if (!one.has_options && !parts.options.empty()) texts.emplace_back("options unknown");
  return texts;
}

std::string setting_text(const std::string& value) {
  constexpr size_t kMaxPlain = 8;  // "0.001414"
  if (value.size() <= kMaxPlain || value.find('.') == std::string::npos) return value;
  const auto number = core::parse_double(value);
  return number ? fmt::format("{:.6g}", *number) : value;
}

}  // namespace lockstep::analysis
