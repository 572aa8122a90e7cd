// Tables of the whole analysis: its runs, what was left out, problems, checks, and what ran where.
#include <fmt/format.h>

#include <map>
#include <set>

#include "analysis/cells.h"
#include "analysis/peak.h"
#include "analysis/tables_runs.h"
#include "core/strings.h"

namespace lockstep::analysis {
namespace {
constexpr size_t kMaxDistinct = 12;

std::string software_text(const RunSummary& run) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : run.software) parts.push_back(fmt::format("{} {}", name, value));
  return core::join(parts, "; ");
}

/// Values over all runs with how often each occurs: "bf16 (12), fp32 (3)"; one value stands alone.
template <typename Get> std::string distinct_text(const std::vector<RunSummary>& runs, Get get) {
  std::map<std::string, size_t> counts;
  for (const RunSummary& run : runs)
    if (const std::string value = get(run); !value.empty()) ++counts[value];
  if (counts.size() == 1 && counts.begin()->second == runs.size()) return counts.begin()->first;
  std::vector<std::string> parts;
  for (const auto& [value, count] : counts) {
    if (parts.size() == kMaxDistinct) {
      parts.push_back(fmt::format("and {} more values (all in the embedded data)", counts.size() - kMaxDistinct));
      break;
    }
    parts.push_back(fmt::format("{} ({} of {} runs)", value, count, runs.size()));
  }
  return core::join(parts, "; ");
}

}  // namespace

draw::Table run_table(const Analysis& analysis) {
  draw::Table table{
      .id = "runs", .title = "All runs", .caption = "Every run that was read, whether or not it is in a point."};
  table.columns = {
      text_column("run", "run"),      text_column("format", "format"),    text_column("model", "model"),
      column("nodes", "nodes"),       column("devices", "devices"),       column("global batch", "global_batch"),
      text_column("state", "state"),  text_column("job", "job"),          column("attempts", "attempts"),
      column("steps", "steps"),       column("median (ms)", "median_ms"), column("rejected lines", "rejected_lines"),
      text_column("source", "source")};
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? count_cell(*value) : missing_cell("the source does not tell");
  };
  for (const RunSummary& run : analysis.runs)
    table.rows.push_back({text_cell(run.name), text_cell(run.format), text_cell(run.setup.model),
                          number(run.setup.nodes), number(run.setup.devices), number(run.setup.global_batch),
                          text_cell(run.state.empty() ? "unknown" : run.state, run.message), text_cell(run.allocation),
                          count_cell(run.num_attempts),
                          run.format == kTableRow ? missing_cell("a row of a table") : count_cell(run.num_steps),
                          run.work_time        ? missing_cell("the time of a whole work")
                          : !run.has_step_time ? missing_cell("a rate only")
                          : run.series         ? figure_cell(run.series->median_ms)
                                               : missing_cell(run.unusable),
                          count_cell(run.num_rejected_lines), text_cell(run.source.string())});
  return table;
}

draw::Table left_out_table(const Analysis& analysis) {
  draw::Table table{.id = "left-out",
                    .title = "Runs in no point",
                    .caption = "Nothing is left out silently: why, and what can still be concluded."};
  table.columns = {text_column("run", "run"), text_column("why", "reason"),
                   text_column("what can be concluded", "conclusion")};
  for (const LeftOut& left : analysis.left_out)
    table.rows.push_back({text_cell(analysis.runs[left.run].name), text_cell(left.reason), text_cell(left.conclusion)});
  return table;
}

draw::Table problem_table(const Analysis& analysis) {
  draw::Table table{.id = "problems",
                    .title = "What was wrong with the sources",
                    .caption = "Damaged or doubtful input, run by run."};
  table.columns = {text_column("run", "run"), text_column("what", "problem")};
  for (const RunSummary& run : analysis.runs) {
    std::set<std::string> told;
    for (const std::string& problem : run.problems)
      if (told.insert(problem).second) table.rows.push_back({text_cell(run.name), text_cell(problem)});
    if (run.series)
      for (const std::string& note : run.series->notes)
        if (told.insert(note).second) table.rows.push_back({text_cell(run.name), text_cell(note)});
  }
  return table;
}

draw::Table check_table(const Analysis& analysis) {
  draw::Table table{
      .id = "checks", .title = "Honesty checks that fired", .caption = "They annotate; they never hide a row."};
  table.columns = {text_column("code", "code"), text_column("check", "check"), text_column("where", "subject"),
                   text_column("what was found", "sentence"), text_column("what to do", "fix")};
  for (const Flag& flag : analysis.flags)
    table.rows.push_back({text_cell(flag.code), text_cell(flag.name), text_cell(flag.subject), text_cell(flag.sentence),
                          text_cell(flag.fix)});
  return table;
}

draw::Table manifest_table(const Analysis& analysis) {
  draw::Table table{
      .id = "manifest",
      .title = "Manifest",
      .caption = "What ran where. Values that differ between runs are listed with how many runs have them."};
  table.columns = {text_column("item", "item"), text_column("value", "value")};
  const auto add = [&](const char* item, auto get) {
    const std::string value = distinct_text(analysis.runs, get);
    table.rows.push_back({text_cell(item), value.empty() ? missing_cell("no source tells") : text_cell(value)});
  };
  add("system", [](const RunSummary& run) { return run.setup.system; });
  add("device", [](const RunSummary& run) { return run.setup.device; });
  add("task", [](const RunSummary& run) { return run.setup.task; });
  add("model", [](const RunSummary& run) { return run.setup.model; });
  add("precision", [](const RunSummary& run) { return run.setup.precision; });
  add("parallel layout", [](const RunSummary& run) { return run.setup.layout; });
  add("gradient accumulation",
      [](const RunSummary& run) { return run.setup.accum ? std::to_string(*run.setup.accum) : ""; });
  add("sequence length", [](const RunSummary& run) {
    return run.setup.sequence_length ? std::to_string(*run.setup.sequence_length) : "";
  });
  add("input data", [](const RunSummary& run) {
    return run.setup.is_synthetic ? (*run.setup.is_synthetic ? "synthetic" : "real") : "";
  });
  add("FLOPs", [](const RunSummary& run) {
    return run.setup.forward_gflops_per_sample
               ? fmt::format("{:g} GFLOP forward per sample ({})", *run.setup.forward_gflops_per_sample,
                             run.setup.flops_formula)
               : "";
  });
  add("FLOPs computed", [](const RunSummary& run) {
    return run.setup.processed_gflops_per_sample
               ? fmt::format("{:g} GFLOP forward per sample ({})", *run.setup.processed_gflops_per_sample,
                             run.setup.processed_formula)
               : "";
  });
  add("peak per device", [&](const RunSummary& run) {
    const auto peak = peak_of(run.setup, analysis.options);
    return peak ? peak->text : "";
  });
  add("jobs", [](const RunSummary& run) { return run.allocation; });
  add("software and environment", software_text);
  add("command", [](const RunSummary& run) { return run.command; });
  return table;
}

}  // namespace lockstep::analysis
