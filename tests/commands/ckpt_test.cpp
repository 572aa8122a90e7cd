#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "checkpoint/manifest.h"
#include "commands/faulty_files.h"
#include "core/files.h"
#include "core/json.h"
#include "core/process.h"
#include "core/strings.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using core::CommandResult;
using core::Json;

CommandResult ckpt(const std::vector<std::string>& args) {
  core::ProcessOptions options{.argv = {std::string(LOCKSTEP_BUILD_DIR) + "/lockstep", "ckpt"}};
  options.argv.insert(options.argv.end(), args.begin(), args.end());
  return core::run_command(options, std::chrono::seconds(120));
}

/// A run with checkpoints at steps 10, 20 and 30, the last without a manifest.
class CkptCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (const int step : {10, 20, 30}) {
      const fs::path folder = checkpoint(step);
      fs::create_directories(folder);
      core::write_file_atomic(folder / "rank-0000.safetensors", "weights of " + std::to_string(step));
      checkpoint::CheckpointManifest manifest{
          .step = step, .attempt = 1, .world_size = 1, .epoch = 2, .samples_seen = step * 64, .created_s = 1.7e9};
      manifest.files.push_back(checkpoint::describe_file(folder, "rank-0000.safetensors"));
      if (step != 30) checkpoint::write_manifest(folder, manifest);
    }
  }
  fs::path checkpoint(int step) const { return run_.path() / "checkpoints" / checkpoint::checkpoint_name(step, 1); }
  void damage(int step) const { std::ofstream(checkpoint(step) / "rank-0000.safetensors") << "weights of XX"; }
  std::string run() const { return run_.path().string(); }

 private:
  core::TempDir run_;
};

TEST_F(CkptCommand, ListShowsTheNewestFirst) {
  const CommandResult result = ckpt({"list", run()});
  EXPECT_EQ(result.status.code, 0) << result.err;
  const size_t at30 = result.out.find("step-00000030.a1"), at20 = result.out.find("step-00000020.a1"),
               at10 = result.out.find("step-00000010.a1");
  ASSERT_NE(at10, std::string::npos) << result.out;
  EXPECT_LT(at30, at20);
  EXPECT_LT(at20, at10);
  EXPECT_NE(result.out.find("has no manifest"), std::string::npos) << result.out;
}

