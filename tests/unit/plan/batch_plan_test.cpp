#include "plan/batch_plan.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace lockstep::plan {
namespace {

UsageError refusal(int64_t num_data_ranks, const BatchRequest& request, const BatchFlags& flags = {}) {
  try {
    make_batch_plan(num_data_ranks, request, flags);
  } catch (const UsageError& error) {
    return error;
  }
  ADD_FAILURE() << "accepted";
  return UsageError("");
}

TEST(BatchPlan, EveryWishThatFitsMultipliesOut) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t micro = 1; micro <= 5; ++micro)
      for (int64_t accum = 1; accum <= 4; ++accum) {
        const int64_t global = ranks * micro * accum;
        for (const BatchRequest& request : {BatchRequest{micro, accum, {}}, BatchRequest{micro, {}, global},
                                            BatchRequest{{}, accum, global}, BatchRequest{micro, accum, global}}) {
          const BatchPlan plan = make_batch_plan(ranks, request);
          EXPECT_EQ(plan.num_data_ranks, ranks);
          EXPECT_EQ(plan.micro_batch_size, micro);
          EXPECT_EQ(plan.num_micro_batches, accum);
          EXPECT_EQ(plan.global_batch, global);
          EXPECT_EQ(plan.samples_per_replica(), micro * accum);
        }
      }
}

TEST(BatchPlan, MisfitNamesBothNeighboursAndTheFlag) {
  const UsageError error = refusal(24, {.micro_batch_size = 4, .global_batch = 4000});
  EXPECT_NE(std::string(error.what()).find("--global-batch-size=4000"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("multiple of 96"), std::string::npos) << error.what();
  EXPECT_EQ(error.hint(), "use --global-batch-size 3936 or 4032");
  EXPECT_EQ(refusal(24, {.micro_batch_size = 4, .global_batch = 5}).hint(), "use --global-batch-size 96");
  EXPECT_EQ(refusal(4, {.micro_batch_size = 4, .global_batch = 8}).hint(),
            "use --batch-size 2, or else --global-batch-size 16");
  EXPECT_EQ(refusal(2, {.micro_batch_size = 8, .global_batch = 20}).hint(),
            "use --batch-size 5, or else --global-batch-size 16 or 32");
  EXPECT_EQ(refusal(4, {.num_micro_batches = 2, .global_batch = 12}).hint(), "use --global-batch-size 8 or 16");
  EXPECT_NE(
      std::string(refusal(1, {.num_micro_batches = 2, .global_batch = 5}).what()).find("(1 rank x --accum-freq 2)"),
      std::string::npos);
  // Neighbours of 100 that are multiples of 8 would not do: with all three flags there is one answer.
  EXPECT_EQ(refusal(1, {.micro_batch_size = 8, .num_micro_batches = 2, .global_batch = 100}).hint(),
            "leave out one of the three flags, or use --global-batch-size 16");
}

TEST(BatchPlan, ContradictionNamesTheFlagsOfTheDialect) {
  const BatchFlags flags{
      .micro_batch_size = "--micro-batch-size", .num_micro_batches = "--accum", .global_batch = "--global-batch-size"};
  const UsageError error = refusal(2, {.micro_batch_size = 4, .num_micro_batches = 3, .global_batch = 16}, flags);
  EXPECT_NE(std::string(error.what())
                .find("--global-batch-size=16 contradicts 2 data ranks x --micro-batch-size 4 x --accum 3"),
            std::string::npos)
      << error.what();
  EXPECT_EQ(error.hint(), "leave out one of the three flags, or use --global-batch-size 24");
}

TEST(BatchPlan, RefusesWhatIsNoBatch) {
  EXPECT_EQ(refusal(1, {}).hint(), "set --batch-size or --global-batch-size");
  EXPECT_NE(std::string(refusal(1, {.micro_batch_size = 0}).what()).find("--batch-size is 0"), std::string::npos);
  EXPECT_NE(std::string(refusal(1, {.micro_batch_size = 1, .num_micro_batches = -1}).what()).find("--accum-freq is -1"),
            std::string::npos);
  EXPECT_NE(std::string(refusal(8, {.micro_batch_size = int64_t{1} << 62}).what()).find("64 bits"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::plan
