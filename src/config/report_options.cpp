#include "config/report_options.h"
#include "config/flops.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {
constexpr double kLeastShare = 0.1;  // percent; below it somebody means a fraction
const std::vector<std::string> kFormats = {"html", "csv", "md", "latex", "svg", "gnuplot", "png", "pdf"};

void declare_facts(core::OptionSet& set, ReportOptions& options) {
  set.group("Facts that logs lack");
  set.add("meta", &options.meta,
          {.help = "Expression with named groups, searched in each path: '(?<nodes>[0-9]+)n_(?<model>[^/]+)'. Groups "
                   "that are no "
                   "known fact become tags.",
           .metavar = "REGEX"});
  set.add("meta-file", &options.meta_file,
          {.help = "TOML file of facts: name = value lines, and a table [tags].", .metavar = "FILE"});
  set.add("fact", &options.facts,
          {.help = "Facts by name, as name=value; see docs/logs.md for the names.", .metavar = "NAME=VALUE"});
  set.add("nodes", &options.nodes, {.help = "Nodes of every run.", .min = 1});
  set.add("devices", &options.devices, {.help = "Devices of every run.", .min = 1});
  set.add("devices-per-node", &options.devices_per_node,
          {.help = "Devices of a node: of nodes and devices it gives the one that a log lacks.",
           .min = 1,
           .aliases = {"gpus-per-node"}});
  set.add("global-batch", &options.global_batch, {.help = "Samples of a step over all devices.", .min = 1});
  set.add("samples-per-device", &options.samples_per_device,
          {.help = "Samples of a step and device, accumulation included.", .min = 1});
  set.add("accum", &options.accum, {.help = "Micro-batches of a step.", .min = 1});
  set.add("sequence-length", &options.sequence_length, {.help = "Tokens of a sample.", .min = 1});
  set.add("model", &options.model, {.help = "Name of the model.", .metavar = "NAME"});
  set.add("precision", &options.precision, {.help = "Name of the precision.", .metavar = "NAME"});
  set.add("system", &options.system, {.help = "Name of the machine.", .metavar = "NAME"});
  set.add("device", &options.device, {.help = "Name of the device.", .metavar = "NAME"});
  set.add("synthetic-data", &options.synthetic_data, {.help = "The input was made up."});
  set.add("real-data", &options.real_data, {.help = "The input was real."});
}

/// "none" leaves what the runs say.
std::vector<std::string> flops_sets() {
  auto sets = nominal_sets();
  sets.insert(sets.begin(), "none");
  return sets;
}

void declare_analysis(core::OptionSet& set, ReportOptions& options) {
  set.group("Analysis");
  set.add("fwd-gflops", &options.fwd_gflops,
          {.help = "FLOPs of one forward pass of one sample; training counts three.",
           .unit = "GFLOP",
           .min = 0,
           .max = 1e9,
           .is_min_excluded = true});
  set.add("flops-set", &options.flops_set,
          {.help = "Nominal FLOPs of published benchmarks by the model's name, so that their MFU columns can be "
                   "repeated: the CLAP benchmark (seed-000), the Nemotron "
                   "recipe (seed-004), OpenCLIP's profile; lockstep computes them for CLIP.",
           .choices = flops_sets()});
  set.add("peak-tflops", &options.peak_tflops,
          {.help = "Dense peak of a device, of the compute type.",
           .unit = "TFLOP/s",
           .min = 0,
           .max = 1e5,
           .is_min_excluded = true});
  set.add("measured-peak-tflops", &options.measured_peak_tflops,
          {.help = "What a matrix product reached on the device.",
           .unit = "TFLOP/s",
           .min = 0,
           .max = 1e5,
           .is_min_excluded = true});
  set.add("base-nodes", &options.base_nodes,
          {.help = "Size that efficiency and speed-up refer to.", .unset_text = "the smallest", .min = 1});
  set.add("warmup-steps", &options.warmup_steps,
          {.help = "Rows left out at the start of each run.", .unset_text = "detected", .min = 0});
  set.add("target-efficiency", &options.target_efficiency,
          {.help = "Efficiency that a recommended size keeps.",
           .unit = "percent",
           .min = 1,
           .max = 100,
           .is_min_excluded = true});
  set.add(
      "budget-samples", &options.budget_samples,
      {.help = "Work for which days and node-hours are given.", .unit = "samples", .min = 0, .is_min_excluded = true});
  set.add("budget-tokens", &options.budget_tokens,
          {.help = "The same for language models.", .unit = "tokens", .min = 0, .is_min_excluded = true});
  set.add("price-per-node-hour", &options.price_per_node_hour, {.help = "Adds a column of prices.", .min = 0});
  set.add(
      "protocol", &options.protocols,
      {.help =
           "Estimators of published benchmarks shown beside ours: clap, nemotron, epicure-vision, epicure-language.",
       .metavar = "NAME"});
}

/// What tables alone tell or lack.
void declare_tables(core::OptionSet& set, ReportOptions& options) {
  set.add("budget-runs", &options.budget_runs,
          {.help = "Work for tables of times without rates: how often the whole work is done.",
           .unit = "runs",
           .min = 0,
           .is_min_excluded = true});
  set.add("currency", &options.currency,
          {.help = "What --price-per-node-hour counts, for example EUR.", .metavar = "NAME", .unset_text = "not told"});
  set.add("scaling", &options.scaling,
          {.help = "Whether the work behind the times of a table grows with the size (weak) or stays (strong), where "
                   "the table tells no batches; auto: by its words, else by whether the times fall.",
           .choices = {"auto", "weak", "strong"}});
}

