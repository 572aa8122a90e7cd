#include "analysis/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lockstep::analysis {
namespace {

/// A run of `bench latency` in one precision with calls of one size.
RunSummary point_of_sweep(const std::string& name, const std::string& system, int64_t batch, double p50_ms) {
  RunSummary run;
  run.name = name;
  run.setup.device = "AMD EPYC";
  if (!system.empty()) run.setup.tags["system"] = system;
  record::LatencyPoint point;
  point.model = "ViT-B-32";
  point.precision = "fp32";
  point.from = "pixels";
  point.tower = "both";
  point.batch = batch;
  point.p50_ms = p50_ms;
  run.latency_points = {point};
  return run;
}

TEST(LatencyCharts, PointsOfASweepAreOneLineForEachSystem) {
  const auto charts = latency_charts({point_of_sweep("0001", "mine", 8, 40), point_of_sweep("0002", "mine", 1, 9),
                                      point_of_sweep("0003", "yours", 1, 4), point_of_sweep("0004", "", 1, 5)});
  ASSERT_EQ(charts.size(), 1u);
  const auto& series = charts[0].series;
  ASSERT_EQ(series.size(), 3u);
  EXPECT_EQ(series[0].name, "lockstep ViT-B-32 fp32, both from pixels (AMD EPYC)") << "without a tag the device";
  EXPECT_EQ(series[1].name, "lockstep ViT-B-32 fp32, both from pixels (mine)");
  EXPECT_EQ(series[2].name, "lockstep ViT-B-32 fp32, both from pixels (yours)");
  EXPECT_EQ(series[1].x, (std::vector<double>{1, 8})) << "a line runs from small to large";
  EXPECT_EQ(series[1].y, (std::vector<double>{9, 40}));
}

TEST(LatencyCharts, APointWithoutAnIntervalHasNoBounds) {
  RunSummary with = point_of_sweep("0001", "mine", 8, 40);
  with.latency_points[0].p50_low_ms = 38;
  with.latency_points[0].p50_high_ms = 43;
  const RunSummary without = point_of_sweep("0002", "mine", 1, 9), published = point_of_sweep("table", "theirs", 1, 4);
  const auto charts = latency_charts({with, without, published});
  ASSERT_EQ(charts.size(), 1u);
  const auto& series = charts[0].series;
  ASSERT_EQ(series.size(), 2u);
  ASSERT_EQ(series[0].low.size(), 2u);
  EXPECT_TRUE(std::isnan(series[0].low[0]) && std::isnan(series[0].high[0]));
  EXPECT_EQ(series[0].low[1], 38);
  EXPECT_EQ(series[0].high[1], 43);
  EXPECT_TRUE(series[1].low.empty() && series[1].high.empty()) << "not one point of the line has an interval";
}

TEST(LatencyTable, APublishedRowDoesNotSayWhetherThereWasAText) {
  RunSummary published = point_of_sweep("table", "", 1, 14), pictures = point_of_sweep("0001", "", 1, 9);
  published.latency_points[0].tower = "";
  pictures.latency_points[0].tower = "image";
  const draw::Table table = latency_table({published, pictures});
  const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                   [](const draw::Column& each) { return each.title == "text tokens"; });
  ASSERT_NE(column, table.columns.end());
  const auto place = static_cast<size_t>(column - table.columns.begin());
  EXPECT_EQ(table.rows.at(0).at(place).note, "the source does not tell");
  EXPECT_EQ(table.rows.at(1).at(place).note, "no text");
}

}  // namespace
}  // namespace lockstep::analysis
