#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "data/order/lane_plan.h"
#include "data/order/python_random.h"
#include "data/shards/index_jobs.h"
#include "data/shards/shard_list.h"
#include "data/shards/source_openclip.h"
#include "data/train_stream.h"
#include "tar_bytes.h"

namespace lockstep::data {
namespace {

using core::Json;
using lockstep::tests::sample_tar;
using lockstep::tests::TarBytes;
using lockstep::tests::write_file;
using lockstep::tests::write_shards;

std::string name_of(const RawSample& sample) {
  return std::filesystem::path(sample.shard).stem().string() + "/" + sample.key;
}

std::vector<std::string> take(SampleSource& source, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    const std::optional<RawSample> sample = source.next();
    if (!sample) break;
    const Member* text = sample->find("txt");
    if (text != nullptr && !core::starts_with(sample->shard, "pipe:")) {
      EXPECT_EQ(text->bytes,
                fmt::format("caption {} {}", std::filesystem::path(sample->shard).stem().string(), sample->key));
    }
    names.push_back(name_of(*sample));
  }
  return names;
}

/// The first `num_steps` global batches of `world` ranks, by position in the stream.
std::vector<std::string> global_stream(SourceConfig config, int64_t world, int64_t num_steps) {
  std::map<uint64_t, std::string> by_id;
  config.world_size = world;
  const int64_t per_rank = config.global_batch / world;
  for (int64_t rank = 0; rank < world; ++rank) {
    config.rank = rank;
    const auto source = open_train_source(config);
    for (int64_t i = 0; i < num_steps * per_rank; ++i) {
      const RawSample sample = *source->next();
      EXPECT_TRUE(by_id.emplace(sample.id, name_of(sample)).second) << "two ranks took position " << sample.id;
      EXPECT_EQ(static_cast<int64_t>(sample.id) / config.global_batch, i / per_rank)
          << "a sample outside its global batch";
    }
  }
  std::vector<std::string> stream;
  for (const auto& [id, name] : by_id) stream.push_back(name);
  EXPECT_EQ(by_id.rbegin()->first + 1, by_id.size());
  return stream;
}

/// Twelve shards of unlike sizes.
class Lanes : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    config_.spec = write_shards(folder_.path(), sizes_);
    config_.num_lanes = 12;
    config_.global_batch = 12;
    config_.seed = 5;
    config_.shuffle_window = 48;
    if (has_index()) {
      config_.index = IndexUse::kRequire;
      EXPECT_EQ(build_indexes({.shards = expand_braces(config_.spec),
                               .index_dir = "",
                               .num_threads = 2,
                               .force = false,
                               .on_progress = {}})
                    .num_built,
                12);
    }
  }
  bool has_index() const { return GetParam(); }
  int total() const {
    int sum = 0;
    for (const int size : sizes_) sum += size;
    return sum;
  }

  core::TempDir folder_;
  std::vector<int> sizes_ = {9, 14, 7, 11, 20, 5, 13, 8, 10, 6, 12, 16};
  SourceConfig config_;
};

TEST_P(Lanes, GlobalBatchesAreTheSameOnOneToFourRanks) {
  const std::vector<std::string> reference = global_stream(config_, 1, 30);
  ASSERT_EQ(reference.size(), 360u);
  EXPECT_GT(std::set<std::string>(reference.begin(), reference.end()).size(), 100u);
  for (const int64_t world : {2, 3, 4, 6, 12})
    EXPECT_EQ(global_stream(config_, world, 30), reference) << "world " << world;
}

TEST_P(Lanes, EpochsAreShuffledDifferentlyAndSeedsToo) {
  const std::vector<std::string> stream = global_stream(config_, 1, 20);
  EXPECT_FALSE(std::is_sorted(stream.begin(), stream.begin() + 100));
  EXPECT_FALSE(std::equal(stream.begin(), stream.begin() + 100, stream.begin() + 120));
  config_.seed = 6;
  EXPECT_NE(global_stream(config_, 1, 20), stream);
}

TEST_P(Lanes, PassesTakeEachSampleOnce) {
  if (has_index()) {  // 131 samples: 10 batches of 12 per epoch, 11 samples left out, others each time
    const auto source = open_train_source(config_);
    std::set<std::string> missed;
    for (int epoch = 0; epoch < 4; ++epoch) {
      const auto names = take(*source, total() / 12 * 12);
      const std::set<std::string> unique(names.begin(), names.end());
      EXPECT_EQ(unique.size(), names.size());
      for (size_t i = 0; i < sizes_.size(); ++i)
        for (int s = 0; s < sizes_[i]; ++s)
          if (const std::string name = fmt::format("{:03}/{:05}", i, s); unique.count(name) == 0) missed.insert(name);
      EXPECT_EQ(source->report().num_dropped_tail, (epoch + 1) * (total() % 12));
    }
    EXPECT_GT(missed.size(), static_cast<size_t>(total() % 12));
  } else {  // each lane goes on with its next pass when it runs dry: over a long run every sample comes about equally
            // often
    const auto source = open_train_source(config_);
    std::map<std::string, int> count;
    for (const std::string& name : take(*source, total() * 30)) ++count[name];
    EXPECT_EQ(count.size(), static_cast<size_t>(total()));
    for (const auto& [name, times] : count) EXPECT_GT(times, 8) << name;
  }
}

