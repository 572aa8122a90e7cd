#include "optim/make_optimizer.h"

#include <gtest/gtest.h>

#include "config/optimizers.h"
#include "core/error.h"

namespace lockstep::optim {
namespace {

TEST(MakeOptimizer, MakesEveryOptimizerOfTheTable) {
  for (const config::OptimizerInfo& info : config::kOptimizers) {
    const auto optimizer = make_optimizer({.name = std::string(info.name)}, {});
    ASSERT_NE(optimizer, nullptr) << info.name;
    // The step counter is no moment: 0-dim, so no memory plan counts it.
    const auto names = optimizer->state_names();
    EXPECT_EQ(std::ssize(names) - std::count(names.begin(), names.end(), "step"), info.num_moments) << info.name;
  }
}

TEST(MakeOptimizer, RefusesOthersByName) {
  try {
    make_optimizer({.name = "no-such-optimizer"}, {});
    FAIL() << "made an optimiser that is not in the table";
  } catch (const UsageError& error) {
    EXPECT_NE(error.text().find("--opt no-such-optimizer"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("adamw"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace lockstep::optim
