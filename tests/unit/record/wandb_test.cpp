#include "record/wandb.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/files.h"
#include "core/strings.h"

namespace lockstep::record {
namespace {

const std::string kGolden = std::string(LOCKSTEP_GOLDEN_DIR) + "/record/run.wandb";

TEST(Wandb, AFileEqualsTheOneOfWandbsOwnWriter) {
  WandbFrames frames;
  std::string file = WandbFrames::file_header();
  int64_t number = 0;
  const auto add = [&](const std::string& record) { file += frames.frame(record); };
  const WandbRun run{.id = "vit-b32",
                     .project = "open-clip",
                     .notes = "a test",
                     .config = {{"lr", 0.001}, {"model", "ViT-B-32"}, {"notes", std::string(40000, 'x')}},
                     .is_resumed = true};
  add(encode_wandb_header(++number, "lockstep"));
  add(encode_wandb_run(++number, run, "node1", 1795400307.5));
  for (int64_t step = 0; step < 200; ++step) {
    const NamedNumbers values{{"train/loss", 1.0 / static_cast<double>(step + 1)},
                              {"train/scale", step == 3 ? std::nan("") : 14.5}};
    add(encode_wandb_summary(++number, values));
    add(encode_wandb_history(++number, step, values));
  }
  add(encode_wandb_exit(++number, 75, 60));
  const std::string golden = core::read_file(kGolden);
  ASSERT_GT(golden.size(), 2u * 32768) << "several blocks";
  EXPECT_EQ(file.size(), golden.size());
  EXPECT_TRUE(file == golden) << "first difference at byte "
                              << std::mismatch(file.begin(), file.end(), golden.begin(), golden.end()).first -
                                     file.begin();
}

TEST(Wandb, ARunLeavesAFolderThatSyncTakes) {
  const core::TempDir folder("wandb");
  std::filesystem::path path;
  {
    AppendQueue queue;
    WandbWriter writer(folder.path(), {.id = wandb_id("a/b:c"), .project = "p"}, queue);
    writer.add_scalars(7, {{"train/loss", 1.5}});
    writer.add_scalars(7, {});
    writer.finish(0);
    path = writer.path();
  }
  EXPECT_EQ(path.filename(), "run-a-b-c.wandb");
  const std::string name = path.parent_path().filename().string();
  EXPECT_TRUE(core::starts_with(name, "offline-run-") && core::ends_with(name, "-a-b-c")) << name;
  EXPECT_EQ(name.size(), std::string("offline-run-20261123_021827-a-b-c").size());
  const std::string bytes = core::read_file(path);
  EXPECT_EQ(bytes.substr(0, 4), ":W&B");
  for (const char* part : {"train/loss", "1.5", "_timestamp", "_runtime", "_step"})
    EXPECT_NE(bytes.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace lockstep::record
