// What ranks of `train imagenet` do together before there is a model.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <vector>

#include "comm/store.h"
#include "comm/world.h"
#include "core/files.h"
#include "tasks/imagenet/engine/imagenet_data.h"
#include "unit/data/labelled_pictures.h"

namespace lockstep::tasks {
namespace {

/// A node that has its copy waits as for long work, which no time limit of a collective ends: rank 0's index is the
/// first such wait, the copies are the second.
TEST(ImagenetData, CopiesOfNodesAreLongWork) {
  const core::TempDir dir;
  const std::string pictures = tests::write_class_folders(dir.path() / "pictures");
  const comm::Store store = comm::Store::serve(0, std::chrono::seconds(20));
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      hw::RankInfo info;
      info.rank = info.local_rank = rank;
      info.world_size = info.local_world_size = 2;
      info.master_port = store.port();
      info.store_is_hosted_by_launcher = true;
      comm::World world = comm::World::join(info, {.report_interval = std::chrono::milliseconds(20)});
      ImagenetOptions options;
      options.train_data = pictures;
      options.num_classes = 3;
      options.stage_to = (dir.path() / fmt::format("node{}", rank)).string();
      const ImagenetData data(options, world,
                              {.num_data_ranks = 2, .micro_batch_size = 1, .num_micro_batches = 1, .global_batch = 2});
      world.comm().barrier();
    }));
  for (auto& rank : ranks) rank.get();
  for (const char* node : {"node0", "node1"}) EXPECT_TRUE(std::filesystem::exists(dir.path() / node)) << node;
  comm::Store names = store.under("attempt_0");
  EXPECT_TRUE(names.has("long_wait/0"));
  EXPECT_TRUE(names.has("long_wait/1"));
  EXPECT_FALSE(names.has("long_wait/2"));
}

}  // namespace
}  // namespace lockstep::tasks