TEST_P(Lanes, ContinuesExactlyFromEveryPosition) {
  const auto source = open_train_source(config_);
  const std::vector<std::string> all = take(*open_train_source(config_), 330);
  for (int64_t at = 0; at < 290; ++at) {
    const auto resumed = open_train_source(config_);
    resumed->seek(core::parse_json(source->position().dump(), "position"));
    EXPECT_EQ(resumed->position(), source->position());
    const auto names = take(*resumed, 30);
    ASSERT_TRUE(std::equal(names.begin(), names.end(), all.begin() + at)) << "position " << at;
    ASSERT_EQ(take(*source, 1).front(), all[static_cast<size_t>(at)]);
  }
}

TEST_P(Lanes, ContinuesOnHalfAndDoubleTheRanks) {
  const std::vector<std::string> reference = global_stream(config_, 1, 30);
  for (const int64_t before : {2, 6})
    for (const int64_t step : {1, 7, 12, 20}) {
      std::vector<Json> positions;
      SourceConfig config = config_;
      config.world_size = before;
      for (config.rank = 0; config.rank < before; ++config.rank) {
        const auto source = open_train_source(config);
        take(*source, step * 12 / before);
        positions.push_back(source->position());
      }
      for (const int64_t after : {before / 2, before, before * 2, int64_t{4}})
        for (const bool merged : {true, false}) {
          config.world_size = after;
          for (config.rank = 0; config.rank < after; ++config.rank) {
            const auto source = open_train_source(config);
            source->seek(merged ? merge_positions(positions) : positions.front());
            for (int64_t i = 0; i < 40 / after; ++i) {
              const RawSample sample = *source->next();
              ASSERT_EQ(name_of(sample), reference[sample.id]);
              ASSERT_EQ(static_cast<int64_t>(sample.id), step * 12 + i * after + config.rank);
            }
          }
        }
    }
}

/// More ranks than lanes share lanes; ranks that do not divide them read some of each other's.
TEST_P(Lanes, ContinuesOnRanksThatDoNotDivideTheLanes) {
  config_.num_lanes = 4;
  config_.global_batch = 120;
  const std::vector<std::string> reference = global_stream(config_, 1, 4);
  ASSERT_EQ(reference.size(), 480u);
  for (const auto& [at, after] : {std::pair<int64_t, int64_t>{60, 3},
                                  {40, 5},
                                  {60, 6},
                                  {40, 8},
                                  {40, 10},
                                  {60, 12},
                                  {0, 8},
                                  {160, 8},
                                  {80, 20}}) {  // of 12 shards
    std::vector<Json> positions;
    SourceConfig config = config_;
    config.world_size = 2;
    for (config.rank = 0; config.rank < 2; ++config.rank) {
      const auto source = open_train_source(config);
      take(*source, at / 2);
      positions.push_back(source->position());
    }
    // Twice: what sharing ranks say of their positions continues on one rank, too.
    std::vector<Json> later;
    config.world_size = after;
    for (config.rank = 0; config.rank < after; ++config.rank) {
      const auto source = open_train_source(config);
      source->seek(merge_positions(positions));
      for (int64_t i = 0; i < 240 / after; ++i) {
        const RawSample sample = *source->next();
        ASSERT_EQ(static_cast<int64_t>(sample.id), at + i * after + config.rank);
        ASSERT_EQ(name_of(sample), reference[sample.id]) << at << " on " << after;
      }
      later.push_back(source->position());
    }
    config.world_size = 1;
    config.rank = 0;
    const auto source = open_train_source(config);
    source->seek(merge_positions(later));
    for (int64_t i = 0; i < 30; ++i) ASSERT_EQ(name_of(*source->next()), reference[at + 240 + i]);
  }
}

TEST_P(Lanes, PositionsThatRanksCannotShareAreRefused) {
  const auto source = open_train_source(config_);
  take(*source, 24);
  const Json position = source->position();
  config_.world_size = 5;
  config_.global_batch = 15;
  const auto other = open_train_source(config_);
  EXPECT_THROW(other->seek(position), DataError);
}

