#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"
#include "data/train_stream.h"
#include "tar_bytes.h"

namespace lockstep::data {
namespace {

using core::Json;
using lockstep::tests::write_shards;

/// Counts upwards; odd things happen where told.
class CountingSource : public SampleSource {
 public:
  int64_t length = INT64_MAX;
  int64_t fails_at = -1;
  int64_t hangs_at = -1;

  std::optional<RawSample> next() override {
    if (at_ == fails_at) throw DataError(fmt::format("source failed at {}", at_));
    while (at_ == hangs_at) {
      if (interrupted_) throw DataError("interrupted");
      std::this_thread::yield();
    }
    if (at_ >= length) return std::nullopt;
    RawSample sample = make(at_);
    sample.substitute = [at = at_](int attempt) { return make(at * 1000 + attempt); };
    ++at_;
    return sample;
  }
  Json position() const override { return {{"at", at_}}; }
  void seek(const Json& position) override {
    at_ = position.at("at").get<int64_t>();
    interrupted_ = false;
  }
  SourceReport report() const override {
    return {.num_samples = at_, .num_shards = 0, .num_dropped_tail = 0, .skipped = {}};
  }
  void interrupt() override { interrupted_ = true; }

 private:
  static RawSample make(int64_t number) {
    RawSample sample;
    sample.key = std::to_string(number);
    sample.shard = "s";
    sample.id = static_cast<uint64_t>(number);
    sample.label = number % 10;
    return sample;
  }
  int64_t at_ = 0;
  std::atomic<bool> interrupted_{false};
};

/// Writes the key into the slot, after a wait that mixes up the order of workers.
void decode_number(const RawSample& sample, SampleSlot& slot) {
  const int64_t number = std::stoll(sample.key);
  std::this_thread::sleep_for(std::chrono::microseconds(number * 7919 % 300));
  std::fill(slot.image_YXC.begin(), slot.image_YXC.end(), static_cast<uint8_t>(number));
  for (const int32_t token : slot.text_T) EXPECT_EQ(token, 0);
  slot.text_T[0] = static_cast<int32_t>(number);
}

LoaderConfig small_config() {
  return {.micro_batch_size = 4,
          .image_pixels = 2,
          .context_length = 3,
          .num_workers = 3,
          .prefetch_batches = 2,
          .on_bad_sample = OnBadSample::kStop,
          .max_bad_samples = 100,
          .max_attempts = 4};
}

TEST(Loader, GivesBatchesInExactOrder) {
  for (const int64_t workers : {1, 2, 7})
    for (const int64_t prefetch : {1, 5}) {
      LoaderConfig config = small_config();
      config.num_workers = workers;
      config.prefetch_batches = prefetch;
      Loader loader(std::make_unique<CountingSource>(), decode_number, config);
      for (int32_t i = 0; i < 50; ++i) {
        HostBatch batch = loader.next();
        ASSERT_EQ(batch.num_samples, 4);
        ASSERT_EQ(batch.image_BYXC.size(), 4u * 12);
        ASSERT_EQ(batch.text_BT.size(), 4u * 3);
        for (int32_t s = 0; s < 4; ++s) {
          ASSERT_EQ(batch.text_BT[static_cast<size_t>(s) * 3], i * 4 + s);
          ASSERT_EQ(batch.text_BT[static_cast<size_t>(s) * 3 + 2], 0);
          ASSERT_EQ(batch.image_BYXC[static_cast<size_t>(s) * 12 + 11], static_cast<uint8_t>(i * 4 + s));
          ASSERT_EQ(batch.label_B[static_cast<size_t>(s)], (i * 4 + s) % 10);
          ASSERT_EQ(batch.keys[static_cast<size_t>(s)], fmt::format("s:{}", i * 4 + s));
        }
        EXPECT_EQ(loader.position().at("at"), (i + 1) * 4)
            << "the position is that of the batch handed out, not of the reader";
        loader.recycle(std::move(batch));
      }
      EXPECT_EQ(loader.stats().num_batches, 50);
    }
}

TEST(Loader, ContinuesFromItsPositionAndSeeksBack) {
  Loader loader(std::make_unique<CountingSource>(), decode_number, small_config());
  for (int i = 0; i < 3; ++i) loader.next();
  const Json position = loader.position();
  const HostBatch expected = loader.next();
  Loader other(std::make_unique<CountingSource>(), decode_number, small_config());
  other.seek(position);
  EXPECT_EQ(other.position(), position);
  EXPECT_EQ(other.next().text_BT, expected.text_BT);
  loader.next();
  loader.seek(position);
  EXPECT_EQ(loader.next().text_BT, expected.text_BT);
}

TEST(Loader, AFiniteSourceEndsWithASmallerBatchAndThenEmptyOnes) {
  for (const int64_t length : {0, 1, 4, 10, 12}) {
    auto source = std::make_unique<CountingSource>();
    source->length = length;
    Loader loader(std::move(source), decode_number, small_config());
    int64_t seen = 0;
    for (;;) {
      const HostBatch batch = loader.next();
      if (batch.num_samples == 0) break;
      EXPECT_EQ(batch.num_samples, std::min<int64_t>(4, length - seen));
      EXPECT_EQ(static_cast<int64_t>(batch.keys.size()), batch.num_samples);
      EXPECT_EQ(static_cast<int64_t>(batch.image_BYXC.size()), batch.num_samples * 12);
      seen += batch.num_samples;
    }
    EXPECT_EQ(seen, length);
    EXPECT_EQ(loader.next().num_samples, 0);
  }
}

TEST(Loader, AnErrorOfTheReaderSurfacesBehindTheBatchesBeforeIt) {
  auto source = std::make_unique<CountingSource>();
  source->fails_at = 10;
  Loader loader(std::move(source), decode_number, small_config());
  EXPECT_EQ(loader.next().num_samples, 4);
  EXPECT_EQ(loader.next().num_samples, 4);
  for (int i = 0; i < 3; ++i) {
    try {
      loader.next();
      FAIL();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "source failed at 10");
    }
  }
  EXPECT_EQ(loader.position().at("at"), 8);
}

TEST(Loader, ABadSampleStopsAtItsBatchWithTheFirstError) {
  const auto decoder = [](const RawSample& sample, SampleSlot& slot) {
    decode_number(sample, slot);
    if (sample.id == 9 || sample.id == 10) throw DataError("bad " + sample.key);
  };
  for (int i = 0; i < 20; ++i) {
    Loader loader(std::make_unique<CountingSource>(), decoder, small_config());
    loader.next();
    loader.next();
    try {
      loader.next();
      FAIL();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "bad 9");
    }
  }
}

