// Against moto's S3 server behind the gate, which verifies signatures with botocore.
#include "remote/s3_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"
#include "remote/remote_reader.h"
#include "support/error_text.h"
#include "support/s3_servers.h"

namespace lockstep::remote {
namespace {
namespace fs = std::filesystem;

class S3StoreTest : public tests::S3Test {
 protected:
  S3Store store(const std::string& folder, const std::string& key_id = "test") const {
    return S3Store(parse_address("s3://runs/" + folder), servers_->config(key_id));
  }
  /// A file of bytes that tell their place.
  fs::path make_file(int64_t bytes) const {
    std::string content(static_cast<size_t>(bytes), '\0');
    for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761U >> 13);
    const fs::path path = folder_.path() / "file";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static OutgoingFile outgoing(const fs::path& path) {
    return {.file = core::open_for_reading(path), .bytes = static_cast<int64_t>(fs::file_size(path))};
  }
  void send(S3Store& store, const std::string& name, const fs::path& path, UploadMemory memory = {}) const {
    store.upload(name, outgoing(path), memory);
  }

  core::TempDir folder_{"lockstep_s3_store"};
};

TEST_F(S3StoreTest, KeepsFilesUnderTheirNames) {
  auto own = store("plain/a b+c~d");
  test_writing(own);
  EXPECT_TRUE(own.list("").empty());
  own.put("x/1 &<>'\".txt", "one");
  own.put("x/2.txt", "");
  const auto files = own.list("x/");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "x/1 &<>'\".txt");
  EXPECT_EQ(files[0].bytes, 3);
  EXPECT_EQ(own.read("x/1 &<>'\".txt"), "one");
  own.download("x/2.txt", folder_.path() / "two");
  EXPECT_EQ(fs::file_size(folder_.path() / "two"), 0u);
  own.remove("x/2.txt");
  EXPECT_EQ(own.list("").size(), 1u);
  EXPECT_EQ(own.text(), "s3://runs/plain/a b+c~d");
}

TEST_F(S3StoreTest, KeysThatLeaveTheFolderAreNotListed) {
  S3Client client("runs", servers_->config());
  for (const char* key : {"odd/good/file", "odd//tmp/absolute", "odd/tensorboard/../../../relative", "odd/./dot"})
    client.send({.method = "PUT", .key = key, .body = "x"});
  ASSERT_EQ(client.list("odd/").size(), 4u);
  const auto files = store("odd").list("");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, "good/file");
}

TEST_F(S3StoreTest, KeysThatMayNotDeleteWillDo) {
  servers_->order({{"forbid", "DELETE"}});
  auto own = store("kept");
  EXPECT_NO_THROW(test_writing(own));
  EXPECT_EQ(own.list(".write_test").size(), 1u);
  servers_->order({{"forbid", "PUT"}});
  EXPECT_THROW(test_writing(own), RemoteError);
  servers_->order({{"forbid", ""}});
}

