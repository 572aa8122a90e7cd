#include <gtest/gtest.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "tar_bytes.h"

namespace lockstep::data {
namespace {

using lockstep::tests::sample_tar;
using lockstep::tests::TarBytes;
using lockstep::tests::write_file;
using lockstep::tests::write_shards;

const SampleFilter kPairs{.image_keys = {"jpg"}, .text_keys = {"txt"}, .need_label = false};

TEST(ShardIndex, ListsMembersThatCanBeReadBack) {
  core::TempDir folder;
  const std::string bytes = TarBytes::member("x.json", "{}") + sample_tar("s", 5);
  const std::string shard = write_file(folder.path() / "s.tar", bytes);
  const ShardIndex index = build_shard_index(shard);
  EXPECT_EQ(index.bytes, bytes.size());
  EXPECT_EQ(index.xxh3_128, core::xxh3_hex(bytes));
  EXPECT_EQ(index.num_samples, 6);
  EXPECT_EQ(index.num_usable(kPairs), 5);
  EXPECT_EQ(index.num_usable({.image_keys = {}, .text_keys = {"json"}, .need_label = false}), 1);
  ASSERT_EQ(index.samples.size(), 6u);
  const MemberPlace& caption = index.samples[3].places.at(1);
  EXPECT_EQ(caption.extension, "txt");
  EXPECT_EQ(bytes.substr(caption.offset, caption.size), "caption s 00002");
  EXPECT_EQ(index.usable_offsets(kPairs).at(0), 1024u);
  const ShardIndex again = parse_shard_index(format_shard_index(shard, index), "side-car");
  EXPECT_EQ(format_shard_index(shard, again), format_shard_index(shard, index));
}

TEST(ShardIndex, IsBuiltInParallelOnceAndResumed) {
  core::TempDir folder, index_dir;
  IndexJob job;
  job.shards = expand_braces(write_shards(folder.path(), {3, 4, 5, 6, 7, 8}));
  job.index_dir = (index_dir.path() / "new").string();
  job.num_threads = 4;
  int64_t last_done = 0;
  job.on_progress = [&](int64_t done, const std::string&) { EXPECT_EQ(done, ++last_done); };
  IndexSummary summary = build_indexes(job);
  EXPECT_EQ(summary.num_built, 6);
  EXPECT_EQ(summary.num_samples, 33);
  EXPECT_EQ(last_done, 6);
  std::filesystem::remove(side_car_path(job.shards[2], job.index_dir));
  write_file(job.shards[4], sample_tar("004", 9));
  last_done = 0;
  summary = build_indexes(job);
  EXPECT_EQ(summary.num_built, 2);
  EXPECT_EQ(summary.num_reused, 4);
  EXPECT_EQ(summary.num_samples, 35);
  write_file(side_car_path(job.shards[1], job.index_dir), "{");
  last_done = 0;
  EXPECT_EQ(build_indexes(job).num_built, 1);
  job.on_progress = {};
  job.force = true;
  EXPECT_EQ(build_indexes(job).num_built, 6);
  job.shards.push_back("pipe:cat x");
  EXPECT_THROW(build_indexes(job), UsageError);
}

TEST(ShardIndex, SideCarsOfShardsWithOneNameDoNotCollide) {
  EXPECT_NE(side_car_path("/a/000.tar", "/i"), side_car_path("/b/000.tar", "/i"));
  EXPECT_EQ(side_car_path("/a/x/../000.tar", "/i"), side_car_path("/a/000.tar", "/i"));
  EXPECT_EQ(side_car_path("/a/000.tar", ""), "/a/000.tar.index");
}

TEST(IndexHeaders, ComeFromTheSummaryOrTheSideCar) {
  core::TempDir folder;
  IndexJob job;
  job.shards = expand_braces(write_shards(folder.path(), {3, 4, 5}));
  build_indexes(job);
  EXPECT_EQ(IndexHeaders("").find(job.shards[1])->num_samples, 4);
  std::filesystem::remove(side_car_path(job.shards[1], ""));
  EXPECT_EQ(IndexHeaders("").find(job.shards[1])->num_samples, 4) << "the summary alone tells it";
  std::string summary = core::read_file(folder.path() / "shards.index");
  summary[summary.find("001.tar.index") - 40] = '{';  // its line cannot be read any more
  write_file(folder.path() / "shards.index", summary);
  IndexHeaders headers("");
  EXPECT_FALSE(headers.find(job.shards[1]));
  EXPECT_EQ(headers.find(job.shards[2])->num_samples, 5);
  EXPECT_FALSE(headers.find("pipe:cat x.tar"));
  write_file(job.shards[2], sample_tar("002", 6).substr(0, 3000));
  EXPECT_EQ(build_indexes(job).damaged.size(), 1u);
  std::filesystem::remove(side_car_path(job.shards[2], ""));
  EXPECT_FALSE(IndexHeaders("").find(job.shards[2])) << "a damaged shard has no line";
  EXPECT_EQ(IndexHeaders("").find(job.shards[1])->num_samples, 4);
}

TEST(Verify, ListsEveryDamagedShard) {
  core::TempDir folder;
  IndexJob job;
  job.shards = expand_braces(write_shards(folder.path(), {3, 4, 5, 6, 7}));
  job.num_threads = 3;
  for (const VerifyResult& result : verify_shards(job)) {
    EXPECT_EQ(result.error, "");
    EXPECT_FALSE(result.has_index);
  }
  build_indexes(job);
  std::string bytes = core::read_file(job.shards[1]);
  bytes[600] ^= 1;  // one bit of a picture: only the hash sees it
  write_file(job.shards[1], bytes);
  bytes = core::read_file(job.shards[2]);
  write_file(job.shards[2], bytes.substr(0, bytes.size() - 512));
  std::filesystem::remove(job.shards[3]);
  const std::vector<VerifyResult> results = verify_shards(job);
  const std::vector<std::string> expected = {"", "another content", "another size", "cannot open", ""};
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].error.empty(), expected[i].empty()) << results[i].error;
    EXPECT_NE(results[i].error.find(expected[i]), std::string::npos) << results[i].error;
  }
}

