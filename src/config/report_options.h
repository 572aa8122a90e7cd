#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/options.h"

namespace lockstep::config {

/// Options of `report` and `report compare`.
struct ReportOptions {
  bool is_compare = false;
  std::vector<std::string> inputs;  // run folders, sweep folders, logs, tables; of compare exactly two
  std::string output = "report";    // -o, --output: folder; of compare empty unless given
  std::string formats = "html,csv,md,latex,svg,gnuplot";  // --format
  bool json = false;

  std::string from;  // --from: format of logs; guessed when empty
  std::string meta;  // --meta: expression with named groups on the path
  std::string meta_file;
  std::vector<std::string> facts;  // --fact name=value
  std::optional<int64_t> nodes, devices, devices_per_node, global_batch, samples_per_device, accum, sequence_length;
  std::string model, precision, system, device;
  bool synthetic_data = false, real_data = false;

  std::string flops_set = "none";
  std::optional<double> fwd_gflops, peak_tflops, measured_peak_tflops;
  std::optional<int64_t> base_nodes, warmup_steps;
  double target_efficiency = 80;  // percent
  double budget_samples = 1e9, budget_tokens = 1e12, budget_runs = 1;
  std::optional<double> price_per_node_hour;
  std::string currency;          // --currency: of the price
  std::string scaling = "auto";  // --scaling: of tables that tell no batches
  std::vector<std::string> protocols;

  bool proposal = false;
  std::optional<int64_t> job_nodes;  // size applied for; default: the largest that keeps the target
  std::optional<double> restart_share, eval_share, checkpoint_share;  // percent; measured where not given
  std::optional<double> job_hours;                                    // wall time of one job
  double sweep_node_hours = 0;

  bool paired = false;  // compare
};

core::OptionSet declare_report_options(ReportOptions& options);
/// UsageError for contradictions and unknown formats.
void check_report_options(const ReportOptions& options);

/// --format as a list of lower-case names.
std::vector<std::string> report_formats(const ReportOptions& options);

/// Facts of the flags by the names that record/meta.h knows, in the order in which they win.
std::vector<std::pair<std::string, std::string>> report_facts(const ReportOptions& options);

}  // namespace lockstep::config