TEST_F(S3StoreTest, LargeFilesTravelInParts) {
  auto own = store("large");
  const fs::path path = make_file(2 * kPartBytes + 12345);
  send(own, "file", path);
  EXPECT_EQ(servers_->num_requests("PUT", "/runs/large/file?partNumber="), 3);
  own.download("file", folder_.path() / "back");
  EXPECT_EQ(core::read_file(folder_.path() / "back"), core::read_file(path));
  EXPECT_EQ(part_bytes_of(1), kPartBytes);
  EXPECT_GE(part_bytes_of(int64_t{1} << 40) * 10'000, int64_t{1} << 40);
  EXPECT_LT(part_bytes_of(int64_t{1} << 40) * 9'900, int64_t{1} << 40);
}

TEST_F(S3StoreTest, PartsOfLargeFilesTravelAtOnce) {
  auto own = store("at_once");
  constexpr int kNumParts = 9;
  const fs::path path = make_file(kNumParts * kPartBytes);
  servers_->order({{"gather", 4}, {"most_at_once", 0}, {"match", "partNumber="}});
  send(own, "file", path);
  servers_->order({{"gather", 0}, {"match", ""}});
  EXPECT_EQ(servers_->num_requests("PUT", "at_once/file?partNumber="), kNumParts);
  const int most = servers_->order().at("orders").at("most_at_once");
  EXPECT_GE(most, 4);
  EXPECT_LE(most, 6);
  own.download("file", folder_.path() / "back");
  EXPECT_TRUE(core::read_file(folder_.path() / "back") == core::read_file(path));
}

TEST_F(S3StoreTest, PartsGrowWithTheFile) {
  EXPECT_EQ(part_bytes_of(int64_t{500} << 20), kPartBytes);
  EXPECT_EQ(part_bytes_of(int64_t{1} << 30), 2 * kPartBytes);
  EXPECT_EQ(part_bytes_of(int64_t{100} << 30), 8 * kPartBytes);
}

TEST_F(S3StoreTest, AnUploadThatWasCutOffGoesOnWhereItWas) {
  auto own = store("cut");
  const fs::path path = make_file(3 * kPartBytes);
  UploadMemory memory;
  int num_saved = 0;
  memory.save = [&] { ++num_saved; };
  servers_->order({{"fail", 100}, {"match", "partNumber=3"}});
  EXPECT_THROW(own.upload("file", outgoing(path), memory), RemoteError);
  EXPECT_EQ(num_saved, 1);
  EXPECT_TRUE(own.list("").empty());  // what is not whole is not there
  servers_->order({{"fail", 0}});
  auto other = store("cut");  // another process
  UploadMemory restored{.state = core::parse_json(memory.state.dump(), "memory")};
  other.upload("file", outgoing(path), restored);
  EXPECT_EQ(servers_->num_requests("PUT", "cut/file?partNumber=1"), 1);
  EXPECT_EQ(servers_->num_requests("PUT", "cut/file?partNumber=2"), 1);
  EXPECT_EQ(servers_->num_requests("POST", "cut/file?uploads"), 1);
  EXPECT_TRUE(restored.state.empty());
  own.download("file", folder_.path() / "back");
  EXPECT_EQ(core::read_file(folder_.path() / "back"), core::read_file(path));
}

TEST_F(S3StoreTest, AForgottenOrForeignUploadBeginsAnew) {
  auto own = store("forgotten");
  const fs::path path = make_file(kPartBytes + 1);
  send(own, "file", path, {.state = {{"upload_id", "nobody-knows-it"}, {"part_bytes", kPartBytes}}});
  EXPECT_EQ(own.list("").at(0).bytes, kPartBytes + 1);
}

TEST_F(S3StoreTest, UnfinishedUploadsAreDroppedButForThoseToGoOnWith) {
  auto own = store("dropped"), beside = store("dropped-not");
  const fs::path path = make_file(2 * kPartBytes);
  const auto cut_off = [&](S3Store& where, const std::string& name) {
    servers_->order({{"fail", 100}, {"match", "partNumber=2"}});
    UploadMemory memory;
    EXPECT_THROW(where.upload(name, outgoing(path), memory), RemoteError);
    servers_->order({{"fail", 0}});
    return memory.state;
  };
  const core::Json kept = cut_off(own, "kept");
  cut_off(own, "left/behind");
  cut_off(beside, "file");
  S3Client client("runs", servers_->config());
  EXPECT_EQ(client.list_unfinished("dropped/").size(), 2u);
  EXPECT_EQ(own.drop_unfinished({kept}), 1);
  const auto rest = client.list_unfinished("dropped/");
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].key, "dropped/kept");
  EXPECT_EQ(client.list_unfinished("dropped-not/").size(), 1u);
  send(own, "kept", path, {.state = kept});
  EXPECT_EQ(servers_->num_requests("PUT", "dropped/kept?partNumber=1"), 1) << "it goes on where it was";
  EXPECT_EQ(own.drop_unfinished({}), 0);
}