TEST_P(Lanes, PositionsOfOtherDataOrOtherKindAreRefused) {
  const auto source = open_train_source(config_);
  take(*source, 24);
  const Json good = source->position();
  for (const auto& [key, value] : std::map<std::string, Json>{{"data", "0"},
                                                              {"kind", "rows"},
                                                              {"lanes", 0},
                                                              {"lanes", "x"},
                                                              {"consumed", -1},
                                                              {"shuffle", false},
                                                              {"resampled", true},
                                                              {"window", 0},
                                                              {"seed", nullptr},
                                                              {"epoch_samples", has_index() ? 0 : 12},
                                                              {"epoch_samples", 100000}}) {
    Json bad = good;
    bad[key] = value;
    EXPECT_THROW(open_train_source(config_)->seek(bad), DataError) << key << " " << value;
    bad.erase(key);
    EXPECT_THROW(open_train_source(config_)->seek(bad), DataError) << "without " << key;
  }
  EXPECT_THROW(source->seek(Json(3)), DataError);
  for (const Json& bad : {Json(3), Json::array(), Json(nullptr), Json{{"kind", 5}}}) {
    EXPECT_THROW(seek_source(*source, bad), DataError) << bad;
  }
  for (const Json& count : {Json("x"), Json(-1), Json(1e300), Json(nullptr)}) {
    Json bad = position_after_epochs(1, 12);
    bad["samples"] = count;
    if (has_index()) {
      EXPECT_THROW(seek_source(*source, bad), DataError) << bad;
    }
  }
  if (!has_index()) {
    Json bad = good;
    bad["marks"] = Json::array({Json::array({0, 1, 2})});
    EXPECT_THROW(source->seek(bad), DataError);
    bad["marks"] = 7;
    EXPECT_THROW(source->seek(bad), DataError);
  }
}

TEST_P(Lanes, WithoutShuffleTheOrderIsAsGivenOnAnyNumberOfRanks) {
  config_.shuffle = false;
  std::vector<std::string> expected;
  for (size_t i = 0; i < sizes_.size(); ++i)
    for (int s = 0; s < sizes_[i]; ++s) expected.push_back(fmt::format("{:03}/{:05}", i, s));
  expected.resize(120);
  EXPECT_EQ(global_stream(config_, 1, 10), expected);
  EXPECT_EQ(global_stream(config_, 3, 10), expected);
  config_.global_batch = 10;
  expected.resize(100);
  EXPECT_EQ(global_stream(config_, 5, 10), expected);
  const auto source = open_train_source(config_);
  take(*source, 77);
  const auto resumed = open_train_source(config_);
  resumed->seek(source->position());
  EXPECT_EQ(take(*resumed, 100), take(*source, 100));
}

TEST_P(Lanes, SubstitutesAreAFunctionOfThePosition) {
  SourceConfig two = config_;
  two.world_size = 2;
  two.rank = 1;
  const auto source = open_train_source(config_);
  const auto half = open_train_source(two);
  std::vector<Json> positions;
  for (int64_t i = 0; i < 260; ++i) {
    positions.push_back(source->position());
    const RawSample sample = *source->next();
    std::set<std::string> others;
    for (int attempt = 1; attempt <= 8; ++attempt) others.insert(name_of(sample.substitute(attempt)));
    EXPECT_EQ(others.count(name_of(sample)), 0u);
    EXPECT_GE(others.size(), 1u);
    if (i % 2 == 1) {
      EXPECT_EQ(name_of(half->next()->substitute(3)), name_of(sample.substitute(3)));
    }
    const auto resumed = open_train_source(config_);
    resumed->seek(positions.back());
    EXPECT_EQ(name_of(resumed->next()->substitute(5)), name_of(sample.substitute(5))) << "position " << i;
  }
}

TEST_P(Lanes, ResamplingIsAFunctionOfTheDraw) {
  config_.resampled = true;
  const std::vector<std::string> reference = global_stream(config_, 1, 40);
  EXPECT_EQ(global_stream(config_, 3, 40), reference);
  EXPECT_LT(std::set<std::string>(reference.begin(), reference.begin() + total()).size(), static_cast<size_t>(total()));
  const auto source = open_train_source(config_);
  for (int64_t at = 0; at < 300; at += 13) {
    const auto resumed = open_train_source(config_);
    resumed->seek(source->position());
    const auto names = take(*resumed, 40);
    EXPECT_TRUE(std::equal(names.begin(), names.end(), reference.begin() + at)) << at;
    take(*source, 13);
  }
}

INSTANTIATE_TEST_SUITE_P(Index, Lanes, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Indexed" : "Streamed"; });

TEST(LaneCount, IsAMultipleOfTheWorld) {
  EXPECT_EQ(choose_num_lanes(64, 1000, 0, false, 1), 64);
  EXPECT_EQ(choose_num_lanes(64, 1000, 0, false, 3), 63);
  EXPECT_EQ(choose_num_lanes(64, 1000, 0, false, 128), 128);
  EXPECT_EQ(choose_num_lanes(64, 10, 0, false, 4), 8);
  EXPECT_EQ(choose_num_lanes(64, 2, 5120, false, 16), 64);  // indexed: ranks share shards
  EXPECT_EQ(choose_num_lanes(64, 2, 0, true, 16), 16);
  EXPECT_EQ(choose_num_lanes(64, 2, 100, false, 1), 12);
  EXPECT_THROW(choose_num_lanes(64, 2, 0, false, 3), DataError);
}

TEST(LaneOrder, PiecesCoverTheEpochOnce) {
  ShardSet set;
  for (int i = 0; i < 7; ++i) {
    set.shards.push_back(std::to_string(i));
    set.samples.push_back(i * 3);
  }
  const int64_t total = set.num_samples();
  for (const int64_t lanes : {1, 2, 5, 8})
    for (const int64_t samples : {total, total - 5, lanes})
      for (uint64_t pass = 0; pass < 20; ++pass) {
        const LaneOrder order{
            .seed = 3, .num_lanes = lanes, .shuffle = true, .resampled = false, .pass_samples = samples, .window = 4};
        std::set<std::pair<int64_t, int64_t>> seen;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          int64_t in_lane = 0;
          for (const ShardPiece& piece : lane_pieces(set, order, pass, lane)) {
            in_lane += piece.count;
            for (int64_t i = piece.first; i < piece.first + piece.count; ++i)
              EXPECT_TRUE(seen.emplace(piece.shard, i).second);
            EXPECT_LE(piece.first + piece.count, set.samples[static_cast<size_t>(piece.shard)]);
          }
          EXPECT_EQ(in_lane, order.lane_samples(lane));
        }
        EXPECT_EQ(static_cast<int64_t>(seen.size()), samples);
      }
}

