// Copies of runs, resuming from them, and shards behind addresses: real runs against moto's S3 server.
#include <algorithm>
#include <regex>

#include "commands/train_fixture.h"
#include "core/strings.h"
#include "support/s3_servers.h"

namespace lockstep::tests {
namespace {

class TrainRemote : public TrainFixture {
 protected:
  static void SetUpTestSuite() {
    TrainFixture::SetUpTestSuite();
    if (!S3Servers::moto_folder().empty()) servers_ = new S3Servers();
  }
  static void TearDownTestSuite() {
    delete servers_;
    servers_ = nullptr;
    TrainFixture::TearDownTestSuite();
  }
  void SetUp() override {
    TrainFixture::SetUp();
    if (IsSkipped()) return;
    if (servers_ == nullptr) GTEST_SKIP() << S3Servers::kMissing;
    servers_->order(
        {{"fail", 0}, {"drop", 0}, {"damage", 0}, {"hang", false}, {"delay_s", 0}, {"expired", false}, {"match", ""}});
  }

  static EnvChanges keys(const std::string& key_id = "test") {
    EnvChanges changes;
    for (const auto& [name, value] : servers_->variables(key_id)) changes[name] = value;
    return changes;
  }
  ProgramResult train_to(const std::string& folder, const std::string& name, std::vector<std::string> more = {},
                         const EnvChanges& changes = keys()) const {
    more.insert(more.end(), {"--remote-sync", "s3://runs/" + folder, "--save-every-n-steps", "5"});
    return train(name, more, changes);
  }
  /// Names below a folder of the bucket.
  static std::vector<std::string> stored(const std::string& folder) {
    remote::S3Client client("runs", servers_->config());
    std::vector<std::string> names;
    for (const auto& object : client.list(folder)) names.push_back(object.key);
    return names;
  }
  /// Forgets everything local, as on another machine.
  void forget(const std::string& name) const { fs::remove_all(logs_.path() / name); }

