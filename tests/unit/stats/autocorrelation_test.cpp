#include "stats/autocorrelation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"

namespace lockstep::stats {
namespace {

TEST(Autocorrelation, NormalScoresKeepTheOrderAndShareTies) {
  const std::vector<double> scores = normal_scores(std::vector<double>{30, 10, 1e9, 10});
  EXPECT_GT(scores[2], scores[0]);
  EXPECT_GT(scores[0], scores[1]);
  EXPECT_EQ(scores[1], scores[3]);
  EXPECT_NEAR(scores[2], 1.15034938, 1e-8);  // the fourth of four ranks: the normal quantile of 3.5 / 4
  EXPECT_EQ(normal_scores(std::vector<double>(5, 7.0)), std::vector<double>(5, 0.0));
}

TEST(Autocorrelation, TimesOfAnAutoregressiveSeriesAreThoseOfTheFormula) {
  for (const double rho : {0.0, 0.5, 0.8}) {
    core::CounterRng random(core::stream_key({17, static_cast<uint64_t>(100 * rho)}));
    std::vector<double> series{random.normal()};
    while (series.size() < 20000) series.push_back(rho * series.back() + std::sqrt(1 - rho * rho) * random.normal());
    const Dependence dependence = estimate_dependence(normal_scores(series));
    double sum = 0;
    for (int lag = 1; lag < 200; ++lag) sum += 2 / M_PI * std::asin(std::pow(rho, lag));
    EXPECT_NEAR(dependence.time_mean, (1 + rho) / (1 - rho), 0.15 * (1 + rho) / (1 - rho)) << rho;
    EXPECT_NEAR(dependence.time_median, 1 + 2 * sum, 0.15 * (1 + 2 * sum)) << rho;
    EXPECT_NEAR(autocorrelation(normal_scores(series), 1), rho, 0.02);
    EXPECT_NEAR(autocorrelation(series, 3), std::pow(rho, 3), 0.04);
  }
}

TEST(Autocorrelation, AlternatingAndConstantSeries) {
  std::vector<double> series;
  for (int i = 0; i < 100; ++i) series.push_back(i % 2);
  EXPECT_LT(autocorrelation(series, 1), -0.9);
  EXPECT_EQ(estimate_dependence(normal_scores(series)).time_mean, 0.75)
      << "never worth much more than independent values";
  EXPECT_EQ(autocorrelation(std::vector<double>(50, 3.0), 1), 0);
  const Dependence constant = estimate_dependence(std::vector<double>(50, 0.0));
  EXPECT_EQ(constant.time_mean, 1);
  EXPECT_TRUE(std::isfinite(constant.dof));
}

}  // namespace
}  // namespace lockstep::stats