TEST(Resampling, FollowsTheUpsamplingFactors) {
  core::TempDir a, b;
  SourceConfig config;
  config.spec = write_shards(a.path(), {4, 4, 4}) + "::" + write_shards(b.path(), {4, 4});
  config.resampled = true;
  config.upsampling_factors = "1::4.5";  // P(b) = 9 / 12
  config.num_lanes = 1;
  const auto source = open_train_source(config);
  int from_b = 0;
  for (int i = 0; i < 8000; ++i) from_b += core::starts_with(source->next()->shard, b.path().string()) ? 1 : 0;
  EXPECT_NEAR(from_b / 8000.0, 0.75, 0.04);
  config.resampled = false;
  EXPECT_THROW(open_train_source(config), UsageError);
}

TEST(BadData, NoUsableSampleIsAnErrorThatNamesWhatIsMissing) {
  core::TempDir folder;
  std::string bytes;
  for (int i = 0; i < 5; ++i)
    bytes += TarBytes::member(fmt::format("{}.jpg", i), "x") + TarBytes::member(fmt::format("{}.json", i), "{}");
  SourceConfig config;
  config.spec = write_file(folder.path() / "a.tar", bytes + TarBytes::end());
  for (const bool indexed : {false, true}) {
    EXPECT_TRUE(!indexed || prepare_index(config, 1));
    try {
      open_train_source(config)->next();
      FAIL();
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(indexed ? "0 usable samples" : "without text (txt): 5"), std::string::npos)
          << error.text();
    }
  }
  config.resampled = true;  // drawing among indexed shards without a usable sample must end too
  EXPECT_THROW(open_train_source(config)->next(), DataError);
  config.resampled = false;
  config.index = IndexUse::kOff;
  config.spec = write_file(folder.path() / "empty.tar", TarBytes::end());
  EXPECT_THROW(open_train_source(config)->next(), DataError);
  config.spec = write_file(folder.path() / "nothing.tar", "");
  EXPECT_THROW(open_train_source(config)->next(), DataError);
  config.spec = (folder.path() / "missing.tar").string();
  EXPECT_THROW(open_train_source(config)->next(), DataError);
}

TEST(BadData, SamplesWithoutTextAreCountedAndReported) {
  core::TempDir folder;
  std::string bytes = TarBytes::member("a.jpg", "x") + TarBytes::member("a.txt", "caption s a") +
                      TarBytes::member("b.jpg", "x") + TarBytes::member("c.txt", "caption s c") +
                      TarBytes::header("d.jpg", 0, '2');
  SourceConfig config;
  config.spec = write_file(folder.path() / "s.tar", bytes + TarBytes::end());
  const auto source = open_eval_source(config);
  EXPECT_EQ(take(*source, 10), std::vector<std::string>{"s/a"});
  const std::map<std::string, int64_t> expected = {
      {"sample without image (jpg, png, jpeg, webp)", 1}, {"sample without text (txt)", 1}, {"symbolic link", 1}};
  EXPECT_EQ(source->report().skipped, expected);
}

TEST(BadData, AStreamWithoutAnIndexTellsWhatItLeavesOutWhileItReads) {
  core::TempDir folder;
  std::string bytes = TarBytes::member("whole.jpg", "x") + TarBytes::member("whole.txt", "caption t whole");
  for (int i = 0; i < 12; ++i) bytes += TarBytes::member(fmt::format("bare{}.jpg", i), "x");
  SourceConfig config;
  config.index = IndexUse::kOff;
  config.spec = write_file(folder.path() / "t.tar", bytes + TarBytes::end());
  ::testing::internal::CaptureStderr();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(take(*open_eval_source(config), 10).size(), 1u);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 2) << told;
  EXPECT_NE(told.find("sample 'bare0' of shard '" + config.spec + "' is left out: sample without text (txt); "),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("data: 10 samples read so far were left out: sample without text (txt)\n"), std::string::npos)
      << told;
}

