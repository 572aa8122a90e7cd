#include "config/best_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "config/option_checks.h"
#include "core/strings.h"

namespace lockstep::config {
using core::OptionRole;
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Losses and ranks fall while a model learns; all else rises.
bool falls(const std::string& metric) { return contains(metric, "loss") || core::ends_with(metric, "_rank"); }

std::vector<std::string> meant_metrics(const BestCheckpointOptions& options, const std::vector<std::string>& metrics) {
  std::vector<std::string> of_data = metrics;
  if (options.data != "all")
    std::erase_if(of_data, [&](const std::string& metric) { return !contains(metric, options.data); });
  if (std::find(of_data.begin(), of_data.end(), options.metric) != of_data.end()) return {options.metric};
  std::vector<std::string> meant;
  for (const std::string& metric : of_data)
    if (core::ends_with(metric, options.metric)) meant.push_back(metric);
  if (!meant.empty()) return meant;
  for (const std::string& metric : of_data)
    if (contains(metric, options.metric)) meant.push_back(metric);
  return meant;
}

}  // namespace

void declare_best_checkpoints(core::OptionSet& set, BestCheckpointOptions& o) {
  set.add("save-top-performance", &o.num_best,
          {.role = OptionRole::kNoInfluence,
           .help = "Also keep the N checkpoints whose evaluations were best, whatever --save-frequency and --keep say; "
                   "checkpoints/best.json names them. 0: do not.",
           .unit = "checkpoints",
           .min = 0});
  set.add(
      "top-k-checkpoint-select-dataset", &o.data,
      {.role = OptionRole::kNoInfluence,
       .help = "With --save-top-performance: only metrics whose names contain this, such as imagenet-zeroshot; all: "
               "those of all data.",
       .metavar = "TEXT"});
  set.add(
      "top-k-checkpoint-select-metric", &o.metric,
      {.role = OptionRole::kNoInfluence,
       .help =
           "With --save-top-performance: the metric of this name, else those whose names end with this, else "
           "those that contain it. Of several the mean counts. Losses and mean or median ranks are best where they are "
           "lowest.",
       .metavar = "TEXT"});
}

BestCheckpoints best_checkpoints(const BestCheckpointOptions& options, const std::vector<std::string>& metrics) {
  if (options.num_best == 0) return {};
  BestCheckpoints best{.num_best = options.num_best, .metrics = meant_metrics(options, metrics)};
  best.is_smaller_better = !best.metrics.empty() && falls(best.metrics.front());
  return best;
}

void check_best_checkpoints(const BestCheckpointOptions& options, const std::vector<std::string>& metrics,
                            const core::OptionSet& set) {
  for (const char* flag : {"top-k-checkpoint-select-dataset", "top-k-checkpoint-select-metric"})
    refuse_if(set.is_given(flag) && options.num_best == 0, fmt::format("--{} belongs to --save-top-performance", flag),
              "add --save-top-performance N, or drop it");
  if (options.num_best == 0) return;
  refuse_if(metrics.empty(), "--save-top-performance compares evaluations, this run has none",
            "add --val-data, and no --val-frequency 0");
  const auto meant = meant_metrics(options, metrics);
  refuse_if(meant.empty(),
            fmt::format("--save-top-performance: no metric of this run is meant by --top-k-checkpoint-select-metric "
                        "'{}' of data '{}'; it has {}",
                        options.metric, options.data, core::join(metrics, ", ")),
            options.data == "all"
                ? fmt::format("name one of them: --top-k-checkpoint-select-metric {}", metrics.front())
                : "--top-k-checkpoint-select-dataset all takes the metrics of all data");
  const auto num_falling = std::count_if(meant.begin(), meant.end(), falls);
  refuse_if(num_falling != 0 && num_falling != std::ssize(meant),
            fmt::format("--top-k-checkpoint-select-metric '{}' means {}, of which some are best where they are lowest "
                        "and some where they are highest",
                        options.metric, core::join(meant, ", ")),
            "name metrics of one kind");
}

}  // namespace lockstep::config
