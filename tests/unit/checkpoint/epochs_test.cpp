#include "checkpoint/epochs.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

TEST(EpochsDone, AreThoseOfRunsOverEpochs) {
  CheckpointManifest manifest{.epoch = 2};
  EXPECT_EQ(epochs_done(manifest), std::nullopt);
  manifest.extra = {{"caller", {{"global_batch", 4}}}};
  EXPECT_EQ(epochs_done(manifest), std::nullopt) << "a GPT's, which counts evaluations";
  manifest.extra["caller"]["steps_per_epoch"] = 10;
  EXPECT_EQ(epochs_done(manifest), 2);
}

}  // namespace
}  // namespace lockstep::checkpoint