TEST(BadData, ADamagedShardStopsTheStreamAtItsPlace) {
  core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {6, 6});
  const std::string bad = (folder.path() / "001.tar").string();
  std::string bytes = core::read_file(bad);
  write_file(bad, bytes.substr(0, 4 * 1024));
  config.index = IndexUse::kOff;
  config.shuffle = false;
  const auto source = open_train_source(config);
  EXPECT_THROW(take(*source, 40), DataError);
  EXPECT_THROW(prepare_index(
                   [&] {
                     SourceConfig c = config;
                     c.index = IndexUse::kAuto;
                     return c;
                   }(),
                   2),
               DataError);
  write_file(bad, bytes);
  config.index = IndexUse::kAuto;
  EXPECT_TRUE(prepare_index(config, 2));
  write_file(bad, sample_tar("001", 7));  // replaced after indexing
  try {
    take(*open_train_source(config), 40);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("index"), std::string::npos) << error.what();
  }
}

/// Cuts the second of four shards in its fifth sample.
void cut_second_shard(const std::filesystem::path& folder, size_t bytes = 4 * 2048 + 700) {
  const auto bad = folder / "001.tar";
  write_file(bad, core::read_file(bad).substr(0, bytes));
}

SourceConfig indexed_config(const std::string& spec, int64_t global_batch, int64_t num_lanes) {
  SourceConfig config;
  config.spec = spec;
  config.global_batch = global_batch;
  config.num_lanes = num_lanes;
  return config;
}

/// Name of a substitute; "" where that is lost, too.
std::string substitute_of(const RawSample& sample, int attempt) {
  try {
    const RawSample other = sample.substitute(attempt);
    return other.damage ? "" : name_of(other);
  } catch (const DataError&) {
    return "";
  }
}

