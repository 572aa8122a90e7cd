#include <gtest/gtest.h>

#include <set>

#include "bench/find_batch.h"
#include "core/error.h"

namespace lockstep::bench {
namespace {

TEST(FindBatch, FindsEveryLimitWithFewAttempts) {
  for (const int64_t multiple : {1, 8, 12})
    for (int64_t limit = 0; limit <= 600; ++limit) {
      std::set<int64_t> tried;
      const auto search = find_largest_batch(multiple, 512, [&](int64_t samples) {
        EXPECT_TRUE(tried.insert(samples).second) << "tried twice: " << samples;
        return BatchProbe{.samples = samples, .fits = samples <= limit};
      });
      EXPECT_EQ(search.best, std::min<int64_t>(limit, 512) / multiple * multiple)
          << "limit " << limit << " multiple " << multiple;
      EXPECT_LE(search.probes.size(), 20u);
    }
}

TEST(FindBatch, AFailureOtherThanMemoryIsNotTakenForALimit) {
  EXPECT_THROW(find_largest_batch(8, 64, [](int64_t) -> BatchProbe { throw Error(ExitCode::kInternal, "broken"); }),
               Error);
}

}  // namespace
}  // namespace lockstep::bench
