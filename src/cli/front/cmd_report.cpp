#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/analyse.h"
#include "analysis/compare.h"
#include "analysis/document.h"
#include "analysis/json.h"
#include "analysis/proposal.h"
#include "analysis/sources.h"
#include "analysis/summary.h"
#include "analysis/tables.h"
#include "analysis/text.h"
#include "cli/common/version.h"
#include "cli/front/commands.h"
#include "cli/front/unread_flags.h"
#include "config/report_options.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/log.h"
#include "core/print.h"
#include "core/strings.h"
#include "draw/render.h"
#include "logs/bench.h"
#include "logs/column_names.h"
#include "predict/report_section.h"
#include "published/recompute.h"
#include "published/runs.h"

namespace lockstep::cli {
namespace {
namespace fs = std::filesystem;
using config::ReportOptions;

analysis::AnalysisOptions analysis_options(const ReportOptions& options, const core::OptionSet& set) {
  analysis::AnalysisOptions analysis;
  if (options.flops_set != "none") analysis.flops_set = options.flops_set;
  analysis.forward_gflops = options.fwd_gflops;
  analysis.peak_tflops = options.peak_tflops;
  analysis.measured_peak_tflops = options.measured_peak_tflops;
  analysis.base_nodes = options.base_nodes;
  if (options.warmup_steps) analysis.warmup_steps = static_cast<size_t>(*options.warmup_steps);
  analysis.efficiency_target = options.target_efficiency / 100;
  analysis.budget_samples = options.budget_samples;
  analysis.budget_tokens = options.budget_tokens;
  analysis.is_samples_budget_given = set.is_given("budget-samples");
  analysis.is_tokens_budget_given = set.is_given("budget-tokens");
  analysis.budget_runs = options.budget_runs;
  analysis.is_runs_budget_given = !options.is_compare && set.is_given("budget-runs");
  analysis.price_per_node_hour = options.price_per_node_hour;
  analysis.currency = options.currency;
  if (options.scaling != "auto") analysis.scaling = options.scaling;
  for (const std::string& name : options.protocols) analysis.protocols.push_back(analysis::parse_protocol(name));
  return analysis;
}

analysis::LoadOptions load_options(const ReportOptions& options, const core::OptionSet& set) {
  analysis::LoadOptions load;
  if (!options.from.empty()) load.format = logs::parse_log_format(options.from);
  load.meta = {.path_pattern = options.meta, .file = options.meta_file, .values = config::report_facts(options)};
  load.analysis = analysis_options(options, set);
  load.on_progress = [](size_t done, size_t total) {
    if (total > 20) core::show_progress(fmt::format("{}/{} runs read", done, total));
  };
  return load;
}

/// In lines of 80 columns.
void print_wrapped(const std::string& first, const std::string& text) { core::print("{}", draw::wrapped(first, text)); }

/// Predictions joined with the measurements: their section is the last of the page, the terminal shows the first.
void take_predictions(predict::ReportedPredictions reported, draw::Document& document) {
  constexpr size_t kMostShown = 3;
  for (size_t i = 0; i < std::min(reported.texts.size(), kMostShown); ++i) print_wrapped("", reported.texts[i]);
  if (reported.texts.size() > kMostShown)
    print_wrapped("", fmt::format("The page has the predictions of {} more, joined with what was measured.",
                                  core::counted(reported.texts.size() - kMostShown, "curve")));
  for (const std::string& text : reported.why_not) print_wrapped("note: ", text);
  if (reported.section) document.sections.push_back(std::move(*reported.section));
}

/// What became of the files of the report before, in one line.
void print_replaced(const draw::ReplacedFiles& replaced, const fs::path& folder) {
  if (replaced.removed.empty() && replaced.kept.empty()) return;
  const auto of_before = [&](size_t count) {
    return fmt::format("{} {} of the report before in '{}'", count, count == 1 ? "file" : "files", folder.string());
  };
  std::string line = replaced.removed.empty() ? "" : of_before(replaced.removed.size()) + " removed";
  if (!replaced.kept.empty())
    line += (line.empty() ? of_before(replaced.kept.size()) : fmt::format("; {} more", replaced.kept.size())) +
            fmt::format(" kept, changed since, '{}' first", replaced.kept.front().string());
  core::print("{}\n", line);
}

/// Writes the report as what was asked for; what the report before wrote here goes.
std::vector<fs::path> write_formats(const draw::Document& document, const fs::path& folder,
                                    const std::vector<std::string>& formats) {
  const std::vector<fs::path> kept =
      draw::write_document(document, folder, draw::Formats(formats.begin(), formats.end()));
  print_replaced(draw::replace_report(folder, kept), folder);
  return kept;
}

/// This call, to be pasted into a shell.
std::string report_command(std::span<const std::string> args) {
  std::string command = "lockstep report";
  for (const std::string& arg : args) {
    const bool is_plain = !arg.empty() && std::all_of(arg.begin(), arg.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_./=+:,@%").find(c) != std::string_view::npos;
    });
    command += is_plain ? " " + arg : fmt::format(" '{}'", core::replace_all(arg, "'", "'\\''"));
  }
  return command;
}

/// After all that can be said of the sources: scripts should not take a report on nothing for one on runs. A run that
/// has only begun is none of bad input.
void refuse_report_on_nothing(const analysis::Analysis& analysis) {
  const bool has_any = std::any_of(analysis.runs.begin(), analysis.runs.end(), [](const analysis::RunSummary& run) {
    return run.series || !run.collective_points.empty() || !run.latency_points.empty() || run.state == "running";
  });
  if (has_any) return;
  throw DataError(fmt::format("report: no measurement was found in {}: no step, and no result of a benchmark",
                              core::counted(static_cast<int64_t>(analysis.runs.size()), "run")),
                  "what the report says of each tells why; name folders of runs (<logs>/<name>) or logs with lines of "
                  "steps");
}

bool is_table(const analysis::Source& source) { return logs::is_result_table(source.path); }
bool is_damaged(const analysis::Source& source) { return !source.damage.empty(); }

/// Names the first of either kind, so that the one too many is found.
[[noreturn]] void refuse_mixture(const std::vector<analysis::Source>& sources) {
  const auto table = std::find_if(sources.begin(), sources.end(), is_table);
  const auto run = std::find_if(sources.begin(), sources.end(), [](const analysis::Source& source) {
    return !is_table(source) && !is_damaged(source);
  });
  throw UsageError(
      fmt::format("report: tables of results and runs cannot be put into one report: '{}' is a table, '{}' is a run",
                  table->path.string(), run->path.string()),
      "give the CSV tables in a call of their own");
}

/// Facts and estimators of runs, which a table has in columns or not at all.
void refuse_options_of_runs(const core::OptionSet& set) {
  refuse_given(
      set,
      {"meta", "meta-file", "fact", "nodes", "devices", "devices-per-node", "global-batch", "samples-per-device",
       "accum", "sequence-length", "model", "precision", "system", "device", "synthetic-data", "real-data"},
      "is for runs and logs; the inputs are tables of results",
      "write it into a column of the table, for example nodes, gpus, global_batch, model");
  constexpr const char* kNeedsSteps = "needs runs or logs with their steps; the inputs are tables of results";
  refuse_given(set, {"protocol", "warmup-steps", "measured-peak-tflops"}, kNeedsSteps, "give the runs or their logs");
  refuse_given(set, {"flops-set"}, kNeedsSteps, "give the FLOPs with --fwd-gflops");
}

/// Facts of a job and its margins, which the evidence pack alone reads.
void refuse_options_of_proposal(const core::OptionSet& set, const ReportOptions& options) {
  if (options.proposal) return;
  refuse_given(set, {"job-nodes", "restart-share", "eval-share", "checkpoint-share", "job-hours", "sweep-node-hours"},
               "is read for the evidence pack alone", "add --proposal, or leave it out");
}

/// A pack of other runs beside this report would be taken for its own.
void warn_of_old_proposal(const ReportOptions& options) {
  const fs::path pack = fs::path(options.output) / "proposal";
  if (fs::exists(pack / draw::kFileList))
    core::print("note: '{}' is of an earlier report; --proposal makes it anew\n", pack.string());
}

/// The evidence pack beside the report; prints what it lacks and where it is.
void write_proposal(const analysis::Analysis& analysis, const ReportOptions& options, std::span<const std::string> args,
                    const std::vector<published::PublishedTable>& tables = {}) {
  const analysis::ProposalOptions of_job{
      options.job_nodes,        options.restart_share,  options.eval_share,
      options.checkpoint_share, options.job_hours,      options.sweep_node_hours,
      report_command(args),     version_info().version, predict::kept_rate_predictor(analysis, tables)};
  for (const std::string& fact : analysis::missing_for_proposal(analysis, of_job)) print_wrapped("missing: ", fact);
  for (const std::string& text : analysis::predicted_sizes(analysis, of_job)) print_wrapped("", text);
  const auto pack = write_formats(analysis::make_proposal(analysis, of_job), fs::path(options.output) / "proposal",
                                  config::report_formats(options));
  if (!pack.empty()) core::print("{}\n", fs::absolute(pack.front()).lexically_normal().string());
}

void print_table(const published::PublishedTable& table) {
  core::print("{}\n", draw::to_text(table.recomputed));
  for (const analysis::Curve* curve : published::curves_with_repeats(table.rows))
    core::print("{}\n", draw::to_text(analysis::scaling_table(*curve)));
  for (const analysis::Curve& curve : table.rows.curves)
    if (curve.points.size() > 1)
      for (const std::string& text : analysis::conclusions_of(curve, table.rows.options)) print_wrapped("", text);
  for (const std::string& text : published::limits_of_rows(table.rows)) print_wrapped("note: ", text);
  for (const published::CheckedCell& cell : table.cells)
    if (cell.verdict != published::CellVerdict::kExact) print_wrapped("", published::difference_text(cell));
  for (const std::string& text : table.assumed) print_wrapped("note: ", text);
  for (const std::string& doubt : table.doubts) print_wrapped("", doubt);
}

int report_tables(const std::vector<analysis::Source>& sources, const ReportOptions& options,
                  const core::OptionSet& set, std::span<const std::string> args) {
  refuse_options_of_runs(set);
  const analysis::AnalysisOptions analysis = analysis_options(options, set);
  std::vector<published::PublishedTable> tables;
  for (const analysis::Source& source : sources) {
    if (is_damaged(source)) {
      core::log_warning("report: left out: {}", source.damage);
      continue;
    }
    tables.push_back(published::check_published(source.path, analysis));
  }
  if (options.json) {
    core::print("{}\n", published::published_json(tables));
    return 0;
  }
  for (const published::PublishedTable& table : tables) print_table(table);
  for (const std::string& contradiction : published::contradictions(tables)) print_wrapped("", contradiction);
  draw::Document document = published::published_document(tables);
  take_predictions(predict::join_predictions(tables, analysis), document);
  const auto files = write_formats(document, options.output, config::report_formats(options));
  if (options.proposal) {
    const analysis::Analysis rows = published::rows_of(tables, analysis);
    if (rows.runs.empty())
      throw UsageError("report: --proposal needs times or rates over sizes; no table here tells any",
                       "give tables with columns nodes (or cores, gpus) and walltime_s, or samples_per_s, or a batch "
                       "and a step time");
    write_proposal(rows, options, args, tables);
  } else {
    warn_of_old_proposal(options);
  }
  if (!files.empty()) core::print("{}\n", fs::absolute(files.front()).lexically_normal().string());
  return 0;
}
}  // namespace