/// Takes one pass of 96 samples; the places that were lost in it.
std::vector<std::string> lost_in_pass(const SourceConfig& config, int64_t* num_replaced = nullptr) {
  const auto source = open_train_source(config);
  std::vector<std::string> lost;
  for (int64_t i = 0; i < 96; ++i) {
    const RawSample sample = *source->next();
    if (!sample.damage) continue;
    lost.push_back(fmt::format("{}@{}", std::filesystem::path(sample.shard).filename().string(), sample.offset));
    for (int attempt = 1; num_replaced != nullptr && attempt <= 16; ++attempt)
      if (!substitute_of(sample, attempt).empty()) {
        ++*num_replaced;
        break;
      }
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

TEST(LostSamples, OfAShardCutAfterIndexingAreEachCountedAndReplaced) {
  core::TempDir folder;
  SourceConfig config = indexed_config(write_shards(folder.path(), {24, 24, 24, 24}), 12, 12);
  config.shuffle_window = 24;  // 2 of a lane: whole windows are lost
  ASSERT_TRUE(prepare_index(config, 2));
  const std::vector<std::string> whole = global_stream(config, 1, 8);
  cut_second_shard(folder.path());
  EXPECT_THROW(prepare_index(config, 2), DataError) << "without keep_lost it stops";
  config.keep_lost = true;
  ASSERT_TRUE(prepare_index(config, 2));
  int64_t num_replaced = 0;
  const std::vector<std::string> lost = lost_in_pass(config, &num_replaced);
  EXPECT_EQ(lost.size(), 20u) << core::join(lost, " ");
  EXPECT_EQ(std::set<std::string>(lost.begin(), lost.end()).size(), lost.size());
  EXPECT_EQ(num_replaced, 20);
  const std::vector<std::string> reference = global_stream(config, 1, 12);
  for (size_t i = 0; i < whole.size(); ++i)
    if (reference[i] != "001/") {
      EXPECT_EQ(reference[i], whole[i]) << "the order of what is left has not changed";
    }
  for (const int64_t world : {2, 3, 4}) EXPECT_EQ(global_stream(config, world, 12), reference) << "world " << world;
}

TEST(LostSamples, AreTheSameAfterEveryResume) {
  for (const bool has_index : {true, false}) {
    core::TempDir folder;
    SourceConfig config = indexed_config(write_shards(folder.path(), {18, 18, 18, 18}), 4, 4);
    config.shuffle_window = 24;
    config.keep_lost = true;
    config.index = has_index ? IndexUse::kAuto : IndexUse::kOff;
    EXPECT_EQ(prepare_index(config, 2), has_index);
    cut_second_shard(folder.path());
    const auto source = open_train_source(config);
    for (int64_t i = 0; i < 150; ++i) {
      const auto resumed = open_train_source(config);
      resumed->seek(source->position());
      const RawSample sample = *source->next(), again = *resumed->next();
      EXPECT_EQ(name_of(again), name_of(sample)) << i;
      EXPECT_EQ(again.offset, sample.offset) << i;
      EXPECT_EQ(again.damage != nullptr, sample.damage != nullptr) << i;
      EXPECT_EQ(substitute_of(again, 2), substitute_of(sample, 2)) << i;
    }
  }
}

TEST(LostSamples, AShardThatIsRepairedInPlaceIsWholeAgain) {
  core::TempDir folder;
  SourceConfig config = indexed_config(write_shards(folder.path(), {24, 24, 24, 24}), 12, 12);
  config.keep_lost = true;
  const auto shard = folder.path() / "001.tar";
  const std::string whole = core::read_file(shard);
  std::string damaged = whole;
  std::fill_n(damaged.begin() + 4 * 2048, 512, 'x');  // a header; the size stays
  write_file(shard, damaged);
  ASSERT_TRUE(prepare_index(config, 2));
  EXPECT_FALSE(lost_in_pass(config).empty());
  write_file(shard, whole);
  ASSERT_TRUE(prepare_index(config, 2));
  EXPECT_EQ(core::join(lost_in_pass(config), " "), "");
}

TEST(LostSamples, OneStandsForTheUnknownRestOfAShardThatNeverWasWhole) {
  core::TempDir folder;
  SourceConfig config = indexed_config(write_shards(folder.path(), {30, 18, 24, 18}), 1, 1);
  cut_second_shard(folder.path());
  config.keep_lost = true;
  ASSERT_TRUE(prepare_index(config, 2));
  EXPECT_EQ(epoch_size(config).num_known, 30 + 4 + 1 + 24 + 18);
  std::map<std::string, int> count;
  const auto source = open_train_source(config);
  for (int64_t i = 0; i < 77; ++i) ++count[name_of(*source->next())];
  EXPECT_EQ(count["001/"], 1);
  EXPECT_EQ(count["001/00003"], 1);
  EXPECT_EQ(count.size(), 77u);
  config.keep_lost = false;
  EXPECT_THROW(prepare_index(config, 2), DataError) << "an index up to the damage does not hide it";
  config.index = IndexUse::kOff;
  config.keep_lost = true;
  std::map<std::string, int> unindexed;
  std::string reason;
  const auto stream = open_train_source(config);
  for (int64_t i = 0; i < 77; ++i) {
    const RawSample sample = *stream->next();
    ++unindexed[name_of(sample)];
    if (sample.damage) reason = sample.damage->what();
  }
  EXPECT_EQ(unindexed, count);
  EXPECT_NE(reason.find("every sample behind it is lost as well, and counted as this one"), std::string::npos)
      << reason;
}

TEST(BadData, ACommandIsReadAsAShardUnlessForbidden) {
  core::TempDir folder;
  write_shards(folder.path(), {6, 6});
  SourceConfig config;
  config.spec = "pipe:cat " + folder.path().string() + "/{000,001}.tar";
  const auto source = open_train_source(config);
  EXPECT_EQ(take(*source, 30).size(), 30u);
  EXPECT_FALSE(prepare_index(config, 1));
  config.allow_pipe = false;
  EXPECT_THROW(open_train_source(config), UsageError);
  config.allow_pipe = true;
  config.spec = "pipe:cat /nowhere/{0..1}.tar";
  EXPECT_THROW(open_train_source(config)->next(), DataError);
}

TEST(EvalSource, TakesEverySampleOnceOverAllRanks) {
  core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {5, 0, 7, 3});
  for (const bool indexed : {false, true}) {
    config.index = indexed ? IndexUse::kRequire : IndexUse::kOff;
    if (indexed)
      build_indexes(
          {.shards = expand_braces(config.spec), .index_dir = "", .num_threads = 1, .force = false, .on_progress = {}});
    for (const int64_t world : {1, 2, 4, 7}) {
      std::map<uint64_t, std::string> all;
      config.world_size = world;
      for (config.rank = 0; config.rank < world; ++config.rank) {
        const auto source = open_eval_source(config);
        while (auto sample = source->next()) EXPECT_TRUE(all.emplace(sample->id, name_of(*sample)).second);
        EXPECT_FALSE(source->next());
      }
      ASSERT_EQ(all.size(), 15u);
      EXPECT_EQ(all.at(0), "000/00000");
      EXPECT_EQ(all.at(5), "002/00000");
      EXPECT_EQ(all.at(14), "003/00002");
    }
  }
  config.world_size = 2;
  config.rank = 1;
  const auto source = open_eval_source(config);
  take(*source, 3);
  const auto resumed = open_eval_source(config);
  resumed->seek(source->position());
  EXPECT_EQ(take(*resumed, 99), take(*source, 99));
}

TEST(EpochSize, FollowsOpenClipsRules) {
  core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {5, 6});
  config.global_batch = 4;
  EXPECT_THROW(epoch_size(config), DataError);
  write_file(folder.path() / "__len__", "13\n");
  EXPECT_EQ(epoch_size(config).num_batches, 4);
  EXPECT_EQ(epoch_size(config).num_samples, 16);
  write_file(folder.path() / "sizes.json", R"({"000.tar": 5, "001.tar": 4, "other.tar": 100})");
  EXPECT_EQ(epoch_size(config).num_samples, 12);
  EXPECT_EQ(epoch_size(config).origin, "sizes.json");
  config.num_samples = 21;
  EXPECT_EQ(epoch_size(config).num_samples, 24);
  config.num_samples = 0;
  EXPECT_TRUE(prepare_index(config, 1));  // the index is exact: 11 samples, 2 whole batches
  EXPECT_EQ(epoch_size(config).num_samples, 8);
  EXPECT_EQ(epoch_size(config).num_dropped, 3);
  EXPECT_TRUE(epoch_size(config).each_once);
  config.global_batch = 12;
  EXPECT_THROW(epoch_size(config), DataError);
  config.world_size = 5;
  EXPECT_THROW(epoch_size(config), UsageError);
  write_file(folder.path() / "sizes.json", R"({"000.tar": 5})");
  config.index = IndexUse::kOff;
  config.world_size = 1;
  EXPECT_THROW(epoch_size(config), DataError);
}