TEST(Loader, OtherErrorsOfADecoderSurfaceEvenWhenBadSamplesAreSkipped) {
  LoaderConfig config = small_config();
  config.on_bad_sample = OnBadSample::kSkip;
  const auto decoder = [](const RawSample& sample, SampleSlot&) {
    if (sample.id == 5) throw std::bad_alloc();
  };
  Loader loader(std::make_unique<CountingSource>(), decoder, config);
  loader.next();
  EXPECT_THROW(loader.next(), std::bad_alloc);
}

TEST(Loader, SkippedSamplesAreReplacedCountedAndListed) {
  LoaderConfig config = small_config();
  config.on_bad_sample = OnBadSample::kSkip;
  const auto decoder = [](const RawSample& sample, SampleSlot& slot) {
    if (sample.id % 6 == 3 && std::stoll(sample.key) % 1000 < 3 + static_cast<int64_t>(sample.id)) {
      if (std::stoll(sample.key) == static_cast<int64_t>(sample.id) || std::stoll(sample.key) % 1000 == 1)
        throw DataError("bad " + sample.key);
    }
    decode_number(sample, slot);
  };
  Loader loader(std::make_unique<CountingSource>(), decoder, config);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 3; ++i) {
    const HostBatch batch = loader.next();
    for (size_t s = 0; s < 4; ++s) tokens.push_back(batch.text_BT[s * 3]);
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 1, 2, 3002, 4, 5, 6, 7, 8, 9002, 10, 11}));
  EXPECT_EQ(loader.num_bad_samples(), 2);
  ASSERT_EQ(loader.bad_samples().size(), 2u);
  EXPECT_EQ(loader.bad_samples()[1].key, "9");
  EXPECT_EQ(loader.bad_samples()[1].reason, "bad 9");
}