TEST(ShardIndex, NumbersThatAreNoCountsAreRefused) {
  const std::string header =
      R"({"shard":"s.tar","format":"lockstep-shard-index","version":1,"bytes":NUMBER,"xxh3_128":"","samples":0,)"
      R"("extension_sets":[],"skipped":{},"table_xxh3_128":""})";
  EXPECT_EQ(parse_index_header(core::replace_all(header, "NUMBER", "512"), "x").second.bytes, 512u);
  for (const char* number : {"5e29", "-1e30", "0.5", "null", "533333333333333333333333333120", "-1",
                             "9223372036854775808", "18446744073709551615"})
    EXPECT_THROW(parse_index_header(core::replace_all(header, "NUMBER", number), "x"), DataError) << number;
  const auto with_samples = [&](const std::string& count) {
    const std::string one = core::replace_all(header, "NUMBER", "512");
    return core::replace_all(core::replace_all(one, "\"samples\":0", "\"samples\":" + count), "\"extension_sets\":[]",
                             "\"extension_sets\":[[[\"jpg\"]," + count + "]]");
  };
  EXPECT_EQ(parse_index_header(with_samples("1000000000000"), "x").second.num_samples, 1'000'000'000'000);
  for (const char* count : {"1000000000001", "9223372036854775807"})  // those of a few shards would overflow
    EXPECT_THROW(parse_index_header(with_samples(count), "x"), DataError) << count;
}

TEST(ShardIndex, MutationsAndCutsAreRefused) {
  core::TempDir folder;
  const std::string shard = write_file(folder.path() / "s.tar", sample_tar("s", 4));
  const std::string good = format_shard_index(shard, build_shard_index(shard));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(parse_shard_index(good.substr(0, length), "x"), DataError) << length;
  core::CounterRng rng(5);
  int num_refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string bad = good;
    const size_t table = good.find('\n') + 1;
    for (uint64_t n = 1 + rng.below(3); n > 0; --n) bad[rng.below(bad.size())] = static_cast<char>(rng.below(256));
    if (rng.below(2) == 0) {  // a wrong table with a fitting checksum
      const std::string rows = bad.substr(table);
      const size_t at = good.find("\"table_xxh3_128\":\"") + 18;
      bad = good.substr(0, at) + core::xxh3_hex(rows) + good.substr(at + 32, table - at - 32) + rows;
    }
    try {
      parse_shard_index(bad, "x");
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 2500);
}

}  // namespace
}  // namespace lockstep::data
