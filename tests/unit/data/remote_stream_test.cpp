// Shards behind addresses: the bytes of the file, whatever happens on the way.
#include "data/shards/remote_stream.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "data/shards/open_stream.h"
#include "data/shards/shard_list.h"
#include "support/error_text.h"
#include "support/s3_servers.h"

namespace lockstep::data {
namespace {

class RemoteStreamTest : public tests::S3Test {
 protected:
  void SetUp() override {
    tests::S3Test::SetUp();
    if (IsSkipped()) return;
    for (const auto& [name, value] : servers_->variables()) ::setenv(name.c_str(), value.c_str(), 1);
    content_.resize(13 << 20);
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 2654435761U >> 11);
    remote::S3Client("runs", servers_->config()).send({.method = "PUT", .key = "a.tar", .body = content_});
  }
  static std::string read_to_end(ByteStream& stream, size_t most) {
    std::string bytes;
    std::vector<std::byte> buffer(most);
    while (const size_t got = stream.read(buffer)) bytes.append(reinterpret_cast<const char*>(buffer.data()), got);
    return bytes;
  }
  std::string content_;
};

TEST_F(RemoteStreamTest, GivesTheBytesOfTheFileFromAnyPlace) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{5'000'001}, uint64_t{13 << 20}}) {
    const auto stream = open_byte_stream("s3://runs/a.tar", offset, nullptr);
    EXPECT_EQ(stream->size(), content_.size());
    EXPECT_TRUE(read_to_end(*stream, 1'000'003) == content_.substr(offset)) << offset;
    stream->finish();
  }
}

TEST_F(RemoteStreamTest, GivesAllBytesWhereTheServerDoesNotTellHowMany) {
  servers_->order({{"hide_total", true}});
  const auto stream = open_byte_stream("s3://runs/a.tar", 0, nullptr);
  EXPECT_EQ(stream->size(), std::nullopt);
  EXPECT_TRUE(read_to_end(*stream, 1'000'003) == content_);
  EXPECT_EQ(stream->size(), content_.size());
}

TEST_F(RemoteStreamTest, SkipsWithinABlockAndOverManyButNotOverASmallGap) {
  const auto stream = open_byte_stream("s3://runs/a.tar", 0, nullptr);
  EXPECT_TRUE(stream->skip(1000));
  std::byte one{};
  ASSERT_EQ(stream->read(std::span(&one, 1)), 1u);
  EXPECT_EQ(static_cast<char>(one), content_[1000]);
  EXPECT_FALSE(stream->skip(2 << 20));
  EXPECT_TRUE(stream->skip(10 << 20));
  EXPECT_TRUE(read_to_end(*stream, 4096) == content_.substr(1001 + (10 << 20)));
}

TEST_F(RemoteStreamTest, FailuresOnTheWayChangeNothing) {
  servers_->order({{"fail", 3}, {"match", "GET /runs/a.tar"}});
  const auto stream = open_byte_stream("s3://runs/a.tar", 7, nullptr);
  EXPECT_TRUE(read_to_end(*stream, 65536) == content_.substr(7));
  EXPECT_EQ(servers_->order().at("orders").at("fail"), 0);
}

TEST_F(RemoteStreamTest, AShardThatIsReplacedIsNotMixed) {
  const auto stream = open_byte_stream("s3://runs/a.tar", 0, nullptr);
  std::string other = content_;
  other[0] ^= 1;
  remote::S3Client("runs", servers_->config()).send({.method = "PUT", .key = "a.tar", .body = other});
  const auto why = tests::message_of<DataError>([&] { read_to_end(*stream, 1 << 20); });
  EXPECT_TRUE(tests::holds(why, "cannot read shard 's3://runs/a.tar'") && tests::holds(why, "was replaced")) << why;
}

TEST_F(RemoteStreamTest, AStoppedReadEndsThoughTheServerIsSilent) {
  std::atomic<bool> stop = false;
  const auto stream = open_byte_stream("s3://runs/a.tar", 0, &stop);
  servers_->order({{"hang", true}});
  stop = true;
  const auto why = tests::message_of<DataError>([&] { read_to_end(*stream, 1 << 20); });
  servers_->order({{"hang", false}});
  EXPECT_TRUE(tests::holds(why, "was interrupted")) << why;
}

TEST_F(RemoteStreamTest, SaysWhatIsMissing) {
  const auto why = [](const std::string& shard) {
    return tests::message_of<DataError>([&] { check_remote_shard(shard); });
  };
  EXPECT_EQ(why("s3://runs/a.tar"), "no error");
  EXPECT_TRUE(tests::holds(why("s3://runs/b.tar"), "cannot read shard 's3://runs/b.tar': "));
  EXPECT_TRUE(tests::holds(why("s3://nowhere/b.tar"), "(NoSuchBucket"));
  EXPECT_TRUE(tests::holds(why(servers_->endpoint() + "/runs/a.tar"), "https:// addresses go without a login"));
}

TEST(ShardList, KnowsWhatIsNoFileHere) {
  for (const char* shard : {"pipe:cat x", "s3://b/x.tar", "http://h/x.tar", "https://h/x.tar"})
    EXPECT_TRUE(is_streamed(shard)) << shard;
  EXPECT_FALSE(is_streamed("s3/x.tar"));
  EXPECT_EQ(parse_shard_sources("s3://b/{0..1}.tar::https://h/x.tar", "").at(0).shards,
            (std::vector<std::string>{"s3://b/0.tar", "s3://b/1.tar"}));
}

}  // namespace
}  // namespace lockstep::data