TEST_F(S3StoreTest, FaultsOnTheWayAreTriedAgain) {
  auto own = store("faults");
  const fs::path path = make_file(100'000);
  for (const char* fault : {"fail", "drop", "damage"}) {
    servers_->order({{fault, 2}, {"match", "PUT /runs/faults"}});
    send(own, fault, path);
    EXPECT_EQ(servers_->order().at("orders").at(fault), 0);
    EXPECT_EQ(servers_->num_requests("PUT", fmt::format("faults/{}", fault)), 3) << fault;
    own.download(fault, folder_.path() / fault);
    EXPECT_EQ(core::read_file(folder_.path() / fault), core::read_file(path)) << fault;
  }
  servers_->order({{"damage", 100}, {"match", "PUT /runs/faults"}});
  EXPECT_TRUE(tests::holds(tests::message_of([&] { send(own, "always", path); }), "arrived damaged: etag="));
}

TEST_F(S3StoreTest, SaysWhyItIsRefused) {
  const auto why = [&](S3Store own) { return tests::message_of([&] { test_writing(own); }); };
  EXPECT_TRUE(tests::holds(why(store("x", "nobody")), "status=403 (InvalidAccessKeyId"));
  EXPECT_TRUE(tests::holds(why(store("x", "nobody")), "hint: keys are from a test: do they allow it?"));
  const S3Store bucketless(parse_address("s3://no-such-bucket/x"), servers_->config());
  EXPECT_TRUE(tests::holds(why(bucketless), "(NoSuchBucket"));
  EXPECT_TRUE(tests::holds(why(bucketless), "hint: check its name, and AWS_ENDPOINT_URL"));
  auto config = servers_->config();
  config.find_account = [endpoint = servers_->endpoint()] {
    return Account{.endpoint = endpoint, .looked_in = "AWS_ACCESS_KEY_ID"};
  };
  EXPECT_TRUE(tests::holds(why(S3Store(parse_address("s3://runs/x"), config)),
                           "hint: no credentials were found; looked for AWS_ACCESS_KEY_ID"));
  config = servers_->config();
  config.find_account = [account = servers_->account()]() mutable {
    account.credentials.secret = "wrong";
    return account;
  };
  EXPECT_TRUE(tests::holds(why(S3Store(parse_address("s3://runs/x"), config)), "SignatureDoesNotMatch"));
  config.find_account = [] { return Account{.endpoint = "http://127.0.0.1:9"}; };
  EXPECT_TRUE(tests::holds(why(S3Store(parse_address("s3://runs/x"), config)), "hint: is the address right"));
}

TEST_F(S3StoreTest, ExpiredKeysAreLookedUpAnew) {
  servers_->order({{"expired", true}});
  int num_found = 0;
  auto config = servers_->config();
  config.find_account = [&] { return servers_->account(num_found++ == 0 ? "old" : "test"); };
  S3Store own(parse_address("s3://runs/expired"), config);
  own.put("x", "y");
  EXPECT_EQ(num_found, 2);
  auto old = store("expired", "old");
  EXPECT_TRUE(
      tests::holds(tests::message_of([&] { old.put("x", "y"); }), "hint: renew the keys of a test: it is read again"));
}

TEST_F(S3StoreTest, ExpiredKeysOfTheEnvironmentGiveWayToTheProfile) {
  servers_->order({{"expired", true}});
  std::string key_id = "old";
  auto config = servers_->config();
  config.find_account = [&] {
    return find_account(
        [&](const std::string& name) -> std::optional<std::string> {
          if (name == "AWS_ACCESS_KEY_ID") return key_id;
          if (name == "AWS_SECRET_ACCESS_KEY") return "secret";
          if (name == "AWS_ENDPOINT_URL") return servers_->endpoint();
          return std::nullopt;
        },
        folder_.path());
  };
  const fs::path file = folder_.path() / ".aws" / "credentials";
  const auto renew = [&](const std::string& id, const std::string& token) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "[default]\naws_access_key_id = " << id << "\naws_secret_access_key = secret\n"
                        << "aws_session_token = " << token << "\n";
  };
  S3Store own(parse_address("s3://runs/environment"), config);
  const auto why = [&] { return tests::message_of([&] { own.put("x", "y"); }); };
  EXPECT_TRUE(tests::holds(why(),
                           "hint: keys of the environment stay as they were at the start of a process: write "
                           "new ones to profile 'default' of " +
                               file.string()));
  renew("test", "first");
  EXPECT_EQ(why(), "no error");
  renew("old", "expired");  // the profile's expire as well
  own = S3Store(parse_address("s3://runs/environment"), config);
  EXPECT_TRUE(tests::holds(why(), "hint: renew the keys of profile 'default' of " + file.string()));
  renew("test", "second");
  EXPECT_EQ(why(), "no error") << "what is renewed again is read again";
  key_id = "nobody";  // refused, but not as expired
  own = S3Store(parse_address("s3://runs/environment"), config);
  EXPECT_TRUE(tests::holds(why(), "hint: keys are from the environment: do they allow it?"));
}