TEST(EpochSize, CountsThatNobodyCountedAreRefused) {
  core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {5, 6});
  config.global_batch = 4;
  for (const char* count : {"9223372036854775807", "1000000000000001", "-1"}) {
    write_file(folder.path() / "__len__", count);
    EXPECT_THROW(epoch_size(config), DataError) << count;
  }
  for (const char* sizes : {R"({"000.tar": 9223372036854775807, "001.tar": 9223372036854775807})",
                            R"({"000.tar": 1000000000000000, "001.tar": 1})", R"({"000.tar": 5, "001.tar": 0.5})",
                            R"([["000.tar", 5], ["001.tar", 6]])"}) {
    write_file(folder.path() / "sizes.json", sizes);
    EXPECT_THROW(epoch_size(config), DataError) << sizes;
  }
}

// Micro-batches in whole workers, then whole steps: OpenCLIP 3.3.0's get_wds_dataset and train_one_epoch.
TEST(EpochSize, OpenClipsOrderHasItsEpoch) {
  const core::TempDir folder;
  struct Row {
    int64_t samples, micro_batch, accumulation, workers, steps;
  };
  for (const Row& row : {Row{10'000, 512, 1, 1, 3}, Row{10'000, 512, 1, 4, 4}, Row{10'000, 512, 1, 8, 8},
                         Row{10'968'539, 320, 1, 4, 4288}, Row{1'000'000, 256, 3, 1, 163},
                         Row{1'000'000, 256, 3, 4, 164}, Row{1'000'000, 256, 3, 8, 165}}) {
    SourceConfig config;
    config.spec = write_shards(folder.path(), {5, 6});
    config.order = DataOrder::kOpenClip;
    config.world_size = 8;
    config.num_samples = row.samples;
    config.micro_batch_size = row.micro_batch;
    config.num_workers = row.workers;
    config.global_batch = row.micro_batch * row.accumulation * 8;
    EXPECT_EQ(epoch_size(config).num_batches, row.steps) << row.samples << ", " << row.workers << " workers";
    EXPECT_EQ(epoch_size(config).num_samples, row.steps * config.global_batch);
  }
}

TEST(EpochSize, ToldAboveFoundIsWarnedAboutOnce) {
  const core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {5, 6});
  config.global_batch = 4;
  config.num_samples = 22;
  EXPECT_EQ(size_warning(config), "") << "without an index nobody knows";
  ASSERT_TRUE(prepare_index(config, 1));
  EXPECT_EQ(size_warning(config),
            "data: 11 samples found, 22 told by --train-num-samples: an epoch reads the data 2.00 "
            "times, so some samples come again in it");
  config.num_samples = 11;
  EXPECT_EQ(size_warning(config), "");
  config.num_samples = 0;
  EXPECT_EQ(size_warning(config), "");
  write_file(folder.path() / "__len__", "13\n");
  EXPECT_EQ(size_warning(config), "data: 11 samples found, 13 told by __len__: an epoch has those that were found");
  write_file(folder.path() / "sizes.json", R"({"000.tar": 5})");
  EXPECT_EQ(size_warning(config), "") << "a file that tells nothing of a shard";
  config.num_samples = 22;
  config.resampled = true;
  EXPECT_EQ(size_warning(config), "");
}

TEST(OpenClipOrder, DealsShardsToRanksAndWorkers) {
  core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {6, 6, 6, 6, 6, 6, 6, 6});
  config.order = DataOrder::kOpenClip;
  config.world_size = 2;
  config.num_workers = 2;
  config.micro_batch_size = 3;
  config.global_batch = 6;
  config.num_samples = 48;  // 8 batches, 4 per worker: each worker's 12 samples once
  std::set<std::string> all, first_epoch_shards[2];
  for (config.rank = 0; config.rank < 2; ++config.rank) {
    const auto source = open_train_source(config);
    const auto names = take(*source, 24);
    all.insert(names.begin(), names.end());
    for (const std::string& name : names) first_epoch_shards[config.rank].insert(name.substr(0, 3));
    EXPECT_EQ(first_epoch_shards[config.rank].size(), 4u);
    const auto again = open_train_source(config);
    EXPECT_EQ(take(*again, 24), names);
    const auto next_epoch = take(*source, 24);
    EXPECT_NE(next_epoch, names);
    take(*again, 11);
    const auto resumed = open_train_source(config);
    resumed->seek(again->position());
    const auto rest = take(*resumed, 13);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), next_epoch.begin() + 11));
  }
  EXPECT_EQ(all.size(), 48u);
  config.rank = 0;
  const auto source = open_train_source(config);
  config.num_workers = 1;
  const auto other = open_train_source(config);
  EXPECT_THROW(other->seek(source->position()), DataError);
  config.num_workers = 5;
  EXPECT_THROW(open_train_source(config), DataError);
  config.num_workers = 3;
  config.resampled = true;
  EXPECT_EQ(take(*open_train_source(config), 200).size(), 200u);
}