TEST(Loader, LostSamplesOfACutShardAreReplacedCountedAndListed) {
  core::TempDir folder;
  SourceConfig source;
  source.spec = write_shards(folder.path(), {9, 14, 7, 10});
  source.global_batch = 4;
  source.keep_lost = true;
  ASSERT_TRUE(prepare_index(source, 1));
  const auto bad = folder.path() / "001.tar";
  lockstep::tests::write_file(bad, core::read_file(bad).substr(0, 5000));
  LoaderConfig config = small_config();
  config.on_bad_sample = OnBadSample::kSkip;
  const auto decoder = [](const RawSample& sample, SampleSlot& slot) {
    slot.text_T[0] =
        static_cast<int32_t>(sample.require(std::vector<std::string>{"txt"}, "text", "--text-key").bytes.size());
  };
  Loader loader(open_train_source(source), decoder, config);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i)
    for (const HostBatch batch = loader.next(); const std::string& key : batch.keys) EXPECT_FALSE(key.ends_with(":"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(loader.num_bad_samples(), 12) << "2 of 14 can be read";
  EXPECT_EQ(loader.bad_samples().size(), 12u);
  for (const BadSample& sample : loader.bad_samples()) {
    EXPECT_EQ(sample.shard, bad.string());
    EXPECT_NE(sample.reason.find("was cut"), std::string::npos) << sample.reason;
  }
  for (const char* told : {"(1 so far)", "(2 so far)", "(3 so far)", "(4 so far)", "(8 so far)"})
    EXPECT_NE(log.find(told), std::string::npos) << told << " in\n" << log;
  EXPECT_EQ(log.find("(5 so far)"), std::string::npos) << "warnings are rare where bad samples are many";
}

TEST(BadSamples, AreListedAsLinesThatAResumedRunAddsTo) {
  const core::TempDir folder;
  const std::filesystem::path file = folder.path() / "bad_samples.rank3.jsonl";
  const std::vector<BadSample> first = {{"a.tar", 512, "k\xff", "data: \"no\" sound"}, {"b.tar", 0, "k2", "empty"}},
                               second = {{"c.tar", 7, "k3", "cut"}};
  append_bad_samples(file, 3, first);
  append_bad_samples(file, 3, second);
  const std::vector<std::string> lines = core::split(core::read_file(file), "\n");
  ASSERT_EQ(lines.size(), 4u);  // the last one is empty
  EXPECT_EQ(Json::parse(lines[0]), (Json{{"rank", 3},
                                         {"shard", "a.tar"},
                                         {"offset", 512},
                                         {"key", "k\xef\xbf\xbd"},
                                         {"reason", "data: \"no\" sound"}}));
  EXPECT_EQ(Json::parse(lines[1]).at("key"), "k2");
  EXPECT_EQ(Json::parse(lines[2]).at("reason"), "cut");
  EXPECT_THROW(append_bad_samples("/nonexistent/x.jsonl", 0, first), EnvironmentError);
}

TEST(Loader, TooManyBadSamplesOrNoSubstituteEndTheRun) {
  LoaderConfig config = small_config();
  config.on_bad_sample = OnBadSample::kSkip;
  config.max_bad_samples = 3;
  const auto first_attempt_bad = [](const RawSample& sample, SampleSlot&) {
    if (sample.key == std::to_string(sample.id)) throw DataError("bad " + sample.key);
  };
  Loader loader(std::make_unique<CountingSource>(), first_attempt_bad, config);
  EXPECT_THROW(loader.next(), DataError);
  const auto always_bad = [](const RawSample&, SampleSlot&) { throw DataError("bad"); };
  Loader hopeless(std::make_unique<CountingSource>(), always_bad, config);
  try {
    hopeless.next();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("4 substitutes"), std::string::npos) << error.what();
  }
}

