#include "stats/distributions.h"

#include <gtest/gtest.h>

namespace lockstep::stats {
namespace {

TEST(Distributions, PublishedTables) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540, 1e-10);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306168, 1e-10);
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.7062047362, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.30265272991, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.26215716274, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.995, 30), 2.74999565357, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.95996636, 1e-6);
}

TEST(Distributions, QuantilesUndoTheDistributionFunctions) {
  for (const double p : {1e-8, 1e-4, 0.02, 0.4, 0.5, 0.6, 0.999}) {
    EXPECT_NEAR(normal_cdf(normal_quantile(p)), p, 1e-9 * p);
    for (const double dof : {1.0, 1.5, 4.3, 77.0, 5000.0})
      EXPECT_NEAR(student_t_cdf(student_t_quantile(p, dof), dof), p, 1e-9 * p) << dof;
  }
}

}  // namespace
}  // namespace lockstep::stats