// Python 3.11: [Random(seed).randint(0, n - 1) for n in bounds]
TEST(PythonRandom, DrawsAsPythonDoes) {
  const std::vector<uint64_t> bounds{1, 2, 10, 1000, 0xFFFFFFFF, 7, 3};
  const auto draws = [&](uint64_t seed) {
    PythonRandom random(seed);
    std::vector<uint64_t> out;
    for (const uint64_t bound : bounds) out.push_back(random.below(bound));
    return out;
  };
  EXPECT_EQ(draws(0), (std::vector<uint64_t>{0, 1, 0, 265, 4146640122, 4, 1}));
  EXPECT_EQ(draws(3), (std::vector<uint64_t>{0, 0, 5, 937, 2593816829, 3, 2}));
  EXPECT_EQ(draws((1ull << 40) + 5), (std::vector<uint64_t>{0, 0, 8, 776, 3513130008, 6, 0}));
}

// webdataset 0.2.86: list(_shuffle(iter(range(n)), 2000, 500, random.Random(seed + epoch)))
TEST(OpenClipOrder, ShardsComeAsOpenClipShufflesThem) {
  const core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {2, 2, 2, 2, 2});
  config.order = DataOrder::kOpenClip;
  config.world_size = 1;
  config.num_workers = 5;
  config.micro_batch_size = config.global_batch = 2;
  config.num_samples = 10;
  config.seed = 3;
  const auto source = open_train_source(config);
  for (const auto& want : {std::vector<int>{1, 4, 3, 2, 0}, std::vector<int>{1, 2, 0, 4, 3}}) {  // two epochs
    const auto names = take(*source, 10);
    for (size_t batch = 0; batch < want.size(); ++batch)
      for (size_t i = 0; i < 2; ++i)
        EXPECT_EQ(names[2 * batch + i].substr(0, 3), fmt::format("{:03}", want[batch])) << "batch " << batch;
  }
  config.global_batch = 4;  // of two micro-batches: the fifth of an epoch fills no step
  ASSERT_EQ(epoch_size(config).num_batches, 2);
  const auto accumulated = open_train_source(config);
  for (const char* want : {"001 001 004 004 003 003 002 002 ", "001 001 002 002 000 000 004 004 "}) {
    std::string shards;
    for (const std::string& name : take(*accumulated, 8)) shards += name.substr(0, 3) + " ";
    EXPECT_EQ(shards, want);
  }
  int fed = 0;
  RollingShuffle<int, PythonRandom> shuffle(
      [&]() -> std::optional<int> { return fed < 3000 ? std::optional(fed++) : std::nullopt; }, 2000, 500,
      PythonRandom(7));
  std::vector<int> out;
  while (const auto item = shuffle.next()) out.push_back(*item);
  EXPECT_EQ((std::vector<int>(out.begin(), out.begin() + 6)), (std::vector<int>{165, 485, 77, 202, 333, 24}));
  EXPECT_EQ((std::vector<int>(out.end() - 6, out.end())), (std::vector<int>{2740, 423, 869, 1768, 2182, 1411}));
}

TEST(RollingShuffle, KeepsEverythingWithinItsBuffer) {
  int fed = 0;
  RollingShuffle<int> shuffle([&]() -> std::optional<int> { return fed < 1000 ? std::optional(fed++) : std::nullopt; },
                              50, 10, core::CounterRng(3));
  std::vector<int> out;
  while (auto item = shuffle.next()) out.push_back(*item);
  EXPECT_FALSE(std::is_sorted(out.begin(), out.end()));
  for (size_t i = 0; i < 800; ++i) EXPECT_LE(out[i], static_cast<int>(i) + 100);
  std::sort(out.begin(), out.end());
  ASSERT_EQ(out.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], i);
}

TEST(DataHints, NameTheDataThatWereGiven) {
  const core::TempDir folder;
  SourceConfig config;
  config.spec = write_shards(folder.path(), {3, 3});
  config.index = IndexUse::kOff;
  try {
    epoch_size(config);
    FAIL() << "nobody knows the size";
  } catch (const DataError& error) {
    EXPECT_NE(error.hint().find("`lockstep data index '" + config.spec + "'`"), std::string::npos) << error.hint();
  }
  write_file(folder.path() / "001.tar", "cut");
  config.index = IndexUse::kAuto;
  try {
    prepare_index(config, 1);
    FAIL() << "a damaged shard was taken";
  } catch (const DataError& error) {
    EXPECT_NE(error.hint().find("`lockstep data verify '" + config.spec + "'`"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace lockstep::data