int cmd_report(const commands::ParsedCommand& command) {
  const core::OptionSet& set = *command.set;
  if (command.wants_help) {
    core::print("{}", set.help_text());
    core::print("\n`lockstep report compare A B` compares two.\n");
    return 0;
  }
  const ReportOptions& options = *command.report;
  const std::span<const std::string> args = command.rest;
  refuse_options_of_proposal(set, options);
  if (!options.price_per_node_hour)
    refuse_given(set, {"currency"}, "says what a price counts, and there is none", "add --price-per-node-hour N");
  const std::vector<analysis::Source> sources = analysis::find_sources(options.inputs);
  // Published latencies are laid beside measured ones; alone they are a table like any other.
  const bool has_benchmarks = std::any_of(sources.begin(), sources.end(), [](const analysis::Source& source) {
    return source.damage.empty() && logs::is_bench_document(source.path);
  });
  const auto is_table_alone = [&](const analysis::Source& source) {
    return is_table(source) && !(has_benchmarks && logs::is_latency_table(source.path));
  };
  const size_t num_tables = options.from.empty() || options.from == "csv"
                                ? static_cast<size_t>(std::count_if(sources.begin(), sources.end(), is_table_alone))
                                : 0;
  const auto num_damaged = static_cast<size_t>(std::count_if(sources.begin(), sources.end(), is_damaged));
  if (num_tables > 0 && num_tables + num_damaged == sources.size()) return report_tables(sources, options, set, args);
  if (num_tables > 0) refuse_mixture(sources);
  refuse_given(set, {"budget-runs", "scaling"}, "is for tables of times without rates; the inputs are runs",
               "leave it out; --budget-samples or --budget-tokens tell the work of runs");
  const analysis::Analysis analysis =
      analysis::analyse(analysis::load_sources(sources, load_options(options, set)), analysis_options(options, set));
  core::end_progress();
  if (options.json) {
    core::print("{}\n", analysis::analysis_json(analysis));
    refuse_report_on_nothing(analysis);
    return 0;
  }
  core::print("{}", analysis::summary_text(analysis));
  draw::Document document = analysis::make_document(analysis);
  take_predictions(predict::join_predictions(analysis), document);
  const auto files = write_formats(document, options.output, config::report_formats(options));
  if (options.proposal)
    write_proposal(analysis, options, args);
  else
    warn_of_old_proposal(options);
  if (!files.empty()) core::print("{}\n", fs::absolute(files.front()).lexically_normal().string());
  refuse_report_on_nothing(analysis);
  return 0;
}

