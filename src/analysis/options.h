#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/protocol.h"

namespace lockstep::analysis {

/// What the user may say about an analysis; every default is printed in the method text.
struct AnalysisOptions {
  std::string flops_set{};  ///< Nominal FLOPs by model (config::find_nominal) instead of what the runs say.
  std::optional<double> forward_gflops{};        ///< Per sample, instead of what the runs say.
  std::optional<double> peak_tflops{};           ///< Dense, per device, instead of table and record.
  std::optional<double> measured_peak_tflops{};  ///< What a matrix product reached on the same device.
  std::optional<int64_t> base_nodes{};           ///< N0; default: the smallest size with a valid point.
  std::optional<size_t> warmup_steps{};          ///< Rows left out at the start, instead of detection.
  double efficiency_target = 0.8;
  double budget_samples = 1e9, budget_tokens = 1e12;  ///< For days and node-hours of a budget.
  bool is_samples_budget_given = false, is_tokens_budget_given = false;
  double budget_runs = 1;  ///< The same for tables of times: how often the whole work is done.
  bool is_runs_budget_given = false;
  std::optional<double> price_per_node_hour{};
  std::string currency{};    ///< Of the price; empty: not told.
  std::string scaling{};     ///< "weak" or "strong", of tables that tell no batches; empty: as they tell.
  bool keeps_steps = false;  ///< Measured step times stay in the summaries (comparisons of single runs need them).
  std::vector<Protocol> protocols{};  ///< Named estimators shown beside ours.
};

}  // namespace lockstep::analysis