TEST(Loader, ABatchThatNoMemoryHoldsIsAnErrorOfTheCaller) {
  LoaderConfig config = small_config();
  config.image_pixels = config.context_length = 0;
  config.micro_batch_size = int64_t{1} << 61;  // more labels than a vector can have
  Loader loader(std::make_unique<CountingSource>(), decode_number, config);
  EXPECT_THROW(loader.next(), std::length_error);
  EXPECT_THROW(loader.next(), std::length_error);
}

TEST(Loader, EndsPromptlyWhileTheInputHangsOrTheQueueIsFull) {
  {
    auto source = std::make_unique<CountingSource>();
    source->hangs_at = 6;
    Loader loader(std::move(source), decode_number, small_config());
    EXPECT_EQ(loader.next().num_samples, 4);
  }
  for (int i = 0; i < 50; ++i) {
    Loader loader(std::make_unique<CountingSource>(), decode_number, small_config());
    if (i % 2 == 1) loader.next();
  }
}

TEST(Loader, RefusesImpossibleSettings) {
  for (const auto change :
       {+[](LoaderConfig& c) { c.micro_batch_size = 0; }, +[](LoaderConfig& c) { c.num_workers = 0; },
        +[](LoaderConfig& c) { c.prefetch_batches = 0; }}) {
    LoaderConfig config = small_config();
    change(config);
    EXPECT_THROW(Loader(std::make_unique<CountingSource>(), decode_number, config), UsageError);
  }
}

TEST(Loader, MissingPicturesOfATableAreBadSamples) {
  core::TempDir folder;
  lockstep::tests::write_file(folder.path() / "a.jpg", "A");
  SourceConfig source;
  source.spec =
      lockstep::tests::write_file(folder.path() / "t.csv", "filepath,title\na.jpg,one\nmissing.jpg,two\na.jpg,three\n");
  source.csv_separator = ",";
  source.shuffle = false;
  const auto decoder = [](const RawSample& sample, SampleSlot& slot) {
    ASSERT_EQ(sample.find("jpg")->bytes, "A");
    slot.text_T[0] = static_cast<int32_t>(sample.find("txt")->bytes.size());
  };
  LoaderConfig config = small_config();
  config.micro_batch_size = 1;
  Loader strict(open_train_source(source), decoder, config);
  strict.next();
  try {
    strict.next();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("missing.jpg"), std::string::npos) << error.what();
  }
  config.on_bad_sample = OnBadSample::kSkip;
  config.max_attempts = 64;
  Loader lenient(open_train_source(source), decoder, config);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(lenient.next().num_samples, 1);
  EXPECT_EQ(lenient.num_bad_samples(), 2);
}

TEST(Loader, ResumesTarDataInMidEpochToTheVeryBatch) {
  core::TempDir folder;
  SourceConfig source;
  source.spec = write_shards(folder.path(), {9, 14, 7, 11});
  source.global_batch = 4;
  const auto decoder = [](const RawSample& sample, SampleSlot& slot) {
    slot.text_T[0] = static_cast<int32_t>(sample.id);
    slot.text_T[1] = static_cast<int32_t>(sample.find("txt")->bytes.size());
  };
  Loader loader(open_train_source(source), decoder, small_config());
  std::vector<Json> positions = {loader.position()};
  std::vector<HostBatch> batches;
  for (int i = 0; i < 25; ++i) {
    batches.push_back(loader.next());
    positions.push_back(loader.position());
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    Loader resumed(open_train_source(source), decoder, small_config());
    resumed.seek(positions[i]);
    const HostBatch batch = resumed.next();
    EXPECT_EQ(batch.keys, batches[i].keys);
    EXPECT_EQ(batch.text_BT, batches[i].text_BT);
    EXPECT_EQ(resumed.position(), positions[i + 1]);
  }
}

}  // namespace
}  // namespace lockstep::data
