#include "config/changed_settings.h"

#include <gtest/gtest.h>

#include <optional>

namespace lockstep::config {
namespace {

TEST(ChangedSettings, SchedulesAndConfigurationsAreCompared) {
  double wd = 0.1;
  std::optional<double> beta1 = 0.8;
  bool augments = true;
  std::string data = "a.tar", name = "run";
  int64_t steps = 4, unknown = 1;
  core::OptionSet set("train it", "For this test.");
  set.require_roles();
  set.add("wd", &wd, {.role = core::OptionRole::kSchedule, .help = "One."});
  set.add("beta1", &beta1, {.role = core::OptionRole::kSchedule, .help = "One."});
  set.add("train-data", &data, {.role = core::OptionRole::kConfiguration, .help = "One."});
  set.add("color-jitter", &augments, {.role = core::OptionRole::kConfiguration, .help = "One."});
  set.add("name", &name, {.role = core::OptionRole::kIdentity, .help = "One."});
  set.add("max-steps", &steps, {.role = core::OptionRole::kIdentity, .help = "One."});
  set.add("new-one", &unknown, {.role = core::OptionRole::kSchedule, .help = "One."});
  core::Json recorded = set.values_json();
  recorded.erase("new_one");
  EXPECT_TRUE(changed_settings(set, recorded).empty());
  wd = 0.3, beta1.reset(), data = "b.tar", augments = false, name = "other", steps = 8;
  EXPECT_EQ(changed_settings(set, recorded),
            (std::vector<std::string>{"--wd 0.3 (before 0.1)", "--beta1 none (before 0.8)",
                                      "--train-data 'b.tar' (before 'a.tar')", "--color-jitter off (before on)"}));
  EXPECT_TRUE(changed_settings(set, core::Json::object()).empty());
}

}  // namespace
}  // namespace lockstep::config