TEST_F(S3StoreTest, ClocksMayBeSetAgainAndAgain) {
  auto own = store("clocks");
  const auto written = [&](double server_ahead_s) {
    servers_->order({{"clock_s", server_ahead_s}});
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(tests::message_of([&] { own.put("x", "y"); }), "no error") << server_ahead_s;
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(tests::holds(written(3600), "s behind the server's of s3://runs"));
  EXPECT_EQ(written(3600), "");
  EXPECT_TRUE(tests::holds(written(0), "agrees with the server's of s3://runs again")) << "the clock was set right";
  EXPECT_TRUE(tests::holds(written(-7200), "s ahead of the server's of s3://runs"));
  EXPECT_TRUE(tests::holds(written(86400), "s behind the server's of s3://runs"));
}

TEST_F(S3StoreTest, AClockThatCannotBeSetIsNotTakenForWrongKeys) {
  servers_->order({{"clock_s", 3600}, {"tells_no_date", true}});
  auto own = store("clocks");
  const std::string why = tests::message_of([&] { own.put("x", "y"); });
  EXPECT_TRUE(tests::holds(why, "status=403 (RequestTimeTooSkewed") && tests::holds(why, "hint: set the clock")) << why;
}

TEST_F(S3StoreTest, ABucketElsewhereIsFound) {
  for (const char* told_in : {"header", "body"})
    for (const char* region : {"eu-north-1", "ap-south-1"}) {
      auto own = store("regions");
      servers_->order({{"region", region}, {"told_in", told_in}, {"clock_s", 3600}});  // and learns the time as well
      EXPECT_EQ(tests::message_of([&] { own.put("x", region); }), "no error") << told_in;
      EXPECT_EQ(own.read("x"), region);
    }
}

TEST_F(S3StoreTest, AReaderGoesOnWhereAnAnswerBrokeOff) {
  auto own = store("reader");
  const fs::path path = make_file(3'000'000);
  send(own, "file", path);
  const std::string content = core::read_file(path);
  RemoteReader reader(parse_address("s3://runs/reader/file"), servers_->config());
  servers_->order({{"fail", 2}, {"match", "GET /runs/reader"}});
  std::vector<std::byte> buffer(1'000'000);
  for (const uint64_t offset : {uint64_t{2'500'000}, uint64_t{0}, uint64_t{999'999}}) {
    const size_t got = reader.read_at(offset, buffer);
    EXPECT_EQ(got, std::min<size_t>(buffer.size(), content.size() - offset));
    EXPECT_EQ(content.compare(offset, got, reinterpret_cast<const char*>(buffer.data()), got), 0);
  }
  EXPECT_EQ(reader.bytes(), 3'000'000u);
  EXPECT_EQ(reader.read_at(3'000'000, buffer), 0u);
  own.put("file", "other");
  EXPECT_TRUE(tests::holds(tests::message_of([&] { reader.read_at(0, buffer); }), "was replaced while it was read"));
  RemoteReader missing(parse_address("s3://runs/reader/none"), servers_->config());
  EXPECT_TRUE(tests::holds(tests::message_of([&] { missing.read_at(0, buffer); }), "(NoSuchKey"));
}

TEST_F(S3StoreTest, AServerThatDoesNotTellTheSizeIsReadToTheEnd) {
  auto own = store("endless");
  const fs::path path = make_file(3'000'000);
  send(own, "file", path);
  const std::string content = core::read_file(path);
  for (const int64_t most : {0, 700'000}) {  // bytes of an answer
    servers_->order({{"hide_total", true}, {"most_bytes", most}});
    for (const size_t block : {size_t{1'000'000}, size_t{1'300'000}}) {  // the last block whole, and not
      RemoteReader reader(parse_address("s3://runs/endless/file"), servers_->config());
      std::vector<std::byte> buffer(block);
      std::string seen;
      while (const size_t got = reader.read_at(seen.size(), buffer))
        seen.append(reinterpret_cast<const char*>(buffer.data()), got);
      EXPECT_EQ(seen.size(), content.size()) << block << " " << most;
      EXPECT_TRUE(seen == content);
      EXPECT_EQ(reader.bytes(), content.size());
    }
    own.download("file", folder_.path() / "back");
    EXPECT_TRUE(core::read_file(folder_.path() / "back") == content);
  }
}

}  // namespace
}  // namespace lockstep::remote