  inline static S3Servers* servers_ = nullptr;
};

TEST_F(TrainRemote, ARunGoesOnWhereNoneOfItsFilesAre) {
  ASSERT_EQ(train("whole", {"--max-steps", "14", "--save-every-n-steps", "5"}).exit_code, 0);
  const auto whole = losses("whole");
  const auto first = train_to("on", "run", {"--max-steps", "9"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_TRUE(core::starts_with(stored("on/run/status.json").at(0), "on/run/"));
  EXPECT_TRUE(stored("on/run/.write_test").empty());
  forget("run");
  const auto again = train_to("on", "run", {"--max-steps", "14"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("run 'run' already exists at s3://runs/on/run"), std::string::npos) << again.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "run"));  // a refused start leaves nothing
  const auto second = train_to("on", "run", {"--max-steps", "14", "--resume", "latest"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("fetched step-00000009.a1 from s3://runs/on/run"), std::string::npos) << second.err;
  EXPECT_EQ(losses("run"), whole);  // the record of the first part came along
  EXPECT_EQ(core::read_json_file(logs_.path() / "run/run.json").at("attempts").size(), 2u);
  EXPECT_EQ(stored("on/run/checkpoints/step-00000014.a2/").size(), 3u);
  forget("run");
  const auto other =
      train("other", {"--max-steps", "14", "--resume", "s3://runs/on/run/checkpoints/step-00000009.a1"}, keys());
  ASSERT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(losses("other"), std::vector<double>(whole.begin() + 9, whole.end()));
}

TEST_F(TrainRemote, AServerThatNeverAnswersStopsNoStep) {
  // The gate lets the test of writing pass and never answers another request.
  const auto args = train_args("hung", {"--max-steps", "12", "--remote-sync", "s3://runs/hung",
                                        "--remote-sync-frequency", "0.01", "--remote-sync-deadline", "1"});
  servers_->order({{"hang", true}, {"match", "/hung/hung/run.json"}});
  auto done = run_lockstep(args, keys());
  servers_->order({{"hang", false}});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(losses("hung").size(), 12u);
  EXPECT_NE(done.err.find("have not arrived at s3://runs/hung/hung"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("run.json"), std::string::npos) << done.err;
  EXPECT_EQ(record::read_status(logs_.path() / "hung").state, "finished");
}

TEST_F(TrainRemote, ASlowServerGetsTheFinalState) {
  constexpr double kDelayS = 0.1;  // of each answer; the steps take less
  servers_->order({{"delay_s", kDelayS}});
  const auto done = train_to("slow", "slow", {"--max-steps", "12", "--remote-sync-frequency", "0.01"});
  servers_->order({{"delay_s", 0}});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.err.find("remote: the run has arrived at s3://runs/slow/slow"), std::string::npos) << done.err;
  forget("slow");
  const auto more = train_to("slow", "slow", {"--max-steps", "13", "--resume", "latest"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("continuing after step 12"), std::string::npos) << more.err;
}

TEST_F(TrainRemote, FailuresOfTheServerReachNoStepAndTheFinalStateArrives) {
  servers_->order({{"fail", 5}, {"drop", 2}, {"damage", 2}, {"match", "PUT /runs/bad/bad/checkpoints"}});
  const auto done = train_to("bad", "bad", {"--max-steps", "12", "--remote-sync-frequency", "0.01"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  for (const char* fault : {"fail", "drop", "damage"}) EXPECT_EQ(servers_->order().at("orders").at(fault), 0) << fault;
  EXPECT_EQ(losses("bad").size(), 12u);
  EXPECT_NE(done.err.find("remote: the run has arrived at s3://runs/bad/bad"), std::string::npos) << done.err;
  forget("bad");
  const auto more = train_to("bad", "bad", {"--max-steps", "13", "--resume", "latest"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("continuing after step 12"), std::string::npos) << more.err;
}

TEST_F(TrainRemote, KeysThatExpireInMidRunHarmNothingAndRenewedOnesAreFound) {
  const fs::path file = logs_.path() / "credentials";
  const auto write_keys = [&](const std::string& key_id) {
    core::write_file_atomic(file,
                            fmt::format("[default]\naws_access_key_id = {}\naws_secret_access_key = secret\n", key_id));
  };
  write_keys("old");
  servers_->order({{"expired", "/renewed/renewed/checkpoints/step-"}});  // when the first checkpoint begins to travel
  auto args = train_args("renewed", {"--max-steps", "24", "--save-every-n-steps", "3", "--remote-sync",
                                     "s3://runs/renewed", "--remote-sync-frequency", "0.01"});
  args.insert(args.begin(), lockstep_program());
  core::ProcessOptions options{.argv = args, .err = core::ProcessOptions::Stream::kNull};
  for (const auto& [name, value] : keys()) options.env_changes.emplace_back(name, value);
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
    options.env_changes.emplace_back(name, std::nullopt);
  options.env_changes.emplace_back("AWS_SHARED_CREDENTIALS_FILE", file.string());
  auto process = core::Process::spawn(options);
  const auto log = [&] {
    const fs::path path = logs_.path() / "renewed/out.log";
    return fs::exists(path) ? core::read_file(path) : std::string();
  };
  const auto wait_for = [&](const auto& is_there) {
    while (!is_there() && !process.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return is_there();
  };
  EXPECT_TRUE(wait_for([&] { return log().find("ExpiredToken") != std::string::npos; })) << log();
  EXPECT_TRUE(wait_for([&] { return log().find("saved checkpoint step-00000024.a1") != std::string::npos; })) << log();
  EXPECT_TRUE(stored("renewed/renewed/checkpoints/step-00000024.a1/manifest.json").empty()) << log();
  write_keys("test");
  EXPECT_TRUE(process.wait().ok()) << log();
  EXPECT_NE(log().find("renew the keys of profile 'default' of " + file.string()), std::string::npos) << log();
  EXPECT_NE(log().find("remote: the run has arrived at s3://runs/renewed/renewed"), std::string::npos) << log();
  EXPECT_EQ(losses("renewed").size(), 24u);
  EXPECT_EQ(stored("renewed/renewed/checkpoints/step-00000024.a1/").size(), 3u);
}

/// Of 96 pictures: 12 steps an epoch.
TEST_F(TrainRemote, AFileOfOpenClipInABucketIsGoneOnFrom) {
  ASSERT_EQ(train("whole", {"--save-format", "openclip", "--save-frequency", "1"}).exit_code, 0);
  const auto whole = losses("whole");
  ASSERT_EQ(whole.size(), 24u);
  remote::S3Client("runs", servers_->config())
      .send({.method = "PUT",
             .key = "theirs/epoch_1.pt",
             .body = core::read_file(logs_.path() / "whole/checkpoints/epoch_1.pt")});
  const auto on = train("on", {"--resume", "s3://runs/theirs/epoch_1.pt"}, keys());
  ASSERT_EQ(on.exit_code, 0) << on.err;
  EXPECT_NE(on.err.find("continuing after step 12"), std::string::npos) << on.err;
  EXPECT_EQ(losses("on"), std::vector<double>(whole.begin() + 12, whole.end()));
  EXPECT_FALSE(fs::exists(logs_.path() / "on/fetched")) << "the run's own checkpoints hold all of it";
  const auto missing = train("none", {"--resume", "s3://runs/theirs/epoch_9.pt"}, keys());
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_NE(missing.err.find("epoch_9.pt"), std::string::npos) << missing.err;
  EXPECT_FALSE(fs::exists(logs_.path() / "none"));
}

TEST_F(TrainRemote, AProcessThatIsKilledInMidUploadGoesOnFromItsParts) {
  // The second part of the optimiser's file never gets an answer; then the process is killed.
  servers_->order({{"hang", true}, {"match", "optimizer.safetensors?partNumber=2"}});
  auto args = train_args("cut", {"--max-steps", "12", "--remote-sync", "s3://runs/cut", "--remote-sync-frequency",
                                 "0.01", "--remote-sync-deadline", "1000"});
  args.insert(args.begin(), lockstep_program());
  core::ProcessOptions options{.argv = args, .err = core::ProcessOptions::Stream::kNull};
  for (const auto& [name, value] : keys()) options.env_changes.emplace_back(name, value);
  auto process = core::Process::spawn(options);
  while (!servers_->has_part("cut/cut/checkpoints/step-00000012.a1/optimizer.safetensors", 1) && !process.poll())
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  process.kill_group();
  process.wait();
  servers_->order({{"hang", false}, {"match", ""}});
  EXPECT_TRUE(stored("cut/cut/checkpoints/step-00000012.a1/manifest.json").empty());
  const auto done = train_to("cut", "cut", {"--max-steps", "12", "--resume", "latest"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(stored("cut/cut/checkpoints/step-00000012.a1/").size(), 3u);
  EXPECT_EQ(servers_->num_requests("PUT", "cut/checkpoints/step-00000012.a1/optimizer.safetensors?partNumber=1"), 1);
  EXPECT_TRUE(remote::S3Client("runs", servers_->config()).list_unfinished("cut/").empty());
}

TEST_F(TrainRemote, BadPlacesAreRefusedBeforeTheFirstStep) {
  const auto refused = [&](const std::string& where, const EnvChanges& changes, const std::string& why) {
    const auto done = train("refused", {"--max-steps", "2", "--remote-sync", where}, changes);
    EXPECT_NE(done.exit_code, 0) << where;
    EXPECT_NE(done.err.find(why), std::string::npos) << where << ": " << done.err;
    EXPECT_FALSE(fs::exists(logs_.path() / "refused")) << where;
  };
  refused("s3://no-such-bucket/x", keys(), "(NoSuchBucket");
  refused("s3://runs/x", keys("nobody"), "(InvalidAccessKeyId");
  auto none = keys();
  none["AWS_ACCESS_KEY_ID"] = none["AWS_SECRET_ACCESS_KEY"] = std::nullopt;
  refused("s3://runs/x", none, "hint: no credentials were found; looked for AWS_ACCESS_KEY_ID");
  refused("gs://runs/x", keys(), "--remote-sync got 'gs://runs/x', expected s3://BUCKET/FOLDER or a path");
  refused("s3://x", keys(), "names no bucket");
  refused("/proc/no/such", {}, "cannot use '/proc/no/such/refused'");
  servers_->order({{"expired", true}});
  refused("s3://runs/x", keys("old"), "hint: keys of the environment stay as they were at the start of a process");
}

class TrainOnAddresses : public TrainRemote {
 protected:
  /// The shards of the fixture in the bucket.
  static std::string uploaded_shards() {
    remote::S3Client client("runs", servers_->config());
    for (int shard = 0; shard < 4; ++shard) {
      const std::string name = fmt::format("train-{:06}.tar", shard);
      client.send({.method = "PUT",
                   .key = "data/" + name,
                   .headers = {{"x-amz-acl", "public-read"}},
                   .body = core::read_file(fs::path(shapes("train_shards")).parent_path() / name)});
    }
    return "s3://runs/data/train-{000000..000003}.tar";
  }
  std::vector<std::string> on(const std::string& shards) const {
    return {"--train-data", shards, "--train-num-samples", "96", "--max-steps", "14"};
  }
};

TEST_F(TrainOnAddresses, ShardsOfABucketGiveTheLossesOfFiles) {
  const auto local = train("files", on("pipe:cat " + shapes("train_shards")));  // without an index, as in the bucket
  ASSERT_EQ(local.exit_code, 0) << local.err;
  const std::string shards = uploaded_shards();
  servers_->order({{"fail", 3}, {"match", "GET /runs/data/"}});
  const auto remote = train("bucket", on(shards), keys());
  ASSERT_EQ(remote.exit_code, 0) << remote.err;
  EXPECT_EQ(servers_->order().at("orders").at("fail"), 0);
  EXPECT_EQ(losses("bucket"), losses("files"));
  EXPECT_EQ(losses("files").size(), 14u);
  const auto web = train("web", on(servers_->store_endpoint() + "/runs/data/train-{000000..000003}.tar"));
  ASSERT_EQ(web.exit_code, 0) << web.err;
  EXPECT_EQ(losses("web"), losses("files"));
}

TEST_F(TrainOnAddresses, SaysWhatIsWrongWithAShard) {
  uploaded_shards();
  const auto refused = [&](const std::string& shards, const EnvChanges& changes, const std::string& why) {
    const auto done = train("wrong", on(shards), changes);
    EXPECT_EQ(done.exit_code, 4) << done.err;
    EXPECT_NE(done.err.find(why), std::string::npos) << done.err;
  };
  refused("s3://runs/data/none-{000..003}.tar", keys(), "cannot read shard 's3://runs/data/none-000.tar'");
  refused("s3://no-such-bucket/{000..003}.tar", keys(), "(NoSuchBucket");
  refused("s3://runs/data/train-{000000..000003}.tar", keys("nobody"), "status=403 (InvalidAccessKeyId");
  refused(servers_->endpoint() + "/runs/data/train-{000000..000003}.tar", {}, "status=403");
  refused("http://127.0.0.1:9/{000..003}.tar", {}, "is the address right");
}

}  // namespace
}  // namespace lockstep::tests
