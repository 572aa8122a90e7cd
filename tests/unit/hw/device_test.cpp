#include "hw/device.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "core/error.h"

namespace lockstep::hw {
namespace {

TEST(Device, CpuNeedsNoGpu) { EXPECT_EQ(choose_device(DeviceKind::kCpu, 0, 3, 4).kind, DeviceKind::kCpu); }

TEST(Device, TheOnlyVisibleOneWhateverTheLocalRank) {
  for (int local_rank = 0; local_rank < 4; ++local_rank)
    EXPECT_EQ(choose_device(DeviceKind::kCuda, 1, local_rank, 4).index, 0);
}

TEST(Device, LocalRankWhereSeveralAreVisible) {
  for (int local_rank = 0; local_rank < 4; ++local_rank)
    EXPECT_EQ(choose_device(DeviceKind::kCuda, 4, local_rank, 4).index, local_rank);
  EXPECT_EQ(choose_device(DeviceKind::kCuda, 8, 1, 2).index, 1);
}

TEST(Device, AnUnfittingCountNamesBothNumbers) {
  for (const int local_rank : {0, 1, 4}) {
    try {
      choose_device(DeviceKind::kCuda, 2, local_rank, 5);
      FAIL() << "accepted";
    } catch (const EnvironmentError& error) {
      EXPECT_STREQ(error.what(), "hw: 5 local ranks, but only 2 GPUs are visible");
    }
  }
  EXPECT_THROW(choose_device(DeviceKind::kCuda, 2, 2, 1), EnvironmentError);  // local size unknown, rank does not fit
}

TEST(Device, NoVisibleGpuIsAnError) { EXPECT_THROW(choose_device(DeviceKind::kCuda, 0, 0, 1), EnvironmentError); }

TEST(Cores, SharedOutButNeverBelowOne) {
  EXPECT_GE(usable_cpu_cores(), 1);
  EXPECT_EQ(cpu_threads_per_rank(16, 4), 4);
  EXPECT_EQ(cpu_threads_per_rank(15, 4), 3);
  EXPECT_EQ(cpu_threads_per_rank(2, 8), 1);
}

TEST(Device, ThreadsAreThoseOfTheFlagTheVariableOrTheCoresInThisOrder) {
  const auto count = [](int64_t asked, const std::optional<std::string>& variable) {
    return choose_threads(asked, variable, 6, 2, 12).count;
  };
  EXPECT_EQ(count(3, "5"), 3);
  EXPECT_EQ(count(0, "5"), 5);
  EXPECT_EQ(count(0, "4,2"), 4);
  for (const char* none : {"0", "-1", "many", "99999"}) EXPECT_EQ(count(0, none), 6) << none;
  EXPECT_EQ(count(0, std::nullopt), 6);
  EXPECT_EQ(choose_threads(0, "5", 6, 2, 12).reason, "OMP_NUM_THREADS");
  EXPECT_EQ(choose_threads(0, std::nullopt, 6, 2, 12).reason, "its share of the cores that 2 ranks have");
}

TEST(Device, ThreadsThatWereNotMeantSoAreWarnedAbout) {
  using Texts = std::vector<std::string>;
  for (const char* none : {"0", "abc", "-1", "99999", ""})
    EXPECT_EQ(choose_threads(0, none, 6, 2, 12).warnings,
              Texts{std::string("OMP_NUM_THREADS='") + none +
                    "' is no number in [1, 4096] and has no effect: 6 compute threads a rank, its share of the cores "
                    "that 2 ranks have"});
  EXPECT_EQ(choose_threads(3, "abc", 6, 2, 12).warnings, Texts{}) << "the flag says it";
  EXPECT_EQ(choose_threads(6, std::nullopt, 6, 2, 12).warnings, Texts{});
  EXPECT_EQ(
      choose_threads(0, "4", 3, 4, 12).warnings,
      Texts{"4 ranks x 4 compute threads (OMP_NUM_THREADS) on 12 cores: they hinder each other; start fewer ranks, "
            "or give each at most 3 with --threads"});
  EXPECT_EQ(choose_threads(0, std::nullopt, 1, 4, 2).warnings,
            Texts{"4 ranks x 1 compute threads (its share of the cores that 4 ranks have) on 2 cores: they hinder each "
                  "other; start fewer ranks"});
}

TEST(Device, ACoreOfItsOwnIsNotSharedOutAgain) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const std::string bound = cpu_mask_text();
  EXPECT_EQ(cpu_cores_of_rank(1, 4), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(bound, std::to_string(core));
  EXPECT_EQ(cpu_mask_text() == bound, CPU_COUNT(&before) == 1);
}

}  // namespace
}  // namespace lockstep::hw