void declare_proposal(core::OptionSet& set, ReportOptions& options) {
  set.group("Application for computing time");
  set.add("proposal", &options.proposal,
          {.help = "Write the evidence pack too, into the folder proposal/ of the output."});
  set.add("job-nodes", &options.job_nodes,
          {.help = "Size that is applied for.", .unset_text = "the largest that keeps the target", .min = 1});
  set.add("restart-share", &options.restart_share,
          {.help = "Margin for restarts.", .unit = "percent", .unset_text = "none allowed for", .min = 0});
  set.add("eval-share", &options.eval_share,
          {.help = "Time for evaluation.", .unit = "percent", .unset_text = "measured", .min = 0});
  set.add("checkpoint-share", &options.checkpoint_share,
          {.help = "Time for checkpoints.", .unit = "percent", .unset_text = "measured", .min = 0});
  set.add("job-hours", &options.job_hours,
          {.help = "Wall time of a job; each job starts up anew.",
           .unit = "hours",
           .unset_text = "start-up is not counted",
           .min = 0,
           .is_min_excluded = true});
  set.add("sweep-node-hours", &options.sweep_node_hours,
          {.help = "Node-hours for scaling tests and tuning.", .min = 0});
}
}  // namespace

core::OptionSet declare_report_options(ReportOptions& options) {
  core::OptionSet set(options.is_compare ? "report compare" : "report",
                      options.is_compare ? "Says whether B is faster than A, with an interval."
                                         : "Tables and plots from run records, sweeps and other programs' logs.");
  set.add_positional(options.is_compare ? "a-and-b" : "inputs", &options.inputs,
                     {.help = options.is_compare ? "Two runs, logs or folders of repeats: first A, then B."
                                                 : "Run folders, folders of them, sweep folders, logs, or CSV tables.",
                      .metavar = options.is_compare ? "A B" : "INPUT"});
  if (options.is_compare) {
    set.add("paired", &options.paired,
            {.help = "Runs of A and B were taken in turn: compare the first of A with the first of B, and so on."});
  }
  if (options.is_compare) options.output.clear();
  set.add("output", &options.output,
          {.help = "Folder to write.",
           .metavar = "DIR",
           .unset_text = options.is_compare ? "nothing is written" : "",
           .aliases = {"o", "out", "out-dir", "outdir", "output-dir"}});
  if (!options.is_compare) {
    set.add("format", &options.formats,
            {.help = "Files to write: html, csv, md, latex, svg, gnuplot, png, pdf.", .metavar = "LIST"});
  }
  set.add("json", &options.json, {.help = "Machine-readable output on standard output."});
  set.add("from", &options.from, {.help = "Format of logs.", .metavar = "FORMAT", .unset_text = "guessed"});
  declare_facts(set, options);
  declare_analysis(set, options);
  if (!options.is_compare) {
    declare_tables(set, options);
    declare_proposal(set, options);
  }
  return set;
}

std::vector<std::string> report_formats(const ReportOptions& options) {
  std::vector<std::string> formats;
  for (const std::string& part : core::split(options.formats, ",")) {
    const std::string format = core::to_lower_ascii(core::trim(part));
    if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
      const auto nearest = core::nearest_name(format, kFormats);
      throw UsageError(
          fmt::format("options: --format names '{}', expected a list of {}", part, core::join_or(kFormats)),
          format == "json" ? "--json prints the analysis instead of writing files"
          : nearest        ? fmt::format("did you mean '{}'?", *nearest)
                           : "");
    }
    formats.push_back(format);
  }
  return formats;
}

std::vector<std::pair<std::string, std::string>> report_facts(const ReportOptions& options) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const std::string& fact : options.facts) {
    const size_t equals = fact.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("options: --fact '{}' is not of the form name=value", fact),
                       "for example --fact nodes=4 model=ViT-B-32");
    facts.emplace_back(fact.substr(0, equals), fact.substr(equals + 1));
  }
  const auto add_number = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) facts.emplace_back(name, std::to_string(*value));
  };
  add_number("nodes", options.nodes);
  add_number("devices", options.devices);
  add_number("devices_per_node", options.devices_per_node);
  add_number("global_batch", options.global_batch);
  add_number("samples_per_device", options.samples_per_device);
  add_number("accum", options.accum);
  add_number("sequence_length", options.sequence_length);
  for (const auto& [name, value] : {std::pair<const char*, const std::string*>{"model", &options.model},
                                    {"precision", &options.precision},
                                    {"system", &options.system},
                                    {"device", &options.device}})
    if (!value->empty()) facts.emplace_back(name, *value);
  if (options.synthetic_data || options.real_data)
    facts.emplace_back("synthetic", options.synthetic_data ? "true" : "false");
  return facts;
}

void check_report_options(const ReportOptions& options) {
  if (options.synthetic_data && options.real_data)
    throw UsageError("options: --synthetic-data and --real-data contradict each other", "give one of them");
  if (options.is_compare && options.inputs.size() != 2)
    throw UsageError(fmt::format("options: report compare takes two inputs, got {}", options.inputs.size()),
                     "put repeats of one side into one folder");
  report_formats(options);
  report_facts(options);
  for (const auto& [name, share] : {std::pair{"restart-share", options.restart_share},
                                    {"eval-share", options.eval_share},
                                    {"checkpoint-share", options.checkpoint_share}})
    if (share && *share > 0 && *share < kLeastShare)
      throw UsageError(
          fmt::format("options: --{} {:g} is {:g} %, less than such a share can be known", name, *share, *share),
          fmt::format("give percent: {:g} for {:g} %", 100 * *share, 100 * *share));
}

}  // namespace lockstep::config
