// The page of predictions: what stands on it, and that all of it can be written.
#include "predict/document.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "draw/render.h"

namespace lockstep::predict {
namespace {

TEST(PredictPage, ShowsScoresCurvesAndBothKindsOfPoints) {
  std::vector<Validation> validations;
  for (const MeasuredCurve& curve :
       read_table_curves(std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "published" / "nemotron4_340b_h100.csv"))
    validations.push_back(validate_curve(curve, 256));
  const draw::Document document = validations_document(validations);
  ASSERT_EQ(document.sections.size(), 3u);
  const draw::Chart chart = efficiency_chart(validations[0].prediction, validations[0].judged);
  ASSERT_EQ(chart.series.size(), 5u);
  EXPECT_EQ(chart.series[3].x, (std::vector<double>{128, 256}));
  EXPECT_EQ(chart.series[4].x, (std::vector<double>{512, 1024, 2048}));
  EXPECT_NEAR(chart.series[4].y[2], 100 * 4.61 / 4.84, 1e-9);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_LT(chart.series[0].low[i], chart.series[1].low[i]);
    EXPECT_GT(chart.series[0].high[i], chart.series[1].high[i]);
  }
  core::TempDir folder;
  const auto files = draw::write_document(document, folder.path(), {"html", "csv", "svg"});
  EXPECT_NE(core::read_file(files.front()).find("kept back"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::predict
