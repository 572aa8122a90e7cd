#include "record/metrics.h"

#include <gtest/gtest.h>

#include <set>

#include "record/steps.h"

namespace lockstep::record {
namespace {

/// Keys that a writer puts, all optional fields filled; "nonfinite" is no metric.
std::set<std::string> keys_of(const core::Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

/// Names of a source without the members of objects.
std::set<std::string> names_of(MetricSource source) {
  std::set<std::string> names;
  for (const MetricDef& metric : metric_catalogue())
    if (metric.source == source && metric.name.find('.') == std::string_view::npos)
      names.insert(std::string(metric.name));
  return names;
}

TEST(Metrics, EveryKeyOfTheRecordIsInTheCatalogueAndNoOther) {
  StepRecord step;
  step.epoch = 1, step.tokens = 2, step.exposed_comm_ms = 3, step.losses = {{"a", 1}}, step.grad_norm = 1,
  step.num_zeros = 1, step.params_norm = 1, step.scale = 2, step.loss_scale = 4;
  step.is_skipped = true, step.cached_share = 0.5, step.device_memory_bytes = 5, step.host_memory_bytes = 6,
  step.phases_ms = {{"forward", 1}}, step.time_s = 7;
  EXPECT_EQ(keys_of(to_json(step)), names_of(MetricSource::kSteps));
  const RankTimesRecord ranks{
      .step_ms = {1}, .data_wait_ms = {1}, .compute_ms = {1}, .comm_wait_ms = {1}, .hosts = {"a"}};
  EXPECT_EQ(keys_of(to_json(ranks)), names_of(MetricSource::kRanks));
  EXPECT_EQ(keys_of(to_json(CommRecord{})), names_of(MetricSource::kComm));
  const SystemInterval system{
      .host = "a", .received_bytes = {{"e", 1}}, .sent_bytes = {{"e", 1}}, .energy_j = {{"m", 1}}, .seconds = 1};
  EXPECT_EQ(keys_of(to_json(system)), names_of(MetricSource::kSystem));
  StartupTimes startup;
  startup.phases_ms = {{"start", 1}};
  EXPECT_EQ(keys_of(to_json(startup)), names_of(MetricSource::kStartup));
  ResultRecord result;
  result.epoch = 1, result.metrics = {{"a", 1}}, result.seconds = 2;
  EXPECT_EQ(keys_of(to_json(result)), names_of(MetricSource::kResults));
}

TEST(Metrics, EachIsDeclaredOnceAndExplained) {
  std::set<std::pair<MetricSource, std::string_view>> seen;
  for (const MetricDef& metric : metric_catalogue()) {
    EXPECT_TRUE(seen.insert({metric.source, metric.name}).second) << metric.name;
    EXPECT_TRUE(metric.help.size() > 3 && metric.help.back() == '.') << metric.name;
    if (metric.source != MetricSource::kDerived) continue;
    EXPECT_TRUE(!metric.formula.empty() || metric.name == "series.warmup_steps") << metric.name;
    const bool is_rate = metric.unit.find("/s") != std::string_view::npos;
    EXPECT_TRUE(!is_rate || metric.reduction == Reduction::kRatio) << metric.name << ": a rate must not be averaged";
  }
}

}  // namespace
}  // namespace lockstep::record