TEST_F(CkptCommand, TheListFitsATerminal) {
  const CommandResult result = ckpt({"list", run()});
  ASSERT_EQ(result.status.code, 0) << result.err;
  for (const std::string& line : core::split(result.out, "\n")) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(CkptCommand, ListAsJson) {
  for (const std::string& path : {run(), run() + "/", run() + "/checkpoints"}) {
    const CommandResult result = ckpt({"list", path, "--json"});
    ASSERT_EQ(result.status.code, 0) << result.err;
    const Json list = Json::parse(result.out).at("checkpoints");
    ASSERT_EQ(list.size(), 3u);
    EXPECT_EQ(list[0]["step"], 30);
    EXPECT_EQ(list[0]["usable"], false);
    EXPECT_EQ(list[1]["step"], 20);
    EXPECT_EQ(list[1]["usable"], true);
    EXPECT_EQ(list[1]["samples_seen"], 1280);
    EXPECT_EQ(list[1]["bytes"], 13);
  }
}

TEST_F(CkptCommand, VerifyFindsDamage) {
  fs::remove_all(checkpoint(30));
  EXPECT_EQ(ckpt({"verify", run()}).status.code, 0);
  damage(10);
  const CommandResult list = ckpt({"list", run(), "--json"});
  EXPECT_EQ(Json::parse(list.out)["checkpoints"][1]["usable"], true);  // list does not read the files
  const CommandResult verify = ckpt({"verify", run()});
  EXPECT_EQ(verify.status.code, 5);
  EXPECT_NE(verify.out.find("was altered: xxh3="), std::string::npos) << verify.out;
  const Json json = Json::parse(ckpt({"verify", run(), "--json"}).out)["checkpoints"];
  EXPECT_EQ(json[0]["verified"], true);
  EXPECT_EQ(json[1]["verified"], false);
  EXPECT_EQ(json[1]["problems"].size(), 1u);
}

TEST_F(CkptCommand, ListCallsACheckpointWithAFileOfTheWrongSizeDamaged) {
  const fs::path file = checkpoint(10) / "rank-0000.safetensors";
  ASSERT_TRUE(fs::exists(file));
  fs::resize_file(file, fs::file_size(file) - 1);
  const CommandResult text = ckpt({"list", run()});
  EXPECT_EQ(text.status.code, 0) << text.err;
  EXPECT_NE(text.out.find("DAMAGED\n    '" + file.string() + "' has the wrong size: bytes="), std::string::npos)
      << text.out;
  const Json list = Json::parse(ckpt({"list", run(), "--json"}).out)["checkpoints"];
  EXPECT_EQ(list[2]["usable"], false);
  EXPECT_EQ(list[2]["damaged"], true);
  EXPECT_EQ(list[1]["usable"], true);
  EXPECT_EQ(list[0]["damaged"], false) << "unfinished, not damaged";
}

TEST_F(CkptCommand, VerifyOfOneCheckpoint) {
  damage(10);
  EXPECT_EQ(ckpt({"verify", checkpoint(20).string()}).status.code, 0);
  EXPECT_EQ(ckpt({"verify", checkpoint(10).string()}).status.code, 5);
  EXPECT_EQ(ckpt({"verify", checkpoint(30).string() + "/"}).status.code, 5);
  fs::rename(checkpoint(20), run() + "/copy");
  EXPECT_EQ(ckpt({"verify", run() + "/copy"}).status.code, 0);
}

TEST_F(CkptCommand, VerifyOfAFileOfPyTorch) {
  const fs::path file = fs::path(run()) / "epoch_3.pt";
  std::string bytes = core::read_file(LOCKSTEP_GOLDEN_DIR "/pt/openclip_ddp.pt");
  core::write_file_atomic(file, bytes);
  const CommandResult whole = ckpt({"verify", file.string()});
  EXPECT_EQ(whole.status.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("epoch_3.pt: verified, "), std::string::npos) << whole.out;
  bytes[3700] ^= 1;  // of data/6
  core::write_file_atomic(file, bytes);
  const CommandResult damaged = ckpt({"verify", file.string()});
  EXPECT_EQ(damaged.status.code, 5) << damaged.err;
  EXPECT_NE(damaged.out.find("epoch_3.pt: DAMAGED\n    record 'openclip_ddp/data/6'"), std::string::npos)
      << damaged.out;
  const Json json = Json::parse(ckpt({"verify", file.string(), "--json"}).out)["checkpoints"];
  EXPECT_EQ(json[0]["damaged"], true);
  EXPECT_EQ(json[0]["problems"].size(), 1u);
  core::write_file_atomic(file, bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(ckpt({"verify", file.string()}).out.find("is no whole zip archive"), std::string::npos);
}

TEST_F(CkptCommand, AnUnfinishedCheckpointIsNoDamage) {
  EXPECT_EQ(ckpt({"verify", run()}).status.code, 0);
  for (const int step : {10, 20}) fs::remove(checkpoint(step) / checkpoint::kManifestName);
  EXPECT_EQ(ckpt({"verify", run()}).status.code, 5) << "none is whole";
}

TEST_F(CkptCommand, WhatCannotBeReadIsNoEmptyFolder) {
  fs::remove(checkpoint(20) / checkpoint::kManifestName);
  fs::create_symlink(checkpoint::kManifestName, checkpoint(20) / checkpoint::kManifestName);  // a loop
  EXPECT_EQ(ckpt({"verify", run()}).status.code, 5);
  EXPECT_EQ(Json::parse(ckpt({"list", run(), "--json"}).out)["checkpoints"][1]["state"], "unreadable");
  fs::rename(run() + "/checkpoints", run() + "/aside");
  std::ofstream(run() + "/checkpoints") << "no folder";
  EXPECT_EQ(ckpt({"list", run()}).status.code, 5);
}

TEST_F(CkptCommand, StorageThatFailsIsNoEmptyFolder) {
  if (tests::kHasAddressSanitizer) GTEST_SKIP() << "needs a preloaded library";
  const tests::FaultyFiles faulty;
  for (const int error : {EIO, ESTALE}) {
    const std::string fault = fmt::format("noread {}", error), reason = std::strerror(error);
    const auto folder = tests::run_lockstep({"ckpt", "list", run()}, faulty.environment(run() + "/checkpoints", fault));
    EXPECT_EQ(folder.exit_code, 5) << folder.out << folder.err;
    EXPECT_NE(folder.err.find("cannot list '" + run() + "/checkpoints': " + reason), std::string::npos) << folder.err;
    const fs::path manifest = checkpoint(20) / checkpoint::kManifestName;
    for (const std::string& named : {run(), checkpoint(20).string()}) {
      const auto list = tests::run_lockstep({"ckpt", "verify", named, "--json"}, faulty.environment(manifest, fault));
      EXPECT_EQ(list.exit_code, 5) << list.err;
      const Json entry = Json::parse(list.out)["checkpoints"][named == run() ? 1 : 0];
      EXPECT_EQ(entry["state"], "unreadable") << list.out;
      EXPECT_NE(entry["problems"].dump().find(reason), std::string::npos) << list.out;
    }
  }
}

TEST_F(CkptCommand, WhatIsNoRunIsRefused) {
  const core::TempDir empty;
  for (const std::string& path :
       {run() + "/no such folder", empty.path().string(), checkpoint(10).string() + "/rank-0000.safetensors"}) {
    const CommandResult result = ckpt({"verify", path});
    EXPECT_EQ(result.status.code, 5) << result.err;
    EXPECT_NE(result.err.find(path), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(ckpt({"list"}).status.code, 2);
  EXPECT_EQ(ckpt({"verify", run(), "--no-such-flag"}).status.code, 2);
}

}  // namespace
}  // namespace lockstep
