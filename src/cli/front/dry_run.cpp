#include "cli/front/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/options.h"
#include "core/print.h"
#include "hw/ranks.h"

namespace lockstep::cli {
namespace {

constexpr size_t kPageWidth = 80;

/// --world-size, or what `lockstep launch`, explicit flags, another launcher or SLURM say; with the warnings of a run.
tasks::WorldSize guess_world(const config::RunOptions& options, const std::optional<tasks::WorldSize>& launched,
                             std::vector<std::string>& warnings) {
  if (options.world_size) return {*options.world_size, "--world-size", 0};
  if (launched) return *launched;
  hw::RankFlags flags;
  if (options.dist_rank) flags.rank = static_cast<int>(*options.dist_rank);
  if (options.dist_world_size) flags.world_size = static_cast<int>(*options.dist_world_size);
  const hw::RankInfo info = hw::discover_ranks(flags, hw::process_env());
  for (const std::string& warning : info.warnings)
    warnings.push_back(info.num_unused_tasks == 0 ? warning
                                                  : fmt::format("{}; --world-size {} here plans for all of them",
                                                                warning, info.num_unused_tasks));
  return {info.world_size, info.source, info.local_world_size};
}

/// Name, value and in brackets where it comes from, below each other where they are long.
std::string option_entry(const core::Option& option) {
  const std::string label = fmt::format("  {:<26} ", "--" + option.name),
                    origin = fmt::format("[{}]", option.origin.text());
  const std::string text = core::printable_line(option.value_text()), value = text.empty() ? "''" : text;
  const std::string line = fmt::format("{}{}  {}\n", label, value, origin);
  if (line.size() <= kPageWidth + 1) return line;
  return tasks::dry_run_entry(label, value) + tasks::dry_run_entry(std::string(6, ' '), origin);
}

}  // namespace

int print_dry_run(const commands::ParsedCommand& command, const std::optional<tasks::WorldSize>& launched) {
  const config::RunOptions& options = command.task->options();
  std::vector<std::string> warnings = command.warnings;
  tasks::DryRunPage page = command.task->dry_run(*command.set, guess_world(options, launched, warnings));
  page.warnings.insert(page.warnings.begin(), warnings.begin(), warnings.end());
  page.warnings.insert(page.warnings.end(), page.missing.begin(), page.missing.end());
  // A question about another machine is answered all the same: what it needs may lie there.
  const bool is_asked_of_here = !options.world_size;
  const bool would_fail = !page.missing.empty() && is_asked_of_here;
  const int code = would_fail ? static_cast<int>(ExitCode::kUsage) : 0;
  if (page.failure && !is_asked_of_here)
    page.warnings.push_back(page.failure->hint().empty()
                                ? page.failure->what()
                                : fmt::format("{}; {}", page.failure->what(), page.failure->hint()));
  if (options.json) {
    core::Json json = core::Json::object();
    for (const tasks::DryRunFact& fact : page.facts)
      if (!fact.key.empty()) json[fact.key] = fact.value;
    json.update(page.extra);
    json["options"] = command.set->values_json();
    json["warnings"] = page.warnings;
    core::print("{}\n", json.dump(2));
    if (page.failure && is_asked_of_here) throw Error(*page.failure);
    return code;
  }
  core::print("Dry run: nothing is computed or written.\n\n");
  for (const tasks::DryRunFact& fact : page.facts)
    if (!fact.label.empty()) core::print("{}", tasks::dry_run_entry(fmt::format("  {:<20}", fact.label), fact.text));
  core::print("{}", page.tables);
  core::print("\nOptions that differ from their defaults\n");
  for (const core::Option& option : command.set->options())
    if (option.origin.kind != core::Origin::Kind::kDefault) core::print("{}", option_entry(option));
  for (const std::string& warning : page.warnings) core::print("\n{}", tasks::dry_run_entry("warning: ", warning));
  if (page.failure && is_asked_of_here) throw Error(*page.failure);
  return code;
}

}  // namespace lockstep::cli