/// The page of a comparison: what the console shows, and the numbers behind it.
static std::vector<fs::path> write_comparison(const analysis::SideComparison& comparison,
                                              std::initializer_list<const std::vector<analysis::RunSummary>*> sides,
                                              const ReportOptions& options) {
  using Kind = draw::Paragraph::Kind;
  draw::Section section{.id = "comparison", .title = "Comparison", .blocks = {comparison.table}};
  section.blocks.emplace_back(draw::Paragraph{.text = analysis::comparison_method(comparison)});
  for (const auto* side : sides)
    for (const std::string& problem : analysis::source_problems(*side))
      section.blocks.emplace_back(draw::Paragraph{.text = problem, .kind = Kind::kWarning});
  for (const std::string& note : comparison.notes)
    section.blocks.emplace_back(draw::Paragraph{.text = note, .kind = Kind::kNote});
  for (const analysis::SizeComparison& one : comparison.sizes)
    section.blocks.emplace_back(draw::Paragraph{.text = one.verdict});
  const draw::Document document{.title = fmt::format("{} and {}", comparison.name_a, comparison.name_b),
                                .sections = {section},
                                .data_json = analysis::comparison_json(comparison)};
  return write_formats(document, options.output, config::report_formats(options));
}

int cmd_report_compare(const commands::ParsedCommand& command) {
  if (command.wants_help) {
    core::print("{}", command.set->help_text());
    return 0;
  }
  const ReportOptions& options = *command.report;
  analysis::LoadOptions how = load_options(options, *command.set);
  how.analysis.keeps_steps = true;
  const auto load = [&](const std::string& input) {
    return analysis::load_sources(analysis::find_sources({input}), how);
  };
  const std::vector<analysis::RunSummary> a = load(options.inputs[0]), b = load(options.inputs[1]);
  const analysis::SideComparison comparison =
      analysis::compare_sides(a, b, options.paired, options.inputs[0], options.inputs[1]);
  core::end_progress();
  if (options.json) {
    core::print("{}\n", analysis::comparison_json(comparison));
    return 0;
  }
  std::vector<fs::path> files;
  if (!options.output.empty()) files = write_comparison(comparison, {&a, &b}, options);
  core::print("{}\n", draw::to_text(comparison.table));
  print_wrapped("", analysis::comparison_method(comparison));
  for (const auto* side : {&a, &b})
    for (const std::string& problem : analysis::source_problems(*side)) print_wrapped("problem: ", problem);
  for (const std::string& note : comparison.notes) print_wrapped("note: ", note);
  for (const analysis::SizeComparison& one : comparison.sizes) print_wrapped("", one.verdict);
  if (!files.empty()) core::print("{}\n", fs::absolute(files.front()).lexically_normal().string());
  return 0;
}

}  // namespace lockstep::cli
